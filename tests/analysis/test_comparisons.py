"""How cells differ: at one k, on the front of the plane, and over all k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fgrpo_bench.analysis import INCONCLUSIVE, SIGNIFICANT, SUGGESTIVE, analyse
from fgrpo_bench.analysis.checkpoints import read_scores
from fgrpo_bench.analysis.comparisons import Resamples, bands, fronts, p_over_draws
from fgrpo_bench.analysis.question import Compared, all_pairs, group_sizes
from fgrpo_bench.analysis.rows import Comparison, make_cell
from fgrpo_bench.specs.cell import COLUMNS, from_columns
from fgrpo_bench.stats.bands import band_halfwidth, grid, largest
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    bootstrap_means,
    conclude,
    estimate,
    room_of_difference,
)
from fgrpo_bench.stats.passk import pass_at_ks
from fgrpo_bench.stats.significance import benjamini_hochberg, draws_test, holm
from fgrpo_bench.stats.spread import spread
from tests.calibration import AVERAGE, BENCHMARKS, simulated
from tests.support.planted import KS
from tests.support.report import constant, copy, every_comparison, forget, small_sweep

FOCAL, PLAIN = "grpo-n8-g1", "grpo-n8-g0"


def asked(analysis):
    rows = analysis.comparisons.filter(analysis.comparisons["group"].is_not_null())
    return list(dict.fromkeys(rows.select("group", "name").iter_rows()))


def cell(algorithm, group_size, focal_gamma=0.0, factor=1.0):
    values = dict(zip(COLUMNS, (algorithm, group_size, focal_gamma, factor, None), strict=True))
    return make_cell(from_columns(values), step=300, n_planned=3)


def test_the_group_size_sweep_asks_four_questions_and_has_every_pair(analysis):
    focal, sizes = "GRPO N=8, focal weight against none", "GRPO without focal weight, group size"
    largest, base = "F-GRPO against GRPO N=32", "Training against the base model"
    assert asked(analysis) == [
        *((focal, name) for name in ("gamma=0.5", "gamma=1")),
        *((sizes, f"N={name}") for name in ("2 to 4", "2 to 8", "2 to 32", "4 to 8")),
        *((sizes, f"N={name}") for name in ("8 to 16", "8 to 32", "16 to 32")),
        *((largest, name) for name in ("N=8 gamma=0.5", "N=8 gamma=1")),
        *((base, f"GRPO N={size}") for size in (2, 4, 8, 16, 32)),
        *((base, name) for name in ("F-GRPO N=8 gamma=0.5", "F-GRPO N=8 gamma=1")),
    ]
    assert len(analysis.comparisons) == 8 * 7 // 2 * 3
    for new in analysis.by_cell:
        for old in analysis.by_cell:
            row = analysis.comparison("countdown", 8, new, old)
            assert (row is None) == (new == old)


def test_a_pair_turned_round_is_its_mirror_image(analysis):
    row = analysis.comparison("countdown", 8, FOCAL, PLAIN)
    turned = analysis.comparison("countdown", 8, PLAIN, FOCAL)
    assert (turned.new, turned.old, turned.difference) == (PLAIN, FOCAL, -row.difference)
    assert (turned.low, turned.high) == (-row.high, -row.low)
    assert (turned.p, turned.agreeing) == (row.p, row.agreeing)


def test_a_control_is_compared_with_what_differs_in_nothing_else():
    plain = {"low_lr_gamma": None, "entropy_coef": 0.0, "kl_coef": 0.0, "clip_low": 0.2}
    declared = {
        "grpo": plain | {"name": "grpo"},
        "grpo-kl": plain | {"name": "grpo-kl", "kl_coef": 0.1},
        "dapo": plain | {"name": "dapo", "clip_low": 0.1},
    }
    cells = [cell("dapo", 8), cell("grpo", 8), cell("grpo-kl", 8), cell("grpo-kl", 16)]
    pairs = [pair for pair in all_pairs(cells, declared) if pair.kind == "controls"]
    assert [(pair.new.cell, pair.old.cell) for pair in pairs] == [("grpo-kl-n8-g0", "grpo-n8-g0")]


def test_a_single_group_size_gives_no_comparison_of_sizes():
    assert list(group_sizes([cell("grpo", 8), cell("grpo", 8, 1.0)])) == []


def test_differences_are_new_minus_old_paired_by_seed_and_problem(finished, analysis):
    tables = {p.point_id: p.passk("countdown").sort("problem_id") for p in finished.points}
    values = np.stack(
        [
            (
                tables[f"{FOCAL}-s{seed}"].filter(k=32)["pass_at_k"]
                - tables[f"{PLAIN}-s{seed}"].filter(k=32)["pass_at_k"]
            ).to_numpy()
            for seed in (11, 12, 13)
        ]
    )
    (expected,) = estimate(values[:, :, None], limits=DIFFERENCES)
    row = analysis.comparison("countdown", 32, FOCAL, PLAIN)
    assert row.by_seed == pytest.approx(expected.by_seed)
    got = (row.difference, row.low, row.high, row.standard_error, row.degrees, row.p)
    assert got == pytest.approx(
        (
            *(expected.mean, expected.low, expected.high),
            *(expected.standard_error, expected.degrees, expected.p_value),
        )
    )
    assert row.agreeing == 3


@pytest.mark.slow
def test_only_seeds_that_both_cells_have_are_compared(finished, tmp_path):
    analysis = analyse(forget(copy(finished, tmp_path), f"{PLAIN}-s11", f"{FOCAL}-s13"))
    assert analysis.comparison("countdown", 1, FOCAL, PLAIN).seeds == (12,)
    row = analysis.comparison("countdown", 1, "grpo-n8-g0.5", PLAIN)
    assert row.seeds == (12, 13)
    tables = {p.point_id: p.passk("countdown").filter(k=1) for p in finished.points}
    new, old = (
        np.stack([tables[f"{name}-s{seed}"]["pass_at_k"].to_numpy() for seed in (12, 13)])
        for name in ("grpo-n8-g0.5", PLAIN)
    )
    values = new - old
    (expected,) = estimate(values[:, :, None], limits=DIFFERENCES)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high))


def test_p_values_are_corrected_over_the_family_alone(analysis):
    family = [row for row in every_comparison(analysis) if row.family is not None]
    assert analysis.family == "focal weight against none; k = 1, 32; countdown"
    assert [(row.new, row.k) for row in family] == [
        *(("grpo-n8-g0.5", 1), ("grpo-n8-g0.5", 32), (FOCAL, 1), (FOCAL, 32))
    ]
    p = [row.p for row in family]
    assert [row.p_holm for row in family] == holm(p)
    assert [row.p_bh for row in family] == benjamini_hochberg(p)
    for row in every_comparison(analysis):
        excludes = row.low > 0 or row.high < 0
        assert excludes == (row.p < 0.05)
        if row.family is None:
            assert row.p_holm is None and row.verdict == (
                "suggestive" if excludes else "inconclusive"
            )
        else:
            significant = excludes and row.p_holm < 0.05
            assert row.verdict == (
                "significant" if significant else "suggestive" if excludes else "inconclusive"
            )
    assert {row.verdict for row in every_comparison(analysis)} == {"suggestive", "inconclusive"}


def test_the_draws_alone_are_tested_where_there_are_twice_k(finished, analysis):
    tables = {p.point_id: p.passk("countdown").filter(k=1) for p in finished.points}
    new, old = (
        [c for seed in (11, 12, 13) for c in tables[f"{name}-s{seed}"]["n_correct"]]
        for name in (FOCAL, PLAIN)
    )
    row = analysis.comparison("countdown", 1, FOCAL, PLAIN)
    assert row.p_draws == pytest.approx(draws_test(old=old, new=new, n_samples=64, k=1).p_value)
    assert analysis.comparison("countdown", 32, FOCAL, PLAIN).p_draws is not None
    assert {row.p_draws is None for row in every_comparison(analysis)} == {False}


def test_the_noise_of_a_base_model_that_seeds_share_counts_for_each_of_them(finished):
    """Its mean over three seeds has the variance of one evaluation, not a third of that."""
    own = [point for point in finished.points if point.cell is None]
    shared = [replace(point, checkpoints=own[0].checkpoints) for point in own]
    scores = read_scores(replace(finished, checkpoints=(*shared, *finished.points[len(own) :])))
    base, new = scores["countdown"]["base", 0], scores["countdown"][FOCAL, finished.points[-1].step]
    assert base.is_shared_across_seeds and not new.is_shared_across_seeds and len(base.seeds) == 3
    assert not read_scores(finished)["countdown"]["base", 0].is_shared_across_seeds
    variances = [cell.draw_variance(1)[None] for cell in (new, base)]
    (p,) = p_over_draws((replace(new, values=new.values[:, :, :1]), base), variances)
    sd = np.sqrt((variances[0] + 3 * variances[1]).sum()) / variances[0].size
    difference = (new.values - base.values)[:, :, 0].mean()
    assert p == pytest.approx(2 * stats.norm.sf(abs(difference) / sd))


@pytest.mark.parametrize("which", [0, 1])
def test_a_problem_that_a_seed_has_not_judged_is_left_out_of_the_test_of_draws(finished, which):
    scores, step = read_scores(finished)["countdown"], finished.points[-1].step
    cells = [scores[name, step] for name in (FOCAL, PLAIN)]
    variances = [cell.draw_variance(1)[None] for cell in cells]
    cells = [replace(cell, values=cell.values[:, :, :1]) for cell in cells]

    def kept(cell):
        parts = {name: np.delete(getattr(cell, name), 2, axis=1) for name in ("values", "n_scored")}
        return replace(cell, **parts)

    wanted = p_over_draws(
        [kept(cell) for cell in cells], [np.delete(v, 2, axis=2) for v in variances]
    )
    n_scored, values = cells[which].n_scored.copy(), cells[which].values.copy()
    n_scored[0, 2], values[0, 2] = 0, np.nan
    cells[which] = replace(cells[which], n_scored=n_scored, values=values)
    assert p_over_draws(cells, variances) == pytest.approx(wanted) and wanted != [None]


def test_equal_cells_differ_by_nothing_and_that_is_open(tmp_path):
    rates = constant(Base=1.0, GRPO=1.0, F_GRPO=1.0)
    for row in every_comparison(analyse(small_sweep(tmp_path, "smoke", success_rates=rates))):
        room = -np.log(0.025) / row.n_problems  # for one that neither solves, or one of them alone
        assert (row.difference, row.p, row.verdict) == (0, 1, "inconclusive")
        assert (row.low, row.high) == pytest.approx((-room, room))
        assert row.agreeing == 0


def row(new, old, k, difference, verdict, family="the question"):
    nothing = dict.fromkeys(
        ("group", "name", "low", "high", "standard_error", "degrees", "p", "p_draws", "p_holm",
         "repeats", "repeats_low", "repeats_high")
    )  # fmt: skip
    return Comparison(
        **nothing,
        column="countdown",
        k=k,
        new=new,
        new_step=1,
        old=old,
        old_step=1,
        difference=difference,
        seeds=(),
        by_seed=(),
        n_problems=0,
        family=family,
        p_bh=None,
        verdict=verdict,
    )


def pair(first, last, verdicts, new="b", old="a"):
    """Differences at k = 1, at another k, which counts for nothing, and at k = 256."""
    return [
        row(new, old, 1, first, verdicts[0]),
        row(new, old, 16, -first, SIGNIFICANT),
        row(new, old, 256, last, verdicts[1]),
    ]


@pytest.mark.parametrize(
    ("rows", "dominated"),
    [
        ([row("b", "a", k, 0.1, INCONCLUSIVE, family=None) for k in (1, 256)], None),
        (pair(0.01, 0.1, (INCONCLUSIVE, SIGNIFICANT)), {"a": ("b",)}),
        (pair(0.1, 0.0, (SIGNIFICANT, INCONCLUSIVE)), {"a": ("b",)}),
        (pair(0.1, 0.1, (SIGNIFICANT, SIGNIFICANT)), {"a": ("b",)}),
        (pair(-0.1, -0.001, (SIGNIFICANT, SUGGESTIVE)), {"b": ("a",)}),
        (pair(-0.01, 0.1, (INCONCLUSIVE, SIGNIFICANT)), {}),  # incomparable: worse at the other
        (pair(-0.1, 0.1, (SIGNIFICANT, SIGNIFICANT)), {}),
        (pair(0.1, 0.1, (SUGGESTIVE, SUGGESTIVE)), {}),  # not significant is not dominated
        (
            pair(0.1, 0.1, (INCONCLUSIVE, SIGNIFICANT))
            + pair(-0.1, -0.1, (INCONCLUSIVE, SIGNIFICANT), new="a", old="c"),
            {"a": ("b", "c")},
        ),
    ],
)
def test_a_cell_is_dominated_by_one_that_is_significantly_better_and_nowhere_worse(rows, dominated):
    made = {each.cell: each for each in fronts(rows, ["a", "b", "c"], ["countdown"], [1, 256])}
    assert {c: row.dominated_by for c, row in made.items() if row.dominated_by} == (dominated or {})
    asked = {cell for row in rows if row.family for cell in (row.new, row.old)}
    for cell, row in made.items():
        assert row.is_on_front == ((cell not in dominated) if cell in asked else None)


def test_with_a_single_k_what_is_significantly_worse_there_is_dominated():
    rows = [row("b", "a", 1, 0.1, SIGNIFICANT)]
    made = fronts(rows, ["a", "b"], ["countdown"], [1])
    assert [row.dominated_by for row in made] == [("b",), ()]


PLANTED = {"nsr": (0.9, 0.5), "psr": (0.5, 0.8)}
"""Share of problems that a method ever solves, and its success rate on these: NSR is planted above
the others at every k, PSR above them at k = 1 and below at k = 32."""


@pytest.mark.slow
def test_a_planted_method_that_is_better_everywhere_dominates_grpo(tmp_path):
    def rates(point, rng, n_problems):
        share, level = PLANTED.get(point.cell and point.cell.algorithm, (0.7, 0.4))
        solved = np.arange(n_problems) < share * n_problems
        return np.where(solved, level + rng.uniform(-0.01, 0.01, n_problems), 0.0)

    cells = ["sweep.grid.algorithm=[grpo,nsr,psr,rloo]", "sweep.cells=[]"]
    cells += ["sweep.family.pairs=[methods]"]
    analysis = analyse(small_sweep(tmp_path, "methods", *cells, success_rates=rates))
    assert dict(analysis.front.select("cell", "dominated_by").iter_rows()) == {
        "grpo-n8-g0": ["nsr-n8-g0"],
        "nsr-n8-g0": [],
        "psr-n8-g0": [],
        "rloo-n8-g0": [],
    }
    psr = [analysis.comparison("countdown", k, "psr-n8-g0", "grpo-n8-g0") for k in (1, 32)]
    assert psr[0].difference > 0 > psr[1].difference, "better at one k alone"
    assert analysis.on_front("countdown", "base") is None
    assert analysis.on_front("countdown", "grpo-n8-g0").is_on_front is False


PAIR = Compared(new=("new", 1), old=("old", 1), pair=None)


@pytest.fixture(scope="module")
def resamples():
    return simulated(np.random.default_rng(0), 3)


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
    half = band_halfwidth(
        ks,
        by_seed=values.mean(axis=1),
        parts=spread(values),
        largest_deviations=largest(np.eye(len(ks)), drawn - by_problem.mean(axis=0)[:, None]),
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
    made.scores["usual"]["old", 1] = made.scores["usual"]["old", 1].for_seeds(())
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
        ends = [
            [one.high for one in conclude(each.for_cell("usual", at))] for each in (doubled, alone)
        ]
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
