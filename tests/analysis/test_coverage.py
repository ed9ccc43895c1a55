"""Problems retained, lost and gained against the base models."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.coverage import by_point, by_problem, outcomes
from fgrpo_bench.stats.coverage import coverage
from tests.support.report import constant, forget, small_sweep

FATES = ("retained", "lost", "gained", "neither")


def test_every_problem_counts_once_and_the_base_models_have_no_row(analysis):
    rows = analysis.coverage.to_dicts()
    assert len(rows) == 7 * 3 and "base" not in {row["cell"] for row in rows}
    for row in rows:
        assert sum(row[fate] for fate in FATES) == pytest.approx(24)
        assert (row["n_seeds"], row["n_problems"]) == (3, 24)


def test_what_is_certain_is_counted_where_the_draws_are_enough(tmp_path):
    rates = constant(Base=0.5, GRPO=0.0, F_GRPO=0.5)
    analysis = analyse(small_sweep(tmp_path, "smoke", success_rates=rates))
    row = analysis.covered("countdown", "grpo-n4-g0", 8)
    assert (row.surely_lost, row.surely_gained) == (24, 0)
    assert row.lost == pytest.approx(24, abs=0.05)
    assert row.lost_share == pytest.approx(1, abs=0.01)
    same = analysis.covered("countdown", "grpo-n4-g1", 8)
    assert (same.surely_lost, round(same.retained, 3)) == (0, 24)
    few = analysis.covered("countdown", "grpo-n4-g0", 32)  # from 64 draws none is surely lost
    assert few.surely_lost == 0


def test_without_base_models_there_is_no_coverage(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    bases = [point.point_id for point in results.points if point.cell is None]
    assert analyse(forget(results, *bases)).coverage.is_empty()


def test_every_problem_of_a_point_is_told_beside_the_base_model_of_its_seed(tmp_path):
    results = forget(small_sweep(tmp_path, "groupsize", "sweep.grid.group_size=[2,8]"), "base-s12")
    analysis = analyse(results)
    rows = outcomes(analysis.problems, "countdown", 8)
    assert len(rows) == 24 * (2 + 4 * 3)
    names = ("problem_id", "cell", "seed", "n_scored", "n_correct")
    counts = {row[:3]: row[3:] for row in analysis.problems.select(names).iter_rows()}
    for row in rows.filter(seed=11).iter_rows(named=True):
        n, right = counts[row["problem_id"], row["cell"], row["seed"]]
        assert (row["n_scored"], row["n_correct"], row["success_rate"]) == (n, right, right / n)
        if row["cell"] == "base":
            assert row["lost"] is None and row["drop"] is None
        else:
            n_old, old = counts[row["problem_id"], "base", 11]
            made = coverage(n_old=[n_old], old=[old], n_new=[n], new=[right], k=8, solved_only=True)
            assert [row[fate] for fate in FATES] == [getattr(made, fate)[0] for fate in FATES]
            assert row["drop"] == old / n_old - right / n
    assert rows.filter(seed=12)["lost"].null_count() == 24 * 4
    assert set(by_point(rows)["seed"]) == {11, 13}
    means = by_problem(rows)
    assert means["problem_id"].to_list() == sorted(set(analysis.problems["problem_id"]))
    assert means["lost"].to_list() == pytest.approx(
        rows.drop_nulls("lost").group_by("problem_id").agg(pl.col("lost").mean()).sort("problem_id")
        ["lost"].to_list()
    )  # fmt: skip
