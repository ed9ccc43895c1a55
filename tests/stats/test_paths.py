"""Paths in the plane of pass@1 and pass@k: what is on one, and the gap between two."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from fgrpo_bench.stats.paths import END, LEVELS, MEAN, PassCurve, along, at_pass_at_1, gaps, on_path


@pytest.mark.parametrize("n", [2, 3, 6])
def test_between_checkpoints_a_path_is_scipys_monotone_cubic(n):
    rng = np.random.default_rng(n)
    x, y = np.sort(rng.random((20, n)), axis=1), rng.random((20, n, 3))
    at = x[:, :1] + (x[:, -1:] - x[:, :1]) * np.linspace(0, 1, 9)
    ours = along(x, y, at)
    for path in range(20):
        theirs = PchipInterpolator(x[path], y[path])(at[path])
        np.testing.assert_allclose(ours[path], theirs, atol=1e-12)


def test_a_checkpoint_is_on_the_path_where_its_pass_at_1_is_above_all_earlier_ones_and_the_luck():
    pass_at_1 = np.array([0.1, 0.2, 0.15, 0.2005, 0.3])
    assert on_path(pass_at_1, np.zeros(5)).tolist() == [0, 1, 3, 4]
    assert on_path(pass_at_1, np.full(5, 0.001**2)).tolist() == [0, 1, 4]
    assert on_path(pass_at_1, np.full(5, np.nan)).tolist() == [0, 1, 3, 4]
    assert on_path(np.array([0.2, 0.1, 0.2]), np.zeros(3)).tolist() == [0]


def path(rng, rise, fall, *, n_problems=40, base=None):
    """One seed with two k: pass@1 rises and pass@k falls from 0.2 and 0.8 on, with noise by
    problem."""
    noise = rng.normal(0, 0.05, (1, len(rise), n_problems))
    noise -= noise.mean(axis=2, keepdims=True)
    x = 0.2 + np.array(rise)[None, :, None] + noise
    y = (0.8 - np.array(fall)[None, :, None] - 2 * noise)[..., None] * np.ones(2)
    if base is not None:  # one base model
        x[:, 0], y[:, 0] = base.pass_at_1[:, 0], base.pass_at_k[:, 0]
    return PassCurve(pass_at_1=x, pass_at_k=y, noise=np.zeros((1, len(rise))))


def test_straight_paths_have_the_gap_of_their_slopes():
    rng = np.random.default_rng(0)
    old = path(rng, [0, 0.1, 0.2, 0.3], [0, 0.1, 0.2, 0.3])
    new = path(rng, [0, 0.05, 0.15, 0.2], [0, 0.025, 0.075, 0.1], base=old)
    found = gaps([new], [old])
    assert found.meet and found.low[0] == pytest.approx(0.2) and found.high == pytest.approx([0.4])
    assert found.by_seed[0, END] == pytest.approx([0.1, 0.1])
    assert found.by_seed[0, MEAN] == pytest.approx([0.05, 0.05])
    assert found.levels == pytest.approx(np.linspace(0.2, 0.4, LEVELS))
    assert found.by_seed[0, MEAN + 1 :, 0] == pytest.approx((found.levels - 0.2) / 2)
    assert found.new[0, END] == pytest.approx([0.7, 0.7])
    assert gaps([old], [new]).by_seed == pytest.approx(-found.by_seed)


def test_linear_parts_have_the_gap_as_their_mean_and_follow_a_change_of_the_problems():
    rng = np.random.default_rng(1)
    old = path(rng, [0, 0.1, 0.18, 0.3], [0, 0.02, 0.1, 0.3])
    new = path(rng, [0, 0.07, 0.15, 0.22], [0, 0.01, 0.05, 0.07], base=old)
    found = gaps([new], [old])
    parts = found.parts[0]
    np.testing.assert_allclose(parts.mean(axis=1), found.by_seed, atol=1e-12)
    # a little more weight for one problem, as in a resample
    weights = np.full(40, 1 / 40) + 1e-4 * (np.eye(40)[7] - 1 / 40)
    heavier = [
        PassCurve(
            pass_at_1=40 * weights * each.pass_at_1,
            pass_at_k=40 * weights[:, None] * each.pass_at_k,
            noise=each.noise,
        )
        for each in (new, old)
    ]
    again = gaps(heavier[:1], heavier[1:]).by_seed[:, :2]
    np.testing.assert_allclose(np.einsum("p,spqk->sqk", weights, parts[:, :, :2]), again, atol=1e-6)


def test_over_two_sets_of_problems_the_path_is_that_of_the_means():
    rng = np.random.default_rng(2)
    old = path(rng, [0, 0.1, 0.2], [0, 0.1, 0.2])
    new = path(rng, [0, 0.1, 0.2], [0, 0.05, 0.1], base=old)
    same = path(rng, [0, 0.1, 0.2], [0, 0.1, 0.2], n_problems=30)
    found = gaps([new, same], [old, same])
    assert found.by_seed[0, END, 0] == pytest.approx(0.05)
    assert [of_set.shape[1] for of_set in found.parts] == [40, 30]
    for of_set in found.parts:
        np.testing.assert_allclose(of_set.mean(axis=1), found.by_seed, atol=1e-12)


def test_paths_whose_ranges_do_not_meet_have_no_gap():
    rng = np.random.default_rng(3)
    old = path(rng, [0, 0.1], [0, 0.1])
    still = path(rng, [0, -0.05], [0, 0.2], base=old)
    found = gaps([still], [old])
    assert not found.meet and np.isnan(found.by_seed).all() and len(found.levels) == 0
    assert found.width[0].mean() == pytest.approx(0)


def test_pass_at_k_of_a_path_where_it_reaches_a_pass_at_1():
    x, y = np.array([0.1, 0.2, 0.4]), np.array([1.0, 0.8, 0.5])
    spline = PchipInterpolator(x, y)
    assert at_pass_at_1(0.3, x, y) == pytest.approx(float(spline(0.3)))
    assert at_pass_at_1(0.4, x, y) == pytest.approx(0.5)
    behind = np.insert(x, 2, 0.15), np.insert(y, 2, 0.1)  # falls back: not on the path
    assert at_pass_at_1(0.3, *behind) == at_pass_at_1(0.3, x, y)
    assert at_pass_at_1(0.41, x, y) is None and at_pass_at_1(0.05, x, y) is None
