"""The CSV files: one row a cell and k, unrounded but for digits that depend on the machine."""

from __future__ import annotations

from typing import Any

import polars as pl

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import CellRow, schema
from fgrpo_bench.report.against_paper import check_fixed
from fgrpo_bench.specs.cell import COLUMNS

_OF_CELL: dict[str, Any] = {
    name: schema(CellRow)[name] for name in ("method", *COLUMNS) if name != "learning_rate_factor"
}
"""method (Base, GRPO, F-GRPO, ...; it names another learning rate), algorithm (empty for Base,
likewise the next ones), group_size and focal_gamma."""
RESULTS = pl.Schema(
    {
        "sweep": pl.String,
        "experiment": pl.String,
        "model": pl.String,
        **_OF_CELL,
        "step": pl.Int64,
        "benchmark": pl.String,  # or the name of an average of several
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction; empty where nothing is done
        "ci_low": pl.Float64,  # of the 95% interval; empty likewise, and with one problem
        "ci_high": pl.Float64,
        "n_seeds": pl.Int64,
        "n_problems": pl.Int64,  # with a value for every seed
        "n_samples": pl.Int64,  # draws a problem, the most; of an average the fewest
        "n_draws": pl.Float64,  # that were made of a problem until it stopped, mean
        "design": pl.String,  # when problems stop; empty where all make n_samples draws
        "is_redesigned": pl.Boolean,  # whether that was changed when draws were there
    }
)
BESIDE_PAPER = pl.Schema(
    {
        "paper_pass_at_k": pl.Float64,  # the published one at this k; empty where there is none
        "difference": pl.Float64,  # ours less it
    }
)
"""Columns behind these with the published figures."""
BY_TASK = pl.Schema(
    {
        "sweep": pl.String,
        "experiment": pl.String,
        "model": pl.String,
        **_OF_CELL,
        "step": pl.Int64,
        "benchmark": pl.String,
        "task": pl.String,
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction; empty where no problem has a value for every seed
        "n_seeds": pl.Int64,
        "n_problems": pl.Int64,  # of the task, judged or not
        "n_draws": pl.Int64,  # of the task, over problems and seeds
        "n_unscored": pl.Int64,  # of these: draws that the grader could not judge
    }
)


def results_csv(analysis: Analysis, *, compare_paper: bool = False) -> str:
    """Every benchmark and average (RESULTS). compare_paper: with the columns of BESIDE_PAPER;
    raises as `check_fixed`."""
    if compare_paper:
        check_fixed(analysis)
    rows = analysis.estimates.filter("is_chosen").drop("step")
    rows = rows.rename({"column": "benchmark", "mean": "pass_at_k", "low": "ci_low",
                        "high": "ci_high", "published": "paper_pass_at_k"})  # fmt: skip
    rows = rows.with_columns(
        n_seeds=pl.col("seeds").list.len(),
        design=pl.col("designs").list.join("; or ").replace("", None),
        difference=pl.col("pass_at_k") - pl.col("paper_pass_at_k"),
    )
    beside = BESIDE_PAPER.items() if compare_paper else ()
    return _text(analysis, rows, pl.Schema([*RESULTS.items(), *beside]))


def by_task_csv(analysis: Analysis) -> str:
    """Every task of the benchmarks that are made of tasks (BY_TASK)."""
    return _text(analysis, analysis.tasks, BY_TASK)


def _text(analysis: Analysis, rows: pl.DataFrame, columns: pl.Schema) -> str:
    """Fractions to 12 digits after the point: those behind depend on how many threads added up."""
    results = analysis.results
    named = {"sweep": results.paths.sweep, "experiment": results.paths.experiment,
             "model": results.model}  # fmt: skip
    joined = rows.join(analysis.cells, on="cell", how="left", maintain_order="left")
    return (
        joined.with_columns(pl.lit(value).alias(name) for name, value in named.items())
        .select(pl.col(name).cast(kind) for name, kind in columns.items())
        .with_columns(pl.col(pl.Float64).round(12))
        .write_csv()
    )
