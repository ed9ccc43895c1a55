"""Intervals against exhaustive enumeration, closed forms and simulated coverage."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from fgrpo_bench.stats.intervals import (
    BLOCK,
    DIFFERENCES,
    FRACTIONS,
    bootstrap_means,
    by_cluster,
    conclude,
    estimate,
    estimate_difference,
    resample,
    resample_together,
    room_of_difference,
    tails,
)
from fgrpo_bench.stats.spread import spread, variance

ENDLESS = (-np.inf, np.inf)
UNIT = st.floats(0, 1)
DATA = st.tuples(st.integers(1, 3), st.integers(2, 5), st.integers(1, 2)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=UNIT)
)


def test_the_bootstrap_distribution_is_that_of_all_resamples_in_turn():
    values = np.array([[0.0, 0.5, 1.0], [0.25, 0.25, 0.75]])
    every = [
        np.mean([[values[s, p] for p in problems] for s in seeds])
        for seeds in product(range(2), repeat=2)
        for problems in product(range(3), repeat=3)
    ]
    drawn = bootstrap_means(values[:, :, None])[0]
    assert set(np.round(drawn, 12)) == set(np.round(every, 12))
    assert drawn.mean() == pytest.approx(np.mean(every), abs=0.005)
    assert drawn.var() == pytest.approx(np.var(every), rel=0.05)
    below = np.array([[np.mean(x <= at + 1e-9) for at in sorted(every)] for x in (every, drawn)])
    assert np.abs(below[0] - below[1]).max() < 0.02


def test_variance_due_to_seeds_is_understated_by_one_part_in_the_number_of_seeds():
    by_seed = np.array([0.2, 0.3, 0.7])
    values = np.repeat(by_seed[:, None, None], 40, axis=1)
    unbiased = by_seed.var(ddof=1) / 3
    assert bootstrap_means(values).var() == pytest.approx(unbiased * 2 / 3, rel=0.05)


def test_seeds_without_other_variance_give_students_interval_of_their_means():
    seeds = np.random.default_rng(7).normal(5, 2, (4, 1, 3))
    for column, made in enumerate(
        estimate(np.repeat(seeds, 40, axis=1), limits=ENDLESS, level=0.9)
    ):
        own = seeds[:, 0, column]
        known = stats.t.interval(0.9, 3, own.mean(), own.std(ddof=1) / 2)
        # The resamples of four seeds are few, so that their percentiles are coarse.
        assert made.high - made.low == pytest.approx(known[1] - known[0], rel=0.06)


def test_one_seed_gives_students_interval_over_problems():
    values = np.random.default_rng(6).normal(3, 1, (1, 60, 1))
    made = estimate(values, limits=ENDLESS)[0]
    known = stats.ttest_1samp(values.ravel(), 0).confidence_interval()
    assert (made.low, made.high) == pytest.approx(tuple(known), abs=0.02)
    below = estimate(values - known.low, limits=ENDLESS)[0]
    assert below.p_value == pytest.approx(0.05, abs=0.01)


def test_variance_due_to_neither_is_counted_up_to_three_times():
    size = 30
    noise = np.random.default_rng(2).normal(size=(size, size, 40))
    ratio = bootstrap_means(noise, replicates=2000).var(axis=1).mean() * size**2
    assert ratio == pytest.approx((2 - 1 / size) ** 2 - 1, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_seeds", "n_problems", "of_seeds", "of_problems", "of_neither", "least", "most"),
    [
        (2, 2, 1.0, 0.0, 0.0, 0.935, 1.0),
        (2, 20, 1.0, 1.0, 0.0, 0.935, 1.0),
        (3, 2, 1.0, 0.0, 0.0, 0.925, 0.975),
        (25, 40, 0.1, 0.2, 0.1, 0.90, 0.98),
    ],
)
def test_intervals_hold_a_symmetric_mean_as_often_as_they_say(
    n_seeds, n_problems, of_seeds, of_problems, of_neither, least, most
):
    rng, trials = np.random.default_rng(1), 400 if n_seeds > 3 else 800
    values = 5 + of_seeds * rng.normal(size=(n_seeds, 1, trials))
    values = values + of_problems * rng.normal(size=(1, n_problems, trials))
    values = values + of_neither * rng.normal(size=(n_seeds, n_problems, trials))
    made = estimate(values, limits=ENDLESS)
    assert least <= np.mean([one.low <= 5 <= one.high for one in made]) <= most


def test_paired_differences_are_narrower_than_the_cells_where_problems_differ():
    rng = np.random.default_rng(4)
    difficulty = rng.random((1, 60, 1))
    old = difficulty + 0.01 * rng.normal(size=(3, 60, 1))
    new = old + 0.05 + 0.01 * rng.normal(size=(3, 60, 1))
    paired, alone = estimate(new - old, limits=DIFFERENCES)[0], estimate(new, limits=ENDLESS)[0]
    assert 0.04 < paired.low < paired.mean < paired.high < 0.06
    assert paired.high - paired.low < (alone.high - alone.low) / 5


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(DATA)
def test_ends_of_fractions_are_fractions_and_enclose_narrower_levels(values):
    wide, narrow = (estimate(values, limits=FRACTIONS, level=level) for level in (0.99, 0.8))
    for column, (outer, inner) in enumerate(zip(wide, narrow, strict=True)):
        data = values[:, :, column]
        slack = 1e-12
        assert 0 <= outer.low <= inner.low + slack
        assert inner.low <= outer.mean + slack <= inner.high + 2 * slack
        assert inner.high - slack <= outer.high <= 1
        assert outer.mean == pytest.approx(data.mean(), abs=1e-12)
        assert outer.by_seed == pytest.approx(tuple(data.mean(axis=1)), abs=1e-12)


def test_where_all_problems_are_alike_at_an_end_there_is_room_for_one_that_was_not_seen():
    """1 - 0.025^(1 / n) of all could be unlike them and not be seen in n, in 1 of 40 cases."""
    for n_seeds, n_problems in ((1, 49), (3, 49), (2, 256)):
        none, every = estimate(
            np.stack([np.zeros((n_seeds, n_problems)), np.ones((n_seeds, n_problems))], axis=2),
            limits=FRACTIONS,
        )
        room = -np.log(0.025) / n_problems
        assert (none.mean, none.low, none.high) == (0, 0, pytest.approx(room))
        assert (every.mean, every.low, every.high) == (1, pytest.approx(1 - room), 1)


def test_cells_that_are_both_perfect_differ_by_nothing_but_may():
    perfect = np.ones((3, 49, 1))
    (made,) = estimate_difference(perfect, perfect)
    room = -np.log(0.025) / 49
    assert (made.low, made.mean, made.high) == (pytest.approx(-room), 0, pytest.approx(room))
    assert made.p_value == 1
    (lost,) = estimate_difference(0 * perfect, perfect)  # all of them: it may be less, not more
    assert (lost.low, lost.mean, lost.high) == (-1, -1, pytest.approx(room - 1))


def test_there_is_room_near_the_ends_alone():
    values = np.random.default_rng(3).uniform(0.2, 0.7, (3, 256, 5))
    without = resample(values, limits=FRACTIONS, room=np.zeros((2, 3, 5)))
    assert conclude(resample(values, limits=FRACTIONS)) == conclude(without)
    assert not room_of_difference(values, values[::-1]).any(axis=2)[:, 1:].any()


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(2, 60), st.integers(0, 2**32 - 1))
@example(2, 2, 1190)  # less than one degree of freedom, and problems that do not vary
def test_no_p_below_5_percent_stands_beside_an_interval_that_holds_0(n_seeds, n_problems, seed):
    rng = np.random.default_rng(seed)
    unlike = rng.random((2, n_seeds, n_problems, 12)) < rng.choice([0.0, 0.02, 0.2, 0.5], 12)
    new, old = 1 - unlike * rng.random(unlike.shape)
    for made in estimate_difference(new, old):
        assert (made.p_value < 0.05) == (made.low > 0 or made.high < 0), made
        assert made.low < made.high


@pytest.mark.parametrize("n_seeds", [1, 2, 3, 5])
def test_p_is_the_level_at_which_the_interval_ends_at_0(n_seeds):
    rng = np.random.default_rng(n_seeds)
    values = rng.normal(0.6, 1, (n_seeds, 40, 30)) + rng.normal(0, 0.3, (n_seeds, 1, 30))
    varied = variance(values.mean(axis=1), spread(values))
    made = estimate(values, limits=ENDLESS)
    reach = [one.mean - one.low if one.mean > 0 else one.high - one.mean for one in made]
    shape = np.array(reach) / varied.half_width(0.025)
    ends = shape * varied.half_width(np.array([one.p_value for one in made]) / 2)
    np.testing.assert_allclose(ends, np.abs([one.mean for one in made]), rtol=1e-6)
    assert min(one.p_value for one in made) < 0.01


def test_a_small_p_of_three_seeds_is_not_that_of_the_degrees_of_95_percent():
    """Seeds that agree by chance: the part of them still has Student's t with two degrees."""
    by_seed = np.array([0.12, 0.125, 0.13])[:, None, None]
    noise = np.random.default_rng(8).normal(0, 0.2, (3, 256, 1))
    (made,) = estimate(by_seed + noise - noise.mean(axis=1, keepdims=True), limits=ENDLESS)
    former = 2 * stats.t.sf(made.mean / made.standard_error, made.degrees)
    assert former < 1e-4 and 10 * former < made.p_value < 0.01


