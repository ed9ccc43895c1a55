"""pass@k of cells: what is there, what is missing, and what every seed has."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.checkpoints import read_scores
from fgrpo_bench.stats.intervals import FRACTIONS, estimate
from tests.support.report import copy, forget, nine_benchmarks, rewrite_passk

FOCAL = "grpo-n8-g1"


def test_means_and_intervals_are_those_of_the_stored_tables(finished, analysis):
    stored = [p.passk("countdown") for p in finished.points if p.point_id.startswith("grpo-n8-g0-")]
    values = np.stack(
        [frame.filter(k=32).sort("problem_id")["pass_at_k"].to_numpy() for frame in stored]
    )
    (expected,) = estimate(values[:, :, None], limits=FRACTIONS)
    row = analysis.estimate("countdown", "grpo-n8-g0", 32)
    assert (row.mean, *row.by_seed) == pytest.approx((expected.mean, *expected.by_seed), abs=1e-12)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert row.standard_error == pytest.approx(expected.standard_error)
    assert row.degrees == pytest.approx(expected.degrees)
    assert (row.seeds, row.n_samples, row.n_problems) == ((11, 12, 13), 64, 24)
    assert not row.is_incomplete and row.unscored == 0


def test_problems_are_matched_by_name_and_not_by_their_place(finished, analysis, tmp_path):
    results = copy(finished, tmp_path)
    rewrite_passk(results.points[-1], lambda frame: frame.sample(fraction=1, shuffle=True, seed=1))
    assert analyse(results).estimates.equals(analysis.estimates)


def test_a_problem_without_an_estimate_is_left_out_of_that_k_in_every_seed(finished, tmp_path):
    results = copy(finished, tmp_path)
    too_few = (pl.col("problem_id") == "p003") & (pl.col("k") == 32)
    rewrite_passk(
        results.points[-1],
        lambda frame: frame.with_columns(
            pl.when(too_few).then(None).otherwise(pl.col("pass_at_k")).alias("pass_at_k"),
            pl.when(pl.col("problem_id") == "p003")
            .then(20)
            .otherwise("n_scored")
            .alias("n_scored"),
            pl.when(pl.col("problem_id") == "p003")
            .then(pl.min_horizontal("n_correct", 20))
            .otherwise("n_correct")
            .alias("n_correct"),
        ).cast(dict(frame.schema)),
    )
    rows = analyse(results).over_k("countdown", FOCAL)
    assert [row.n_problems for row in rows] == [24, 24, 23]
    assert [row.lacks for row in rows] == [(), (), ("23 of 24 problems",)]
    assert rows[0].unscored == pytest.approx((64 - 20) / (3 * 24 * 64))
    others = [
        point.passk("countdown").filter(pl.col("problem_id") != "p003", k=32)["pass_at_k"].mean()
        for point in results.points[-3:]
    ]
    assert rows[2].by_seed == pytest.approx(tuple(others))


def test_bounds_are_the_means_were_all_unscored_draws_wrong_or_right(finished, tmp_path):
    results = copy(finished, tmp_path)
    rewrite_passk(
        results.points[-1],
        lambda frame: frame.with_columns(
            (pl.col("pass_at_k") / 2).alias("pass_at_k_low"), pl.lit(1.0).alias("pass_at_k_high")
        ),
    )
    row = analyse(results).estimate("countdown", FOCAL, 1)
    first, second, third = row.by_seed
    assert row.all_wrong == pytest.approx((first + second + third / 2) / 3)
    assert row.all_right == pytest.approx((first + second + 1) / 3)


def test_clusters_are_numbered_as_they_appear_and_halves_and_seeds_keep_them(finished, tmp_path):
    results = copy(finished, tmp_path)
    assert {own.clusters for own in read_scores(results)["countdown"].values()} == {None}
    names = [f"p{i:03d}" for i in range(24)]
    shared = {name: "ba"[i % 2] for i, name in enumerate(names) if i >= 4}
    for point in results.points:
        rewrite_passk(point, lambda table: with_clusters(table, shared))
    scores = read_scores(results)["countdown"]["base", 0]
    assert scores.clusters.tolist() == [0, 1, 2, 3, *[4, 5] * 10]
    assert scores.for_seeds(scores.seeds[:1]).clusters.tolist() == scores.clusters.tolist()
    for is_first in (True, False):
        half = scores.selection_split(for_selection=is_first)
        numbers, of = {}, [shared.get(name, name) for name in half.problems]
        expected = [numbers.setdefault(each, len(numbers)) for each in of]
        assert half.clusters.tolist() == expected and len(numbers) < len(of) < 24
    rows = analyse(results).problems.select("problem_id", "cluster").unique()
    assert dict(rows.iter_rows()) == dict.fromkeys(names) | shared


def test_a_problem_that_evaluations_put_into_different_clusters_is_refused(finished, tmp_path):
    results = copy(finished, tmp_path)
    for point, name in zip(results.points, ("a", "b", *"a" * len(results.points)), strict=False):
        rewrite_passk(point, lambda table, name=name: with_clusters(table, {"p003": name}))
    with pytest.raises(
        ValueError, match=r"problem p003 of countdown is of cluster 'a' in one .* 'b'"
    ):
        analyse(results)
    rewrite_passk(results.points[1], lambda table: with_clusters(table, {}))
    with pytest.raises(
        ValueError, match=r"problem p003 of countdown is of cluster None in one .* 'a'"
    ):
        analyse(results)


def with_clusters(table, of):
    """A table of pass@k whose problems have these clusters, by name, and the others none."""
    clusters = [of.get(name) for name in table["problem_id"]]
    return table.with_columns(cluster=pl.Series(clusters, dtype=pl.String))


def test_points_without_results_are_missing_and_not_counted(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n8-g1-s13", "grpo-n2-g0-s11", "base-s12")
    analysis = analyse(results)
    assert {point for point, _ in analysis.missing} == {
        *("grpo-n8-g1-s13", "grpo-n2-g0-s11", "base-s12")
    }
    row = analysis.estimate("countdown", "grpo-n2-g0", 1)
    assert row.seeds == (12, 13) and row.lacks == ("2 of 3 seeds",) and row.is_incomplete
    runs = dict(analysis.cost.select("cell", "n_runs").iter_rows())
    assert (runs["grpo-n2-g0"], runs["grpo-n4-g0"]) == (2, 3)


def test_a_sweep_with_nothing_done_has_every_row_and_no_value(finished, tmp_path):
    results = copy(finished, tmp_path)
    analysis = analyse(forget(results, *(point.point_id for point in results.points)))
    assert len(analysis.estimates) == 8 * 3 and analysis.estimates["mean"].null_count() == 8 * 3
    assert analysis.comparisons.is_empty() and analysis.coverage.is_empty()
    assert analysis.estimates["lacks"].list.len().sum() == 0, "a value that is none lacks nothing"


def test_costs_are_read_from_metrics_and_markers(analysis):
    rows = {row["cell"]: row for row in analysis.cost.iter_rows(named=True)}
    row = rows["grpo-n4-g0"]
    assert (row["rollouts"], row["optimizer_steps"]) == (256 * 20, 2 * 20)
    assert (row["train_cpu_seconds"], row["evaluate_cpu_seconds"]) == (11.25, 11.25)
    assert rows["base"]["rollouts"] is None
    assert analysis.graders(["countdown"]) == ("countdown-1",)


@pytest.mark.slow
def test_an_average_is_the_mean_over_its_benchmarks_seed_by_seed(tmp_path):
    grid = "sweep.grid.seed=[11,12]"
    results = nine_benchmarks(tmp_path, "smoke", grid, "experiment.evaluation.n_samples=256")
    analysis = analyse(results)
    assert analysis.headline == ("average in-domain", "average out-of-domain")
    assert analysis.columns[0] == "average in-domain" and len(analysis.columns) == 11
    for title, names in analysis.averages.items():
        for cell in analysis.by_cell:
            for k in analysis.ks:
                parts = [analysis.estimate(name, cell, k) for name in names]
                row = analysis.estimate(title, cell, k)
                assert row.mean == pytest.approx(np.mean([part.mean for part in parts]))
                by_seed = np.mean([part.by_seed for part in parts], axis=0)
                assert row.by_seed == pytest.approx(tuple(by_seed))
                assert row.standard_error < max(part.standard_error for part in parts)
