"""Which cells are compared, and that a difference is paired, counted and corrected right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.checkpoints import read_scores
from fgrpo_bench.analysis.comparisons import p_of_draws
from fgrpo_bench.analysis.question import group_sizes, pairs_of
from fgrpo_bench.analysis.rows import make_cell
from fgrpo_bench.specs.cell import COLUMNS, from_columns
from fgrpo_bench.stats.intervals import DIFFERENCES, estimate
from fgrpo_bench.stats.multiplicity import benjamini_hochberg, holm
from fgrpo_bench.stats.significance import draws_test
from tests.support.report import ONE_SEED, constant, copy, every_comparison, forget, small_sweep

FOCAL, PLAIN = "grpo-n8-g1", "grpo-n8-g0"


def asked(analysis):
    rows = analysis.comparisons.filter(analysis.comparisons["group"].is_not_null())
    return list(dict.fromkeys(rows.select("group", "name").iter_rows()))


def cell(algorithm, group_size, focal_gamma=0.0, factor=1.0):
    values = dict(zip(COLUMNS, (algorithm, group_size, focal_gamma, factor), strict=True))
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


def test_the_gamma_sweep_compares_within_each_algorithm(tmp_path):
    pairs = asked(analyse(small_sweep(tmp_path, "gamma", ONE_SEED)))
    assert [group for group, _ in pairs if "base model" not in group] == [
        f"{name} N=8, focal weight against none"
        for name in ("GRPO", "DAPO", "CISPO")
        for _ in "123"
    ]
    assert sum("base model" in group for group, _ in pairs) == 12


def test_a_control_is_compared_with_what_differs_in_nothing_else():
    plain = {"low_lr_gamma": None, "entropy_coef": 0.0, "kl_coef": 0.0, "clip_low": 0.2}
    declared = {
        "grpo": plain | {"name": "grpo"},
        "grpo-kl": plain | {"name": "grpo-kl", "kl_coef": 0.1},
        "dapo": plain | {"name": "dapo", "clip_low": 0.1},
    }
    cells = [cell("dapo", 8), cell("grpo", 8), cell("grpo-kl", 8), cell("grpo-kl", 16)]
    pairs = [pair for pair in pairs_of(cells, declared) if pair.kind == "controls"]
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


def test_cells_without_results_are_not_compared(finished, tmp_path):
    results = forget(copy(finished, tmp_path), *(f"{PLAIN}-s{seed}" for seed in (11, 12, 13)))
    pairs = asked(analyse(results))
    assert not any("focal weight against none" in group for group, _ in pairs)
    assert ("F-GRPO against GRPO N=32", "N=8 gamma=1") in pairs


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
            assert row.p_holm is None and row.verdict == ("suggestive" if excludes else "open")
        else:
            robust = excludes and row.p_holm < 0.05
            assert row.verdict == ("robust" if robust else "suggestive" if excludes else "open")
    assert {row.verdict for row in every_comparison(analysis)} == {"suggestive", "open"}


def test_a_large_difference_of_the_family_is_robust_and_any_other_only_suggestive(tmp_path):
    rates = constant(Base=0.1, GRPO=0.2, F_GRPO=0.6)
    analysis = analyse(small_sweep(tmp_path, success_rates=rates))
    assert analysis.comparison("countdown", 1, FOCAL, PLAIN).verdict == "robust"
    assert analysis.comparison("countdown", 8, FOCAL, PLAIN).verdict == "suggestive"
    assert analysis.comparison("countdown", 1, FOCAL, "base").verdict == "suggestive"


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
    assert base.is_drawn_once and not new.is_drawn_once and len(base.seeds) == 3
    assert not read_scores(finished)["countdown"]["base", 0].is_drawn_once
    variances = [cell.draw_variance(1)[None] for cell in (new, base)]
    (p,) = p_of_draws((replace(new, values=new.values[:, :, :1]), base), variances)
    sd = np.sqrt((variances[0] + 3 * variances[1]).sum()) / variances[0].size
    difference = (new.values - base.values)[:, :, 0].mean()
    assert p == pytest.approx(2 * stats.norm.sf(abs(difference) / sd))


def test_equal_cells_differ_by_nothing_and_that_is_open(tmp_path):
    rates = constant(Base=1.0, GRPO=1.0, F_GRPO=1.0)
    for row in every_comparison(analyse(small_sweep(tmp_path, "smoke", success_rates=rates))):
        room = -np.log(0.025) / row.n_problems  # for one that neither solves, or one of them alone
        assert (row.difference, row.p, row.verdict) == (0, 1, "open")
        assert (row.low, row.high) == pytest.approx((-room, room))
        assert row.agreeing == 0
