"""Bands of a sweep: the numbers of comparisons at every k, from few directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.comparisons import Resamples, bands
from fgrpo_bench.analysis.question import Compared
from fgrpo_bench.stats.bands import grid, largest, reach
from fgrpo_bench.stats.bootstrap import bootstrap_means
from fgrpo_bench.stats.intervals import conclude, room_of_difference
from fgrpo_bench.stats.passk import pass_at_ks
from fgrpo_bench.stats.spread import spread
from tests.calibration import AVERAGE, BENCHMARKS, simulated
from tests.support.planted import KS
from tests.support.report import every_comparison, small_sweep

PAIR = Compared(new=("new", 1), old=("old", 1), pair=None)


@pytest.fixture(scope="module")
def resamples():
    return simulated(np.random.default_rng(0), 3)


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    return analyse(small_sweep(tmp_path_factory.mktemp("runs"), "smoke"))


def differences(resamples, name, ks):
    new, old = (
        pass_at_ks(side.n_scored, side.n_correct, ks)
        for side in resamples.paired(name, PAIR.new, PAIR.old)
    )
    return new - old


def test_a_band_is_that_of_resamples_at_every_k_though_few_directions_are_resampled(resamples):
    rows = list(bands(resamples, [PAIR], ("usual",), KS))
    ks = grid(KS)
    assert tuple(row.k for row in rows) == ks
    values = differences(resamples, "usual", ks)
    sides = [side.pass_at_ks(ks) for side in resamples.paired("usual", PAIR.new, PAIR.old)]
    by_problem = values.mean(axis=0)
    drawn = bootstrap_means(by_problem[None], stream=resamples.streams["usual"])
    half = reach(
        ks,
        by_seed=values.mean(axis=1),
        parts=spread(values),
        strays=largest(np.eye(len(ks)), drawn - by_problem.mean(axis=0)[:, None]),
        room=room_of_difference(*sides),
    )
    np.testing.assert_allclose([row.difference for row in rows], values.mean(axis=(0, 1)))
    np.testing.assert_allclose([row.difference - row.low for row in rows], half[0], rtol=1e-3)
    np.testing.assert_allclose([row.high - row.difference for row in rows], half[1], rtol=1e-3)


def test_the_band_of_an_average_is_about_the_mean_of_its_benchmarks(resamples):
    rows = list(bands(resamples, [PAIR], (AVERAGE,), KS))
    each = [differences(resamples, name, grid(KS)).mean(axis=(0, 1)) for name in BENCHMARKS]
    np.testing.assert_allclose([row.difference for row in rows], np.mean(each, axis=0))
    alone = Resamples(resamples.scores, {AVERAGE: ("usual",)})
    of_one = list(bands(alone, [PAIR], (AVERAGE,), KS))
    assert of_one == [
        replace(row, column=AVERAGE) for row in bands(resamples, [PAIR], ("usual",), KS)
    ]


def judged(resamples, name, method, n_scored):
    """The same with other numbers of judged draws, [problems]."""
    own = resamples.scores[name][method, 1]
    counts = np.broadcast_to(n_scored, own.n_scored.shape)
    resamples.scores[name][method, 1] = replace(
        own, n_scored=counts, n_correct=np.minimum(own.n_correct, counts)
    )


def test_a_problem_counts_up_to_the_k_that_it_has_draws_for():
    made = simulated(np.random.default_rng(1), 2)
    few = np.where(np.arange(100) < 20, 40, 256)
    judged(made, "usual", "new", few)
    rows = list(bands(made, [PAIR], ("usual",), KS))
    assert rows[-1].k == KS[-1]
    values = differences(made, "usual", grid(KS))
    for row, own in zip(rows, np.moveaxis(values, 2, 0), strict=True):
        kept = own if row.k <= 40 else own[:, 20:]
        assert row.difference == pytest.approx(kept.mean())


def test_a_band_ends_where_fewer_than_half_of_the_problems_have_draws_enough():
    made = simulated(np.random.default_rng(1), 2)
    judged(made, "usual", "old", np.where(np.arange(100) < 51, 40, 256))
    ks = [row.k for row in bands(made, [PAIR], ("usual", AVERAGE), KS) if row.column == "usual"]
    assert ks == [k for k in grid(KS) if k <= 40]
    ks = [row.k for row in bands(made, [PAIR], (AVERAGE,), KS)]
    assert ks == [k for k in grid(KS) if k <= 40]


def test_no_band_without_draws_or_a_seed_in_common():
    made = simulated(np.random.default_rng(1), 2)
    judged(made, "usual", "old", 0)
    assert list(bands(made, [PAIR], ("usual", AVERAGE), KS)) == []
    made = simulated(np.random.default_rng(1), 2)
    made.scores["usual"]["old", 1] = made.scores["usual"]["old", 1].of_seeds(())
    assert list(bands(made, [PAIR], ("usual",), KS)) == []


def test_every_asked_pair_has_a_band_and_a_first_loss_and_the_others_none(analysis):
    asked = {(row.column, row.new, row.old) for row in every_comparison(analysis) if row.group}
    assert asked == set(analysis.first_loss.select("column", "new", "old").iter_rows())
    for column, new, old in asked:
        band = analysis.band(column, new, old)
        at = {row.k: row for row in band}
        for k in analysis.ks:
            compared = analysis.comparison(column, k, new, old)
            assert at[k].difference == pytest.approx(compared.difference, abs=1e-12)
            assert at[k].low <= at[k].difference <= at[k].high
        loss = analysis.first_loss_of(column, new, old)
        assert loss.words and (loss.high is None or loss.low <= loss.high)
    assert analysis.band("countdown", "base", "base") == ()
    assert analysis.first_loss_of("countdown", "base", "base") is None


def test_problems_that_come_twice_in_a_cluster_change_no_interval_and_no_band(resamples):
    def twice(own):
        names = tuple(f"{problem}{copy}" for problem in own.problems for copy in "ab")
        fields = ("present", "values", "n_scored", "n_correct", "n_drawn")
        return replace(
            own,
            problems=names,
            cluster_names=tuple(name[:-1] for name in names),
            bounds=np.repeat(own.bounds, 2, axis=2),
            **{field: np.repeat(getattr(own, field), 2, axis=1) for field in fields},
        )

    once = resamples.scores["usual"]
    alone, doubled = (
        Resamples({"usual": scores}, {})
        for scores in (once, {at: twice(own) for at, own in once.items()})
    )
    for at in (PAIR.new, PAIR.old):
        ends = [[one.high for one in conclude(each.of("usual", at))] for each in (doubled, alone)]
        assert ends[0] == pytest.approx(ends[1])
    both, single = (
        conclude(each.difference("usual", PAIR.new, PAIR.old)[1]) for each in (doubled, alone)
    )
    for field in ("mean", "low", "high", "p_value"):
        ends = [[getattr(one, field) for one in rows] for rows in (both, single)]
        assert ends[0] == pytest.approx(ends[1])
    of_both, of_alone = (list(bands(each, [PAIR], ("usual",), KS)) for each in (doubled, alone))
    for row, same in zip(of_both, of_alone, strict=True):
        assert (row.k, row.low, row.high) == pytest.approx((same.k, same.low, same.high), rel=1e-4)
