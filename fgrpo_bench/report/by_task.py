"""A benchmark that is made of tasks (SynLogic), task by task: tables and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from fgrpo_bench.documents.numbers import percent
from fgrpo_bench.documents.table import Table
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.results import PointResult
from fgrpo_bench.stages.paths import DataPaths
from fgrpo_bench.tables import PROBLEMS, read_table

LAYOUT = "synlogic"
"""Layout of the datasets whose golds name a task."""
ABREAST = 4
"""Cells beside each other in a table."""

CSV = pl.Schema(
    {
        "sweep": pl.String,
        "experiment": pl.String,
        "model": pl.String,
        "method": pl.String,  # Base, GRPO, F-GRPO, ...
        "algorithm": pl.String,  # empty for Base, likewise group_size and focal_gamma
        "group_size": pl.Int64,
        "focal_gamma": pl.Float64,
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

_FOUND = pl.Schema(
    {
        "cell": pl.Int64,  # place in Summary.cells
        "seed": pl.Int64,
        "problem_id": pl.String,
        "task": pl.String,
        "k": pl.Int64,
        "n_samples": pl.Int64,
        "n_scored": pl.Int64,
        "pass_at_k": pl.Float64,
    }
)


def task_names(golds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Task by problem_id. golds: problem_id and gold, JSON with the task's name."""
    return {problem: str(json.loads(gold)["task"]) for problem, gold in golds}


def task_rows(summary: Summary) -> pl.DataFrame:
    """A row a benchmark, cell, task and k (the schema CSV); none for benchmarks without tasks.

    pass@k is the mean over the task's problems that have a value for every seed, and over seeds.
    """
    results = summary.results
    rows: list[dict[str, object]] = []
    for benchmark in results.benchmarks:
        for row in _scores(_found(summary, benchmark)).iter_rows(named=True):
            cell = summary.cells[row.pop("cell")]
            named = {
                "sweep": results.paths.sweep,
                "experiment": results.paths.experiment,
                "model": results.model,
                "method": cell.method,
                "algorithm": cell.algorithm,
                "group_size": cell.group_size,
                "focal_gamma": cell.focal_gamma,
                "step": cell.step,
                "benchmark": benchmark,
            }
            rows.append(named | row)
    return pl.DataFrame(rows, schema=CSV)


def task_tables(summary: Summary, rows: pl.DataFrame) -> list[Table]:
    """pass@k at the smallest and the largest k by task, some cells a table, with the share of each
    task's draws that could not be judged; none for a sweep without such benchmarks.

    rows: `task_rows` of the summary.
    """
    ends = sorted({summary.ks[0], summary.ks[-1]})
    starts = range(0, len(summary.cells), ABREAST)
    parts = [summary.cells[i : i + ABREAST] for i in starts]
    return [
        _table(
            rows.filter(benchmark=benchmark, k=k),
            cells,
            f"{benchmark}: pass@{k} in percent by task"
            + (f", {number} of {len(parts)}" if len(parts) > 1 else ""),
        )
        for benchmark in rows["benchmark"].unique(maintain_order=True)
        for k in ends
        for number, cells in enumerate(parts, start=1)
    ]


def _table(rows: pl.DataFrame, cells: tuple[Cell, ...], title: str) -> Table:
    lines = []
    for task in rows["task"].unique().sort():
        own = rows.filter(task=task)
        drawn, unscored = int(own["n_draws"].sum()), int(own["n_unscored"].sum())
        lines.append(
            (
                task,
                str(own["n_problems"].max()),
                *(percent(_value(own, cell)) for cell in cells),
                f"{unscored / drawn:.2%}",
            )
        )
    return Table(
        title=title,
        header=("task", "problems", *(cell.label for cell in cells), "unscored"),
        rows=tuple(lines),
        notes=("Unscored: share of the task's draws, over all cells, that could not be judged.",),
    )


def _value(rows: pl.DataFrame, cell: Cell) -> float | None:
    own = rows.filter(
        pl.col("algorithm").eq_missing(pl.lit(cell.algorithm, pl.String)),
        pl.col("group_size").eq_missing(pl.lit(cell.group_size, pl.Int64)),
        pl.col("focal_gamma").eq_missing(pl.lit(cell.focal_gamma, pl.Float64)),
        pl.col("step") == cell.step,
    )
    return own["pass_at_k"][0] if len(own) else None


def _scores(found: pl.DataFrame) -> pl.DataFrame:
    """cell, task, k, pass_at_k, n_seeds, n_problems, n_draws and n_unscored."""
    seeds = found.group_by("cell").agg(n_seeds=pl.col("seed").n_unique().cast(pl.Int64))
    problems = (
        found.group_by("cell", "task", "k", "problem_id")
        .agg(
            value=pl.col("pass_at_k").mean(),
            with_value=pl.col("pass_at_k").count(),
            drawn=pl.col("n_samples").sum(),
            scored=pl.col("n_scored").sum(),
        )
        .join(seeds, on="cell")
    )
    whole = pl.col("with_value") == pl.col("n_seeds")
    return (
        problems.sort("problem_id")  # so that sums are in one order, and the bytes the same
        .group_by("cell", "task", "k", maintain_order=True)
        .agg(
            pass_at_k=pl.col("value").filter(whole).mean(),
            n_seeds=pl.col("n_seeds").first(),
            n_problems=pl.len().cast(pl.Int64),
            n_draws=pl.col("drawn").sum(),
            n_unscored=(pl.col("drawn") - pl.col("scored")).sum(),
        )
        .sort("cell", "task", "k")
    )


def _found(summary: Summary, benchmark: str) -> pl.DataFrame:
    """pass@k of all points (the schema _FOUND), each problem with its task."""
    parts = [pl.DataFrame(schema=_FOUND)]
    known: dict[Path, pl.DataFrame] = {}
    for point in summary.results.points:
        has_results = point.results_on(benchmark) is not None
        folder = _dataset(point, benchmark) if has_results else None
        if folder is None:
            continue
        if folder not in known:
            golds = read_table(DataPaths(folder).problems, PROBLEMS)
            tasks = task_names(golds.select("problem_id", "answer").iter_rows())
            known[folder] = pl.DataFrame(
                list(tasks.items()), schema=["problem_id", "task"], orient="row"
            )
        drawn = int(point.evaluated()["target"]["n_samples"])
        numbered = (
            point.passk(benchmark)
            .filter(pl.col("k").is_in(summary.ks))
            .with_columns(
                cell=pl.lit(summary.cells.index(Cell.of(point)), pl.Int64),
                seed=pl.lit(point.seed, pl.Int64),
                n_samples=pl.lit(drawn, pl.Int64),
            )
        )
        parts.append(numbered.join(known[folder], on="problem_id").select(list(_FOUND)))
    return pl.concat(parts)


def _dataset(point: PointResult, benchmark: str) -> Path | None:
    """Folder of the problems of a benchmark that is made of tasks; None for any other."""
    spec = point.evaluation_spec()
    if spec.layout(benchmark) != LAYOUT:
        return None
    return spec.needed("data", benchmark).folder
