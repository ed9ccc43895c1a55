"""What runs tell while they train, by training step, from their metrics so far."""

from __future__ import annotations

import numpy as np
import polars as pl

from dashboards.queries.memo import State, remembered, stamp
from fgrpo_bench.analysis.checkpoints import key_of
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.watch import NUMBERS, TOKENS_PER_SECOND
from fgrpo_bench.tables import METRICS

LONGEST = 40
"""Points of a line by training step: of more the noise hides which line is above."""
LEARNING = ("eval_pass_at_1", "eval_pass_at_n")
_VALUES = ("seconds", "gpus", "tokens", *(n for n in NUMBERS if n != TOKENS_PER_SECOND), *LEARNING)


def _metrics(results: SweepResults, *_: object) -> State:
    return stamp(
        path
        for point in results.points
        for path in (point.train.metrics, point.train.step_rows, point.train.done)
    )


@remembered(_metrics)
def metrics(results: SweepResults) -> pl.DataFrame:
    """What all runs have told so far: point_id, cell, step and some columns of tables.METRICS, by
    rising step within a run. Each table is read once for all that a page makes of them."""
    runs = [point for point in results.points if point.cell is not None]
    tables = [point.metrics().sort("step") for point in runs]
    run = np.repeat(np.arange(len(runs)), [len(table) for table in tables])
    names = {"point_id": [p.point_id for p in runs], "cell": [key_of(p)[0] for p in runs]}
    return pl.concat([METRICS.to_frame(), *tables]).select(
        *(pl.Series(name, own, pl.String).gather(run) for name, own in names.items()),
        *("step", *_VALUES),
    )


@remembered(_metrics)
def gpu_seconds(results: SweepResults) -> dict[str, float]:
    """By point_id of the runs that have told a step: wall seconds of the steps times the GPUs
    held."""
    spent = (pl.col("seconds") * pl.col("gpus")).sum()
    return dict(metrics(results).group_by("point_id").agg(spent).iter_rows())


@remembered(_metrics)
def learning(results: SweepResults) -> pl.DataFrame:
    """Evaluations during training so far: cell, step, LEARNING as means over `seeds` runs."""
    return (
        metrics(results)
        .lazy()
        .drop_nulls(LEARNING[0])
        .group_by("cell", "step")
        .agg(pl.col(LEARNING).mean(), seeds=pl.len())
        .sort("cell", "step")
        .collect()
    )


@remembered(_metrics)
def steps(results: SweepResults, name: str) -> pl.DataFrame:
    """One of watch.NUMBERS by training step so far: cell, step, its mean over `seeds` runs, and of
    how many `steps`; for long runs that is several, of which `step` is the last.

    Rows without a value are left out.
    """
    value = pl.col(name)
    if name == TOKENS_PER_SECOND:
        tokens = pl.col("tokens").diff().fill_null(pl.col("tokens")).over("point_id")
        value = (tokens / pl.col("seconds")).alias(name)
    by_run = metrics(results).select("cell", "step", value).drop_nulls()
    width = -(-max(by_run["step"].to_list(), default=1) // LONGEST)
    return (
        by_run.lazy()
        .group_by("cell", "step")
        .agg(pl.col(name).mean(), seeds=pl.len())
        .group_by("cell", block=(pl.col("step") - 1) // width)
        .agg(pl.col("step").max(), pl.col(name).mean(), pl.col("seeds").max(), steps=pl.len())
        .sort("cell", "step")
        .drop("block")
        .collect()
    )