def test_problems_that_are_copies_of_one_another_count_as_one():
    rng = np.random.default_rng(4)
    values = rng.random((3, 40, 2)) + rng.normal(0, 0.1, (3, 1, 2))
    copies, clusters = np.repeat(values, 5, axis=1), np.repeat(np.arange(40), 5)
    alone = estimate(values, limits=ENDLESS)
    for made, own in zip(estimate(copies, limits=ENDLESS, clusters=clusters), alone, strict=True):
        assert made.n_problems == 200
        assert (made.mean, made.low, made.high, made.p_value) == pytest.approx(
            (own.mean, own.low, own.high, own.p_value)
        )
    narrower = estimate(copies, limits=ENDLESS)
    assert all(a.high - a.low < b.high - b.low for a, b in zip(narrower, alone, strict=True))
    perfect = estimate(np.ones((3, 200, 1)), limits=FRACTIONS, clusters=clusters)[0]
    assert perfect.low == pytest.approx(1 + np.log(0.025) / 40)


def test_clusters_of_one_problem_are_problems_and_contributions_have_the_mean_of_all():
    values = np.random.default_rng(5).random((2, 9, 3))
    np.testing.assert_allclose(by_cluster(values, np.arange(9)), values)
    uneven = by_cluster(values, np.array([0, 0, 0, 0, 5, 5, 1, 1, 1]))
    assert uneven.shape == (2, 3, 3)
    np.testing.assert_allclose(uneven.mean(axis=1), values.mean(axis=1))


