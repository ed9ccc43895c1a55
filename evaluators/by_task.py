"""Grades of a benchmark that is made of tasks (SynLogic), task by task."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from fgrpo_bench.analysis.tasks import LAYOUT, task_names
from fgrpo_bench.documents.table import Table
from fgrpo_bench.specs import BenchmarkSpec

Row = dict[str, str | int]
"""task, problems, draws, correct and unscored draws."""


def by_task(benchmark: BenchmarkSpec, golds: Mapping[str, str], grades: pl.DataFrame) -> list[Row]:
    """Counts by task, in the order of their names; empty for a benchmark without tasks.

    golds: by problem_id, JSON with the task's name. grades: tables.GRADES.
    """
    if benchmark.dataset is None or benchmark.dataset.layout != LAYOUT:
        return []
    tasks = pl.DataFrame(
        list(task_names(golds.items()).items()),
        schema={"problem_id": pl.String, "task": pl.String},
        orient="row",
    )
    return (
        grades.join(tasks, on="problem_id")
        .group_by("task")
        .agg(
            problems=pl.col("problem_id").n_unique(),
            draws=pl.len(),
            correct=(pl.col("outcome") == "correct").sum(),
            unscored=(pl.col("outcome") == "unscored").sum(),
        )
        .sort("task")
        .to_dicts()
    )


def task_table(name: str, rows: list[Row]) -> Table:
    """The counts as shares of the draws."""
    return Table(
        title=f"{name}, task by task: share of the draws",
        header=("task", "problems", "draws", "correct", "unscored"),
        rows=tuple(
            (
                str(row["task"]),
                str(row["problems"]),
                f"{row['draws']:,}",
                *(f"{int(row[kind]) / int(row['draws']):.2%}" for kind in ("correct", "unscored")),
            )
            for row in rows
        ),
    )
