"""The analysis of a sweep, remembered while its results stand, and parts of its frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dashboards.queries.memo import State, remembered, stamp
from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.coverage import by_problem, fates
from fgrpo_bench.analysis.frames import FACTS, inputs_of
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.stages.paths import RunPaths

Floats = NDArray[np.float64]
SORTED: dict[str, dict[str, bool]] = {
    "loss": {"lost": True, "drop": True},
    "gain": {"gained": True, "drop": False},
    "base": {"base": False, "drop": False},
    "name": {},
}
"""Columns of by_problem that each order of the problems goes by, and which of them fall."""


def inputs(results: Results, *_: object) -> State:
    """The files that an analysis is made of."""
    return stamp(inputs_of(results))


@remembered(inputs)
def analysis_of(results: Results) -> Analysis:
    """The stored analysis of a sweep; where there is none and where its results are newer, one
    that is kept in memory alone."""
    return analysed(results, is_kept=False)


def is_analysed(run: RunPaths) -> bool:
    """Whether an analysis of a run is stored, perhaps of fewer results than there are by now."""
    return (run.analysis / FACTS).exists()


def changed(results: Results) -> datetime | None:
    """When the newest file of results came, in UTC; None where there are none."""
    behind = inputs_of(results)[2:]  # plan and question left out
    newest = max((path.stat().st_mtime_ns for path in behind if path.exists()), default=0)
    return datetime.fromtimestamp(newest / 1e9, UTC) if newest else None


class Counts(NamedTuple):
    """Draws of a problem from a checkpoint."""

    n_drawn: int | None
    """Those up to where it stopped; None where it asks for draws that are not there."""
    n_scored: int
    """Judged ones."""
    n_correct: int


@dataclass(frozen=True, kw_only=True)
class Fates:
    """What became of the problems of one benchmark at one k."""

    checkpoints: tuple[EvaluatedCheckpoint, ...]
    """Those with results."""
    problems: tuple[str, ...]
    """By name."""
    rows: pl.DataFrame = field(repr=False)
    """fgrpo_bench.analysis.coverage.fates: a row a checkpoint and problem, in the order of both."""
    means: pl.DataFrame = field(repr=False)
    """fgrpo_bench.analysis.coverage.by_problem."""

    def matrix(self, column: str) -> Floats:
        """A column of the rows, [checkpoints, problems]; nan where it is null."""
        return (
            self.rows[column]
            .cast(pl.Float64)
            .to_numpy()
            .reshape(len(self.checkpoints), len(self.problems))
        )

    def counts(self, checkpoint: EvaluatedCheckpoint, problem: str) -> Counts | None:
        """Of a problem; None for a checkpoint without results."""
        of_seed = pl.col("seed").eq_missing(pl.lit(checkpoint.seed, pl.Int64))
        own = self.rows.filter(of_seed, cell=checkpoint.label, problem_id=problem)
        return next((Counts(*row) for row in own.select(Counts._fields).iter_rows()), None)

    def order(self, by: str) -> list[int]:
        """Places of the problems, sorted by a key of SORTED."""
        falling = SORTED[by]
        places = self.means.with_row_index().sort(
            *falling, "problem_id", descending=[*falling.values(), False], nulls_last=True
        )
        return places["index"].to_list()


@remembered(inputs)
def fates_of(results: Results, benchmark: str, k: int) -> Fates:
    """Every checkpoint and problem that has results."""
    rows = fates(analysis_of(results).problems, benchmark, k)
    means = by_problem(rows)
    checkpoints = {(each.label, each.seed): each for each in results.checkpoints}
    known = rows.select("cell", "seed").unique(maintain_order=True).rows()
    return Fates(
        checkpoints=tuple(checkpoints[key] for key in known),
        problems=tuple(means["problem_id"]),
        rows=rows,
        means=means,
    )