def test_a_problem_counts_only_where_every_seed_has_a_value():
    values = np.arange(12, dtype=float).reshape(2, 3, 2)
    values[1, 0, 1] = np.nan
    whole, part = estimate(values, limits=ENDLESS)
    assert (whole.n_problems, part.n_problems) == (3, 2)
    assert part.mean == values[:, 1:, 1].mean()
    assert part == estimate(values[:, 1:, 1:], limits=ENDLESS)[0]
    assert whole == estimate(values[:, :, :1], limits=ENDLESS)[0]


def test_nothing_is_said_without_data():
    (no_value,) = estimate(np.full((2, 3, 1), np.nan), limits=FRACTIONS)
    (no_seed,) = estimate(np.empty((0, 3, 1)), limits=FRACTIONS)
    assert (no_value.mean, no_value.low, no_value.n_problems) == (None, None, 0)
    assert no_value.n_seeds == 2
    assert (no_seed.mean, no_seed.high, no_seed.n_seeds) == (None, None, 0)
    assert estimate(np.empty((0, 0, 2)), limits=FRACTIONS)[1].mean is None


def test_one_problem_has_a_mean_but_no_interval():
    made = estimate(np.array([[[0.25]], [[0.75]]]), limits=FRACTIONS)[0]
    assert (made.mean, made.low, made.high, made.by_seed) == (0.5, None, None, (0.25, 0.75))


