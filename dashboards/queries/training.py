"""What runs tell while they train, by training step, from their metrics so far."""

from __future__ import annotations

import polars as pl

from dashboards.queries.memo import State, remembered, stamp
from fgrpo_bench.analysis.read import key_of
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.watch import TOKENS_PER_SECOND
from fgrpo_bench.tables import METRICS

LONGEST = 200
"""Points of a line by training step."""
LEARNING = ("eval_pass_at_1", "eval_pass_at_n")


def _metrics(results: SweepResults, *_: object) -> State:
    return stamp(
        path
        for point in results.points
        for path in (point.train.metrics, point.train.step_rows, point.train.done)
    )


@remembered(_metrics)
def learning(results: SweepResults) -> pl.DataFrame:
    """Evaluations during training so far: cell, step, LEARNING as means over `seeds` runs."""
    return (
        _runs(results, *(pl.col(name) for name in LEARNING))
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
        tokens = pl.col("tokens").diff().fill_null(pl.col("tokens"))
        value = (tokens / pl.col("seconds")).alias(name)
    told = _runs(results, value).drop_nulls().collect()
    width = -(-max(told["step"].to_list(), default=1) // LONGEST)
    return (
        told.group_by("cell", "step")
        .agg(pl.col(name).mean(), seeds=pl.len())
        .group_by("cell", block=(pl.col("step") - 1) // width)
        .agg(pl.col("step").max(), pl.col(name).mean(), pl.col("seeds").max(), steps=pl.len())
        .sort("cell", "step")
        .drop("block")
    )


def _runs(results: SweepResults, *values: pl.Expr) -> pl.LazyFrame:
    """cell, step and these of all runs, whose values are over the rows of one run."""
    frames = [("", METRICS.to_frame())]  # no rows, for a sweep that trains nothing
    frames += [(key_of(p)[0], p.metrics()) for p in results.points if p.algorithm is not None]
    return pl.concat(
        frame.lazy().sort("step").select(pl.lit(cell).alias("cell"), "step", *values)
        for cell, frame in frames
    )
