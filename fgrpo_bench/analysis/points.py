"""One training run of a sweep, or the base model of a seed, and its stored files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import polars as pl

from fgrpo_bench.analysis.evaluated import NOT_EVALUATED, EvaluatedCheckpoint
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Misfit, Record
from fgrpo_bench.stages.markers import stands
from fgrpo_bench.stages.tables import METRICS, metrics_table, read_table


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that is evaluated."""

    step: int
    """Rollout batches behind it; 0 for a base model."""
    evaluate: StagePaths
    """Its evaluation."""
    fingerprint: str
    """Of the evaluation by the plan."""


@dataclass(frozen=True, kw_only=True)
class PointResult(EvaluatedCheckpoint):
    """A checkpoint that a sweep made, with the training run that it is of.

    It is the one that stands for the run: the last, unless fgrpo_bench.analysis.checkpoints chose
    another.
    """

    point_id: str
    seed: int
    train: StagePaths
    checkpoints: tuple[Checkpoint, ...]
    """All of the run that are evaluated, by rising step."""
    train_fingerprint: str
    """By the plan."""

    @property
    def name(self) -> str:
        return self.point_id

    @property
    def of_run(self) -> tuple[PointResult, ...]:
        return tuple(map(self.at, self.checkpoints))

    @property
    def is_trained(self) -> bool:
        """Whether the training stage has its completion marker; ValueError where it is another's. A
        marker that is damaged is none."""
        return stands(self.train, fingerprint=self.train_fingerprint)

    @property
    def lacks(self) -> str:
        if self.train.done.exists() and not self.is_trained:
            return f"{self.train.done} is damaged"
        if (of_evaluation := super().lacks) != NOT_EVALUATED:
            return of_evaluation
        return f"trained, {NOT_EVALUATED}" if self.is_trained else "not trained"

    def at(self, checkpoint: Checkpoint) -> PointResult:
        """The same run with another checkpoint standing for it."""
        return replace(
            self,
            step=checkpoint.step,
            evaluate=checkpoint.evaluate,
            evaluate_fingerprint=checkpoint.fingerprint,
        )

    def metrics(self) -> pl.DataFrame:
        """Training metrics so far (tables.METRICS); no rows where there are none."""
        return metrics_so_far(self.train)


def metrics_so_far(stage: StagePaths) -> pl.DataFrame:
    """Metrics of a training stage (tables.METRICS): of a finished one as it left them, else those
    of the steps that are stored; no rows where there are none.

    Of rows that a run appends one that is being written, or damaged, is passed over.
    """
    if stage.step_rows.exists() and not stage.done.exists():
        rows = filter(_is_step_row, read_lines(stage.step_rows))
        return metrics_table({row["step"]: row for row in rows}.values())
    if not stage.metrics.exists():
        return METRICS.to_frame()
    return read_table(stage.metrics, METRICS)


@dataclass(frozen=True, kw_only=True)
class StepRow(Record):
    """Of a line of a training run's step_rows, what there must be; all else are numbers or null."""

    step: int
    time_ms: int
    seconds: float
    tokens: int


def _is_step_row(line: Any) -> bool:
    try:
        row = StepRow.parsed(line)
    except Misfit:
        return False
    numbers = [row.further.get(name) for name in METRICS]
    return all(type(number) in (int, float, NoneType) for number in numbers)
