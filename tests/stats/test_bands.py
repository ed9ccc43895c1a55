"""Bands over all k, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fgrpo_bench.stats.bands import (
    SINGLE,
    STEPS,
    band_halfwidth,
    describe_band,
    first_loss,
    grid,
    largest,
)
from fgrpo_bench.stats.intervals import bootstrap_means
from fgrpo_bench.stats.spread import spread, variance


def reach_of(values, ks=None):
    """[ks], of values [seeds, problems, ks]."""
    by_problem = values.mean(axis=0)
    return band_halfwidth(
        ks or range(1, values.shape[2] + 1),
        by_seed=values.mean(axis=1),
        parts=spread(values),
        largest_deviations=largest(
            np.eye(values.shape[2]),
            bootstrap_means(by_problem[None]) - by_problem.mean(axis=0)[:, None],
        ),
        room=np.zeros((2, 3, values.shape[2])),
    )[0]


def students(values):
    """Half the width of Student's interval at each k."""
    return variance(values.mean(axis=1), spread(values)).half_width(0.025)


def test_the_grid_has_every_small_k_every_declared_one_and_short_steps_between():
    ks = grid((1, 37, 200))
    assert ks[:SINGLE] == tuple(range(1, SINGLE + 1)) and ks[-1] == 200 and 37 in ks
    steps = np.diff(ks) / np.array(ks[:-1])
    assert list(ks) == sorted(set(ks)) and max(steps[SINGLE:]) <= 1 / STEPS
    assert grid((1, 4)) == (1, 2, 3, 4) and grid((1,)) == (1,)


def test_one_run_at_one_k_has_students_interval():
    values = np.random.default_rng(0).normal(0.1, 1, (1, 60, 1))
    assert reach_of(values) == pytest.approx(students(values), rel=0.03)


def test_a_curve_of_one_direction_is_no_wider_than_an_interval():
    values = np.random.default_rng(1).normal(size=(1, 60, 1)) * np.linspace(0.1, 2, 30)
    np.testing.assert_allclose(reach_of(values), students(values), rtol=0.03)


def test_independent_columns_have_sidaks_width():
    deviations = np.random.default_rng(2).normal(size=(10, 20_000))
    made = band_halfwidth(
        range(1, 11),
        by_seed=np.zeros((1, 10)),
        parts=np.array([np.ones(10), np.zeros(10), np.zeros(10)]),
        largest_deviations=largest(np.eye(10), deviations),
        room=np.zeros((2, 3, 10)),
    )
    assert made == pytest.approx(stats.norm.ppf((1 + 0.95**0.1) / 2), rel=0.01)


def test_seeds_that_differ_alone_and_alike_at_every_k_have_students_interval():
    rng = np.random.default_rng(3)
    noise = 1e-6 * rng.normal(size=(3, 40, 1))  # so that problems have a share at all
    values = (rng.normal(size=(3, 1, 1)) + noise) * np.linspace(1, 2, 5)
    np.testing.assert_allclose(reach_of(values), students(values), rtol=1e-3)


@pytest.mark.parametrize("n_seeds", [1, 2, 3, 10])
def test_nowhere_is_a_band_narrower_than_students_interval(n_seeds):
    rng = np.random.default_rng(n_seeds)
    for _ in range(5):
        values = rng.normal(size=(1, 30, 6)) + rng.normal(size=(n_seeds, 1, 6))
        values = values + rng.normal(size=(n_seeds, 30, 6))
        assert (reach_of(values) >= students(values) * (1 - 1e-12)).all()


def test_where_two_seeds_cross_by_chance_the_band_is_not_pinched():
    rng, slope = np.random.default_rng(5), np.linspace(-1, 1, 21)
    seeds = np.array([1.0, -1.0])[:, None, None] * slope
    values = seeds + rng.normal(size=(1, 40, 1)) + 0.1 * rng.normal(size=(2, 40, 21))
    made = reach_of(values)
    assert made[10] > 2 * students(values)[10]  # in the middle both seeds are equal
    assert made.max() < 3 * made.min()


def test_what_does_not_vary_has_no_width():
    assert (reach_of(np.full((3, 20, 4), 0.25)) == 0).all()


CASES = [
    ([0.1, 0.1], [0.2, 0.2], (None, None), "better at every k"),
    ([-0.1, -0.1], [0.2, 0.2], (1, None), "undecided at every k"),
    ([-0.2, -0.2], [-0.1, -0.1], (1, 1), "worse at every k"),
    ([0.1, -0.1], [0.2, 0.1], (2, None), "better at 1, undecided at 2"),
    ([0.0, 0.0], [0.0, 0.0], (None, None), "undecided at every k"),
]


@pytest.mark.parametrize(("low", "high", "first", "words"), CASES)
def test_first_losses_and_words_of_two_k(low, high, first, words):
    assert first_loss((1, 2), np.array(low), np.array(high)) == first
    assert describe_band((1, 2), np.array(low), np.array(high)) == words


def test_a_curve_that_falls_is_better_then_undecided_then_worse():
    ks = grid((64,))
    centre = 0.31 - 0.1 * np.log2(ks)
    low, high = centre - 0.1, centre + 0.1
    assert first_loss(ks, low, high) == (5, 18)
    assert (
        describe_band(ks, low, high)
        == "better for k up to 4, undecided from 5 to 17, worse from 18"
    )


def test_between_the_k_of_the_grid_ends_are_straight_in_log_k():
    low = np.array([0.02, -0.02])
    assert first_loss((32, 64), low, low) == (46, 46)  # 32 times the root of 2 is 45.25


def test_training_that_recovers_is_said_in_turn():
    low, high = np.array([-0.3, -0.1, 0.1, -0.1]), np.array([-0.1, 0.1, 0.3, 0.1])
    words = "worse at 1, undecided at 2, better at 3, undecided at 4"
    assert describe_band((1, 2, 3, 4), low, high) == words
