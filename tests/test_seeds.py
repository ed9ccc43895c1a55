"""Seeds and uniform numbers: fixed, spread, and independent of how they are asked for."""

import numpy as np

from fgrpo_bench.core.seeds import draw_seeds, stream, uniforms


def test_a_draws_seed_does_not_depend_on_which_others_are_asked_for():
    everything = draw_seeds(7, ["a", "b", "c"], np.arange(1024))
    np.testing.assert_array_equal(
        draw_seeds(7, ["b"], np.arange(512, 1024))[0], everything[1, 512:]
    )


def test_seeds_differ_by_base_problem_and_draw_and_fit_a_signed_integer():
    seeds = np.concatenate(
        [draw_seeds(base, ["a", "b"], np.arange(50_000)).ravel() for base in (0, 1)]
    )
    assert len(np.unique(seeds)) == len(seeds)
    assert seeds.min() >= 0


def test_uniform_numbers_are_uniform_and_a_longer_row_begins_with_the_shorter_one():
    seeds = draw_seeds(3, ["p"], np.arange(20_000))[0]
    u = uniforms(seeds, 8)
    assert u.min() >= 0 and u.max() < 1
    np.testing.assert_allclose(u.mean(0), 0.5, atol=0.02)
    np.testing.assert_allclose(np.corrcoef(u.T), np.eye(8), atol=0.05)
    np.testing.assert_array_equal(uniforms(seeds, 3), u[:, :3])


def test_streams_of_different_parts_differ():
    assert stream(1, "rollout", 2) != stream(1, "rollout", 3)
    assert stream("1", "2") == stream(1, 2)
