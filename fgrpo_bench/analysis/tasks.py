"""A benchmark that is made of tasks (SynLogic), task by task."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fgrpo_bench.analysis.read import At
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.stages.paths import DataPaths
from fgrpo_bench.tables import PROBLEMS, read_table

LAYOUT = "synlogic"
"""Layout of the datasets whose golds name a task."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """pass@k of a cell on one task of a benchmark that is made of tasks."""

    benchmark: str
    task: str
    cell: str
    k: int
    pass_at_k: float | None
    """Mean over the task's problems that have a value for every seed, and over seeds."""
    n_seeds: int
    n_problems: int
    """Of the task, judged or not."""
    n_draws: int
    """Over problems and seeds, up to where each problem stopped."""
    n_unscored: int
    """Of these: draws that the grader could not judge."""


def task_names(golds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Task by problem_id. golds: problem_id and gold, JSON with the task's name."""
    return {problem: str(json.loads(gold)["task"]) for problem, gold in golds}


def tasks(results: Results, chosen: Collection[At]) -> Iterator[Task]:
    """A row a benchmark, cell, task and k; none for benchmarks without tasks."""
    names = [cell for cell, _ in chosen]
    for benchmark in results.benchmarks:
        frames = list(_by_problem(results, benchmark))
        if frames:
            order = pl.col("cell").replace_strict(names, range(len(names)))
            for row in _scores(pl.concat(frames)).sort(order, "task", "k").iter_rows(named=True):
                yield Task(benchmark=benchmark, **row)


def _by_problem(results: Results, benchmark: str) -> Iterator[pl.DataFrame]:
    """pass@k of every checkpoint, each problem with its task."""
    known: dict[Path, pl.DataFrame] = {}
    for checkpoint in results.checkpoints:
        is_told = checkpoint.evaluate.spec.exists() or _has_tasks(results, benchmark)
        if not is_told or checkpoint.results_on(benchmark) is None:
            continue
        if (folder := _dataset(checkpoint, benchmark)) is None:
            continue
        if folder not in known:
            golds = read_table(DataPaths(folder).problems, PROBLEMS)
            named = task_names(golds.select("problem_id", "answer").iter_rows())
            known[folder] = pl.DataFrame(
                list(named.items()), schema=["problem_id", "task"], orient="row"
            )
        yield (
            checkpoint.passk(benchmark)
            .filter(pl.col("k").is_in(results.evaluation["ks"]))
            .with_columns(
                cell=pl.lit(checkpoint.label),
                seed=pl.lit(checkpoint.seed, pl.Int64),
                n_drawn=checkpoint.asked().n_drawn.fill_null(pl.col("n_scored")),
            )
            .join(known[folder], on="problem_id")
        )


def _dataset(checkpoint: EvaluatedCheckpoint, benchmark: str) -> Path | None:
    """Folder of the problems of a benchmark that is made of tasks; None for any other."""
    spec = checkpoint.evaluation_spec()
    if spec.layout(benchmark) != LAYOUT:
        return None
    return spec.data_folder(benchmark)


def _has_tasks(results: Results, benchmark: str) -> bool:
    """By what was declared, for where the spec of an evaluation is gone."""
    dataset = (results.evaluation["benchmarks"][benchmark] or {}).get("dataset")
    return isinstance(dataset, dict) and dataset.get("layout") == LAYOUT


def _scores(rows: pl.DataFrame) -> pl.DataFrame:
    """cell, task, k, pass_at_k, n_seeds, n_problems, n_draws and n_unscored."""
    seeds = rows.group_by("cell").agg(n_seeds=pl.col("seed").n_unique().cast(pl.Int64))
    problems = (
        rows.group_by("cell", "task", "k", "problem_id")
        .agg(
            value=pl.col("pass_at_k").mean(),
            with_value=pl.col("pass_at_k").count(),
            drawn=pl.col("n_drawn").sum(),
            scored=pl.col("n_scored").sum(),
        )
        .join(seeds, on="cell")
    )
    complete = pl.col("with_value") == pl.col("n_seeds")
    return (
        problems.sort("problem_id")  # so that sums are in one order, and the bytes the same
        .group_by("cell", "task", "k", maintain_order=True)
        .agg(
            pass_at_k=pl.col("value").filter(complete).mean(),
            n_seeds=pl.col("n_seeds").first(),
            n_problems=pl.len().cast(pl.Int64),
            n_draws=pl.col("drawn").sum(),
            n_unscored=(pl.col("drawn") - pl.col("scored")).sum(),
        )
    )
