"""One training run of a sweep, or the base model of a seed, and its stored files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fgrpo_bench.kinds.evaluate import EvaluationMarker, read_spec, stopping
from fgrpo_bench.kinds.evaluate import Spec as EvaluationSpec
from fgrpo_bench.specs import Cell
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.files import read_record
from fgrpo_bench.stages.journal import read_lines
from fgrpo_bench.stages.markers import read_marker_of, refuse_foreign, stands
from fgrpo_bench.stages.paths import BenchmarkPaths, StagePaths
from fgrpo_bench.stages.shapes import NUMBER, STEP_ROW, misfit
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.tables import METRICS, PASSK, metrics_table, read_table


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
class Asked:
    """How many draws an evaluation made."""

    n_samples: int
    """Draws a problem; of a design the most."""
    design: StagedDesign | None
    """When a problem stops; None: never."""

    @property
    def n_drawn(self) -> pl.Expr:
        """Draws of a problem up to where it stopped, judged or not, over rows of tables.PASSK; null
        where its judgements ask for draws that are missing."""
        if self.design is None:
            return pl.lit(self.n_samples, pl.Int64)
        return pl.col("n_scored") + pl.col("n_unscored").list.sum()

    @property
    def words(self) -> str:
        """For a person."""
        return f"{self.n_samples:,} draws a problem" if self.design is None else self.design.words


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """One training run, or the base model of one seed, and where its files are.

    `step` and `evaluate` are those of the checkpoint that stands for the run: the last one, unless
    fgrpo_bench.analysis.checkpoints chose another.
    """

    point_id: str
    cell: Cell | None
    """What the seeds of one table row share; None for a base model."""
    seed: int
    step: int
    train: StagePaths
    evaluate: StagePaths
    checkpoints: tuple[Checkpoint, ...]
    """All that are evaluated, by rising step."""
    train_fingerprint: str
    """By the plan, likewise below."""
    evaluate_fingerprint: str

    @property
    def method(self) -> str:
        """GRPO, F-GRPO, ...; Base for a base model."""
        return "Base" if self.cell is None else self.cell.method

    @property
    def is_trained(self) -> bool:
        """Whether the training stage has its completion marker; ValueError where it is another's,
        likewise below. A marker that is damaged is none."""
        return stands(self.train, fingerprint=self.train_fingerprint)

    @property
    def is_evaluated(self) -> bool:
        """Whether the evaluation stage has its completion marker."""
        return stands(self.evaluate, fingerprint=self.evaluate_fingerprint)

    @property
    def lacks(self) -> str:
        """What a point without results is in want of, in words."""
        for stage, is_there in ((self.train, self.is_trained), (self.evaluate, self.is_evaluated)):
            if stage.done.exists() and not is_there:
                return f"{stage.done} is damaged"
        return "trained, not evaluated" if self.is_trained else "not trained"

    def at(self, checkpoint: Checkpoint) -> PointResult:
        """The same run with another checkpoint standing for it."""
        return replace(
            self,
            step=checkpoint.step,
            evaluate=checkpoint.evaluate,
            evaluate_fingerprint=checkpoint.fingerprint,
        )

    def results_on(self, benchmark: str) -> BenchmarkPaths | None:
        """The evaluation's files on a benchmark; None where it is not complete, ValueError where
        they are another evaluation's."""
        paths = self.evaluate.benchmark(benchmark)
        if not self.is_evaluated or not paths.passk.exists():
            return None
        if paths.manifest.exists():
            said = read_record(paths.manifest, DrawsRecord).fingerprint
            refuse_foreign(paths.manifest, said, fingerprint=self.evaluate_fingerprint)
        return paths

    def metrics(self) -> pl.DataFrame:
        """Training metrics so far (tables.METRICS); no rows where there are none."""
        return metrics_so_far(self.train)

    def passk(self, benchmark: str) -> pl.DataFrame:
        """pass@k by problem (tables.PASSK); no rows where the evaluation is not complete."""
        paths = self.results_on(benchmark)
        if paths is None:
            return PASSK.to_frame()
        return read_table(paths.passk, PASSK)

    def beside(self, benchmark: str) -> dict[str, str]:
        """Versions of the graders that stand beside the benchmark's own, by their names; none where
        the evaluation is not complete."""
        if not self.is_evaluated:
            return {}
        of = self.evaluate.benchmark(benchmark)
        graders = self.evaluated().asked.graders
        parts = {key.partition("/"): version for key, version in graders.items()}
        return {
            grader: version
            for (name, _, grader), version in parts.items()
            if name == benchmark and grader and of.also_passk(version).exists()
        }

    def passk_beside(self, benchmark: str, grader: str) -> pl.DataFrame:
        """pass@k by problem (tables.PASSK) as judged by a grader of `beside`."""
        version = self.beside(benchmark)[grader]
        return read_table(self.evaluate.benchmark(benchmark).also_passk(version), PASSK)

    def evaluated(self) -> EvaluationMarker:
        """The marker of the evaluation."""
        return read_marker_of(EvaluationMarker, self.evaluate)

    def asked(self) -> Asked:
        """The draws that the stored pass@k is of."""
        asked = self.evaluated().asked
        design = None if asked.design is None else asked.design.as_json()
        return Asked(n_samples=asked.n_samples, design=stopping(design, self.evaluate.done))

    def has_new_design(self, benchmark: str) -> bool:
        """Whether another design was asked for when draws were there already, so that it may have
        been chosen by their grades; False where it was not recorded."""
        manifest = self._manifest(benchmark)
        return manifest is not None and len(manifest.designs) > 1

    def evaluation_spec(self) -> EvaluationSpec:
        """What the evaluation computes."""
        return read_spec(self.evaluate)

    def engine(self, benchmark: str) -> dict[str, Any] | None:
        """Fingerprint of the engine that made the draws; None where it was not recorded."""
        manifest = self._manifest(benchmark)
        return None if manifest is None else manifest.engine

    def _manifest(self, benchmark: str) -> DrawsRecord | None:
        """Of the evaluation's draws; None where there is none."""
        path = self.evaluate.benchmark(benchmark).manifest
        return read_record(path, DrawsRecord) if path.exists() else None


def metrics_so_far(stage: StagePaths) -> pl.DataFrame:
    """Metrics of a training stage (tables.METRICS): of a finished one as it left them, else those
    of the steps that are stored; no rows where there are none.

    Of rows that a run appends one that is being written, or damaged, is passed over.
    """
    if stage.step_rows.exists() and not stage.done.exists():
        columns = {f"{name}?": NUMBER | None for name in METRICS} | STEP_ROW
        rows = (row for row in read_lines(stage.step_rows) if misfit(row, columns) is None)
        return metrics_table({row["step"]: row for row in rows}.values())
    if not stage.metrics.exists():
        return METRICS.to_frame()
    return read_table(stage.metrics, METRICS)
