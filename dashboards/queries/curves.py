"""pass@k of cells with intervals, differences between cells, and what the cells' training cost.

The estimates are those of the report to the last digit: the same counts through the same bootstrap.
All cells of a benchmark go through it at once, which takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from dashboards.queries.counts import Counts, counts
from dashboards.queries.memo import remembered
from dashboards.queries.store import cell_id, cells_of
from fgrpo_bench.report.comparisons import p_of_the_draws
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.watch import TOKENS_PER_SECOND
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    FRACTIONS,
    Estimate,
    conclude,
    resample_together,
)
from fgrpo_bench.stats.multiplicity import holm
from fgrpo_bench.tables import METRICS

LONGEST = 200
"""Points of a line by training step."""
LEARNING = ("step", "rollouts", "eval_pass_at_1", "eval_pass_at_n")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """pass@k of a cell minus that of the reference."""

    cell: Cell
    difference: Estimate
    """Paired over problems and the seeds that both have."""
    p_draws: float | None
    """Of the draws alone, models and problems given; None where 2k > n."""
    p_holm: float | None = None
    """p_value of the difference, corrected over the differences beside it."""


def _files(results: SweepResults, benchmark: str, *_: object) -> Iterable[Path]:
    for point in results.points:
        yield point.evaluate.done
        yield point.evaluate.benchmark(benchmark).passk


def rows_of(found: Counts, cell: Cell) -> dict[int, int]:
    """Rows of a cell in the counts, by seed, rising."""
    rows = {p.seed: i for i, p in enumerate(found.points) if Cell.of(p) == cell}
    return dict(sorted(rows.items()))


@remembered(_files)
def estimates(
    results: SweepResults, benchmark: str, ks: tuple[int, ...]
) -> dict[str, tuple[Estimate, ...]]:
    """Mean pass@k with its interval for every k, by name of the cells that have results."""
    found = counts(results, benchmark)
    rows = {name: rows_of(found, cell) for name, cell in cells_of(results).items()}
    values = {name: found.passk(list(own.values()), ks) for name, own in rows.items() if own}
    resampled = resample_together(list(values.values()), limits=FRACTIONS)
    return {name: tuple(conclude(one)) for name, one in zip(values, resampled, strict=True)}


@remembered(_files)
def differences(
    results: SweepResults, benchmark: str, k: int, reference: str, names: tuple[str, ...]
) -> list[Difference]:
    """Differences of cells to a reference at one k, Holm-corrected together; those without a seed
    in common are left out."""
    found, cells = counts(results, benchmark), cells_of(results)
    old = rows_of(found, cells[reference])
    pairs: dict[str, tuple[list[int], list[int]]] = {}
    for name in names:
        new = rows_of(found, cells[name])
        seeds = [seed for seed in new if seed in old]
        if name != reference and seeds:
            pairs[name] = [old[seed] for seed in seeds], [new[seed] for seed in seeds]
    values = [
        found.passk(after, [k]) - found.passk(before, [k]) for before, after in pairs.values()
    ]
    made = [
        Difference(
            cell=cells[name],
            difference=conclude(one)[0],
            p_draws=p_of_the_draws(
                old=found.n_correct[before],
                n_old=found.n_scored[before],
                new=found.n_correct[after],
                n_new=found.n_scored[after],
                k=k,
            ),
        )
        for (name, (before, after)), one in zip(
            pairs.items(), resample_together(values, limits=DIFFERENCES), strict=True
        )
    ]
    known = [i for i, one in enumerate(made) if one.difference.p_value is not None]
    raised = holm([made[i].difference.p_value or 0.0 for i in known])
    for i, p in zip(known, raised, strict=True):
        made[i] = replace(made[i], p_holm=p)
    return made


def _training(results: SweepResults, *_: object) -> Iterable[Path]:
    for point in results.points:
        train = point.train
        yield from (train.metrics, train.step_rows, train.done, point.evaluate.folder)


@remembered(_training)
def training(results: SweepResults) -> pl.DataFrame:
    """Evaluations during training, of all points so far: cell, seed, step, rollouts,
    eval_pass_at_1 and eval_pass_at_n."""
    schema: dict[str, Any] = {"cell": pl.String, "seed": pl.Int64}
    schema |= {name: METRICS[name] for name in LEARNING}
    frames = [
        point.metrics()
        .lazy()
        .drop_nulls("eval_pass_at_1")
        .select(
            pl.lit(cell_id(Cell.of(point))).alias("cell"),
            pl.lit(point.seed, dtype=pl.Int64).alias("seed"),
            *LEARNING,
        )
        for point in results.points
        if point.algorithm is not None
    ]
    return pl.concat([pl.LazyFrame(schema=schema), *frames]).collect()


@remembered(_training)
def steps(results: SweepResults, name: str) -> pl.DataFrame:
    """One of watch.NUMBERS by training step so far: cell, step, its mean over `seeds` runs, and of
    how many `steps`; for long runs that is several, of which `step` is the last.

    Rows without a value are left out.
    """
    value = pl.col(name)
    if name == TOKENS_PER_SECOND:
        tokens = pl.col("tokens").diff().fill_null(pl.col("tokens"))
        value = (tokens / pl.col("seconds")).alias(name)
    schema: dict[str, Any] = {"cell": pl.String, "step": pl.Int64, name: pl.Float64}
    frames = [
        point.metrics()
        .lazy()
        .sort("step")
        .select(pl.lit(cell_id(Cell.of(point))).alias("cell"), "step", value)
        for point in results.points
        if point.algorithm is not None
    ]
    found = pl.concat([pl.LazyFrame(schema=schema), *frames]).drop_nulls().collect()
    width = -(-max(found["step"].to_list(), default=1) // LONGEST)
    return (
        found.group_by("cell", "step")
        .agg(pl.col(name).mean(), seeds=pl.len())
        .group_by("cell", block=(pl.col("step") - 1) // width)
        .agg(pl.col("step").max(), pl.col(name).mean(), pl.col("seeds").max(), steps=pl.len())
        .sort("cell", "step")
        .drop("block")
    )


@remembered(_training)
def compute(results: SweepResults) -> dict[str, dict[str, float]]:
    """rollouts, tokens, cpu_seconds and gpu_seconds of a finished run of each cell, as means over
    its seeds, by cell."""
    found: dict[str, list[dict[str, float]]] = {}
    for point in results.points:
        metrics = point.metrics() if point.is_trained and point.algorithm is not None else None
        if metrics is None or not len(metrics):
            continue
        metrics = metrics.filter(pl.col("step") <= point.step).sort("step")
        last = metrics[-1]
        costs = {
            "rollouts": float(last["rollouts"][0]),
            "tokens": float(last["tokens"][0]),
            "cpu_seconds": float(read_marker(point.train).get("cpu_seconds", 0.0)),
            "gpu_seconds": float((metrics["seconds"] * metrics["gpus"]).to_numpy().sum()),
        }
        found.setdefault(cell_id(Cell.of(point)), []).append(costs)
    return {
        cell: {name: sum(one[name] for one in own) / len(own) for name in own[0]}
        for cell, own in found.items()
    }


@dataclass(frozen=True, kw_only=True)
class AtCheckpoint:
    """A cell at one of its evaluated checkpoints."""

    step: int
    cost: float
    """Of a run up to there, mean over seeds."""
    made: Estimate


def by_checkpoint(
    results: SweepResults, benchmark: str, k: int, cost: str
) -> dict[str, list[AtCheckpoint]]:
    """pass@k and cost of every trained cell at every checkpoint that is evaluated, by rising step.

    cost: a key of `compute`. Processor seconds are known of whole runs alone, so they are given at
    the last checkpoint only.
    """
    found: dict[str, list[AtCheckpoint]] = {}
    steps = sorted({one.step for point in results.points for one in point.checkpoints} - {0})
    for step in steps:
        points = [
            point.at(one)
            for point in results.points
            for one in point.checkpoints
            if one.step == step and (cost != "cpu_seconds" or one == point.checkpoints[-1])
        ]
        of_step = replace(results, points=tuple(points))
        costs = compute(of_step)
        for name, (made,) in estimates(of_step, benchmark, (k,)).items():
            if name in costs and made.mean is not None:
                one = AtCheckpoint(step=step, cost=costs[name][cost], made=made)
                found.setdefault(name, []).append(one)
    return found