def test_the_same_shape_gives_the_same_resamples():
    values = np.random.default_rng(5).random((3, 8, 1))
    np.testing.assert_array_equal(bootstrap_means(values), bootstrap_means(values.copy()))
    np.testing.assert_allclose(
        bootstrap_means(2 * values + 1), 2 * bootstrap_means(values) + 1, rtol=1e-12
    )
    assert (bootstrap_means(values, seed=1) != bootstrap_means(values)).any()


def test_cells_resampled_together_have_the_ends_that_they_have_alone():
    rng = np.random.default_rng(3)
    cells = [rng.random(shape) for shape in [(3, 20, 2), (2, 20, 2), (3, 20, 2), (0, 20, 2)]]
    cells[2][0, 4, 1] = np.nan
    together = resample_together(cells, limits=FRACTIONS, stream=1)
    for own, values in zip(together, cells, strict=True):
        alone = resample(values, limits=FRACTIONS, stream=1)
        np.testing.assert_allclose(own.means, alone.means, rtol=1e-13)
        np.testing.assert_allclose(own.by_seed, alone.by_seed, rtol=1e-13)
        np.testing.assert_array_equal(own.n_problems, alone.n_problems)
    assert resample_together([], limits=FRACTIONS) == []


def test_more_columns_than_are_resampled_at_once_are_all_resampled():
    values = np.random.default_rng(4).random((2, 6, BLOCK))
    drawn = bootstrap_means(values, replicates=50)
    for column in (0, BLOCK // 2 - 1, BLOCK // 2, BLOCK - 1):
        one = bootstrap_means(values[:, :, [column]], replicates=50)[0]
        np.testing.assert_allclose(drawn[column], one, rtol=1e-13)


def test_tails_are_the_quantiles():
    means = np.random.default_rng(6).normal(size=(4, 1_001))
    for tail in (0.0, 0.025, 0.1234, 0.4):
        quantiles = np.quantile(means, [tail, 1 - tail], axis=1)
        np.testing.assert_allclose(tails(means, tail), quantiles, rtol=1e-13)


def test_differences_end_within_what_there_can_be():
    values = np.where(np.arange(40)[None, :, None] < 38, 0.9, -0.9) * np.ones((2, 1, 1))
    values[1] *= 0.1
    made = estimate(values, limits=DIFFERENCES)[0]
    assert (made.low, made.high) == (-1, 1)


def test_a_difference_that_is_nowhere_negative_may_still_end_below_zero():
    values = np.zeros((2, 40, 1))
    values[0, :8] = 0.4  # one seed gains on some problems, the other nowhere
    (made,) = estimate(values, limits=DIFFERENCES)
    nearly = values.copy()
    nearly[1, -1] = -1e-9
    (beside,) = estimate(nearly, limits=DIFFERENCES)
    assert made.p_value > 0.05 and made.low < 0 < made.high
    assert (made.low, made.high) == pytest.approx((beside.low, beside.high), abs=1e-6)
    (fraction,) = estimate(values, limits=FRACTIONS)
    assert fraction.low == 0 and fraction.high > made.high  # near 0 there is room


def test_two_seeds_without_other_variance_give_students_interval_of_their_means():
    seeds = np.array([0.2, 0.3])
    (made,) = estimate(np.repeat(seeds[:, None, None], 40, axis=1), limits=ENDLESS)
    known = stats.ttest_1samp(seeds, 0)
    ends = known.confidence_interval()
    assert (made.low, made.high) == pytest.approx((ends.low, ends.high))
    assert made.p_value == pytest.approx(known.pvalue)


@pytest.mark.parametrize("scale", [1.0, 0.3, 0.1])
def test_p_is_students_however_small_it_is(scale):
    values = np.random.default_rng(12).normal(3, scale, (1, 60, 1))
    (made,) = estimate(values, limits=ENDLESS)
    exact = float(stats.ttest_1samp(values.ravel(), 0).pvalue)
    assert exact < 1e-20
    # The bootstrap's shape is not quite symmetric, which a far tail shows most.
    assert np.log(made.p_value) == pytest.approx(np.log(exact), rel=0.1)
