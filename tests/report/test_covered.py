"""Problems retained, lost and gained, as a table."""

from __future__ import annotations

import pytest

from fgrpo_bench.report.covered import coverage_table
from fgrpo_bench.report.summarise import summarise
from tests.support.report import ONE_SEED, constant, small_sweep


def rows_of(table):
    return {row[:3]: dict(zip(table.header[3:], row[3:], strict=True)) for row in table.rows}


def test_a_row_has_every_problem_once_and_none_for_the_base_model(summary):
    rows = rows_of(coverage_table(summary, "countdown"))
    assert ("Base", "-", "-") not in rows and len(rows) == len(summary.cells) - 1
    for row in rows.values():
        total = sum(float(row[fate]) for fate in ("retained", "lost", "gained", "neither"))
        assert total == pytest.approx(24, abs=0.2)
        assert row["seeds"] == "3"


def test_what_is_certain_is_counted_where_the_draws_are_enough(tmp_path):
    rates = constant(Base=0.5, GRPO=0.0, F_GRPO=0.5)
    few = summarise(small_sweep(tmp_path / "few", "groupsize", ONE_SEED, success_rates=rates))
    ks = "experiment.evaluation.ks=[1,8]"
    more = [ONE_SEED, "experiment.evaluation.n_samples=64", ks]
    many = summarise(small_sweep(tmp_path / "many", "groupsize", *more, success_rates=rates))
    lost = rows_of(coverage_table(many, "countdown"))["GRPO", "8", "0"]
    assert (lost["surely lost"], lost["retained"]) == ("24.0", "0.0")
    assert not any("none can be surely" in note for note in coverage_table(many, "countdown").notes)
    table = coverage_table(few, "countdown")  # 64 draws at k = 32
    assert rows_of(table)["GRPO", "8", "0"]["surely lost"] == "0.0"
    assert any("From 64 draws none can be surely lost or gained" in note for note in table.notes)
