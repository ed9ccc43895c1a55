"""Variance of a mean over crossed seeds and problems, against what was planted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fgrpo_bench.stats.spread import ENDLESS, average_spread, spread, variance


def crossed(*, seeds, problems, left, shape=(4, 12), times=4_000, seed=0):
    """Values with effects of these standard deviations, [seeds, problems, times]."""
    rng = np.random.default_rng(seed)
    s, p = shape
    return (
        seeds * rng.normal(size=(s, 1, times))
        + problems * rng.normal(size=(1, p, times))
        + left * rng.normal(size=(s, p, times))
    )


TAIL = 0.025
"""Of a 95% interval."""


def known(values):
    """Variance of the mean, and the degrees of freedom of its 95% interval."""
    varied = variance(values.mean(axis=1), spread(values))
    return varied.total, varied.degrees(TAIL)


@pytest.mark.parametrize("parts", [(1.0, 2.0, 0.5), (0.3, 2.0, 1.0), (1.0, 0.0, 0.0)])
def test_the_variance_is_that_which_was_planted_on_average(parts):
    values = crossed(seeds=parts[0], problems=parts[1], left=parts[2])
    planted = parts[0] ** 2 / 4 + parts[1] ** 2 / 12 + parts[2] ** 2 / 48
    assert known(values)[0].mean() == pytest.approx(planted, rel=0.06)
    assert values.mean(axis=(0, 1)).var() == pytest.approx(planted, rel=0.06)


def test_degrees_of_freedom_are_those_of_what_varies():
    assert known(crossed(seeds=1, problems=0, left=0))[1] == pytest.approx(3)
    of_problems = known(crossed(seeds=0, problems=1, left=0, times=5))
    assert of_problems[1] == pytest.approx(11)
    both = known(crossed(seeds=1, problems=2, left=0.1))[1]
    assert 3 < np.median(both) < 14


def test_with_one_seed_it_is_the_variance_over_problems():
    values = np.random.default_rng(1).random((1, 9, 2))
    made, degrees = known(values)
    np.testing.assert_allclose(made, values[0].var(axis=0, ddof=1) / 9)
    np.testing.assert_allclose(degrees, 8)


def test_seeds_that_agree_by_chance_leave_what_is_due_to_neither():
    values = np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]])[:, :, None]
    made, _ = known(values)
    assert made == pytest.approx(2.0 / 3 / 8)  # squares of 1 / 2 over 3 degrees, of 8 values


def test_nothing_varied_has_no_variance_and_no_bound():
    made, degrees = known(np.full((3, 5, 1), 0.5))
    assert (made[0], degrees[0]) == (0, ENDLESS)


def test_an_average_over_independent_problems_varies_less():
    parts = [crossed(seeds=0, problems=1, left=0, shape=(3, n), seed=n) for n in (6, 10)]
    by_seed = np.mean([one.mean(axis=1) for one in parts], axis=0)
    varied = variance(by_seed, average_spread([spread(one) for one in parts]))
    made, degrees = varied.total, varied.degrees(TAIL)
    assert made.mean() == pytest.approx((1 / 6 + 1 / 10) / 4, rel=0.05)
    means = np.mean([one.mean(axis=(0, 1)) for one in parts], axis=0)
    assert made.mean() == pytest.approx(means.var(), rel=0.06)
    assert (degrees > 5).all() and np.median(degrees) < 14


def test_two_seeds_have_one_degree_where_they_alone_differ_and_more_where_problems_do_too():
    shape = {"shape": (2, 12)}
    assert known(crossed(seeds=1, problems=0, left=0, **shape))[1] == pytest.approx(1, rel=1e-6)
    assert known(crossed(seeds=0, problems=1, left=0, **shape))[1] == pytest.approx(11, rel=1e-6)
    both = known(crossed(seeds=1, problems=1, left=0.1, **shape))[1]
    assert ((both >= 1) & (both < 11.1)).all() and 1 < np.median(both) < 2


def test_the_width_of_two_seeds_is_the_root_of_the_squares_of_its_parts():
    values = crossed(seeds=1, problems=1, left=0, shape=(2, 12), times=20)
    made, degrees = known(values)
    seeds = values.mean(axis=1).var(axis=0, ddof=1) / 2
    parts = stats.t.ppf(0.975, 1) ** 2 * seeds + stats.t.ppf(0.975, 11) ** 2 * (made - seeds)
    np.testing.assert_allclose(stats.t.ppf(0.975, degrees) ** 2 * made, parts, rtol=1e-6)


@pytest.mark.parametrize(("n_seeds", "least", "most"), [(2, 0.95, 0.99), (3, 0.94, 0.97)])
def test_few_seeds_hold_what_they_promise_at_every_proportion_of_normal_parts(n_seeds, least, most):
    """The estimated variance of seeds at its quantiles, that of problems known."""
    quantiles = (np.arange(2_000) + 0.5) / 2_000
    estimated = stats.chi2.ppf(quantiles, n_seeds - 1) / (n_seeds - 1)
    for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        ends = np.sqrt(share * estimated * n_seeds)
        by_seed = np.zeros((n_seeds, len(ends)))
        by_seed[:2] = ends * np.array([[1], [-1]]) * np.sqrt((n_seeds - 1) / 2)
        problems = np.full(len(ends), 1 - share)
        parts = np.stack([problems, 0 * problems, problems**2 / 1_000])
        held = np.mean(2 * stats.norm.cdf(variance(by_seed, parts).half_width(TAIL)) - 1)
        assert least <= held + 1e-3 and held <= most


@pytest.mark.parametrize("tail", [0.1, 0.025, 1e-4, 1e-8])
def test_the_half_width_of_every_level_is_that_of_its_own_quantiles(tail):
    values = crossed(seeds=1, problems=1, left=1, shape=(3, 12), times=20)
    varied, by_seed = variance(values.mean(axis=1), spread(values)), values.mean(axis=1)
    of_seeds = by_seed.var(axis=0, ddof=1) / 3
    np.testing.assert_allclose(varied.seeds, of_seeds)
    np.testing.assert_allclose(varied.problems, varied.total - of_seeds)
    apart = (
        stats.t.isf(tail, 2) ** 2 * varied.seeds
        + stats.t.isf(tail, varied.degrees_of_problems) ** 2 * varied.problems
    )
    together = stats.t.isf(tail, varied.satterthwaite) ** 2 * varied.total
    half_way = np.sqrt((apart + together) / 2)
    np.testing.assert_allclose(varied.half_width(tail), half_way, rtol=1e-9)
    as_students = stats.t.isf(tail, varied.degrees(tail)) * np.sqrt(varied.total)
    np.testing.assert_allclose(as_students, half_way, rtol=1e-6)
