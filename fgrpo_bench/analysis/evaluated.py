"""One evaluated checkpoint and its stored files, whether a sweep made it or somebody brought it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.files.paths import BenchmarkPaths, StagePaths
from fgrpo_bench.files.spec import read_spec, read_spec_as
from fgrpo_bench.files.whole import read_record
from fgrpo_bench.kinds.evaluate import EvaluationMarker, EvaluationSpec, stopping
from fgrpo_bench.specs.cell import Cell, method_or_label
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import has_valid_marker, read_marker_as, refuse_foreign
from fgrpo_bench.stages.tables import PASSK, read_table
from fgrpo_bench.stats.staged import StagedDesign

NOT_EVALUATED = "not evaluated"
"""What a checkpoint without results lacks, in words."""
LONGEST_LABEL = 80
"""Characters of a label: it stands in tables and legends."""


@dataclass(frozen=True, kw_only=True)
class EvaluatedCheckpoint:
    """A checkpoint with its label and seed, and where the files of its evaluation are."""

    label: str
    """What it is compared as, any text: checkpoints of one label differ in their seeds and steps
    alone, and stand in one row of a table. Of a sweep the name of its cell; `base`
    (fgrpo_bench.specs.cell.BASE) are the models before reinforcement learning, whoever made
    them."""
    seed: int | None
    """Training seed: checkpoints of equal seeds are compared in pairs. None: not told, and then no
    other of its label is compared."""
    step: int
    """Rollout batches behind it; 0 for a base model, and where nobody told."""
    cell: Cell | None
    """The setting that a sweep trained it with; None for a base model, and without a sweep."""
    evaluate: StagePaths
    """Its evaluation."""
    evaluate_fingerprint: str | None
    """Of the evaluation, by what names it; None takes any."""
    marks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the draws on a benchmark are known by where that is not `evaluate_fingerprint`."""
    title: str | None = None
    """What tables call it, where it stands for a base model (`base`) and is somebody's own."""
    judged_by: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By benchmark, the version of the grader whose pass@k is read in place of the benchmark's
    own."""
    in_common: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)
    """By benchmark, what it is restricted to where it is compared: problem_id, k and has_value,
    whether all that are compared have pass@k there. A benchmark that is not named has all."""

    @property
    def name(self) -> str:
        """Which of those that are compared, for a person."""
        called = self.title or self.label
        return called if self.seed is None else f"{called}, seed {self.seed}"

    @property
    def method(self) -> str:
        """GRPO, F-GRPO, ...; Base for a base model; without a setting the title or label."""
        return self.title or method_or_label(self.cell, self.label)

    @property
    def run_checkpoints(self) -> tuple[EvaluatedCheckpoint, ...]:
        """All evaluated ones of the same training run, by rising step."""
        return (self,)

    @property
    def is_evaluated(self) -> bool:
        """Whether the evaluation has its completion marker; ValueError where it is another's. A
        marker that is damaged is none."""
        return has_valid_marker(self.evaluate, fingerprint=self.evaluate_fingerprint)

    @property
    def missing_reason(self) -> str:
        """What one without results is missing, in words."""
        is_damaged = self.evaluate.done.exists() and not self.is_evaluated
        return f"{self.evaluate.done} is damaged" if is_damaged else NOT_EVALUATED

    def results_on(self, benchmark: str) -> BenchmarkPaths | None:
        """The evaluation's files on a benchmark; None where it is not complete, ValueError where
        they are another evaluation's."""
        paths = self.evaluate.benchmark(benchmark)
        if not self.is_evaluated or not paths.passk().exists():
            return None
        if paths.manifest.exists():
            stored = read_record(paths.manifest, DrawsRecord).fingerprint
            mark = self.marks.get(benchmark, self.evaluate_fingerprint)
            refuse_foreign(paths.manifest, stored, fingerprint=mark)
        return paths

    def passk(self, benchmark: str) -> pl.DataFrame:
        """pass@k by problem (tables.PASSK); no rows where the evaluation is not complete."""
        paths = self.results_on(benchmark)
        if paths is None:
            return PASSK.to_frame()
        table = read_table(paths.passk(self.judged_by.get(benchmark)), PASSK)
        return self._restricted(table, benchmark)

    def judge_on(self, benchmark: str) -> str | None:
        """Version of the grader whose judgements are read; None where it was not recorded."""
        return self.judged_by.get(benchmark) or self.evaluated().evaluation_target.graders.get(
            benchmark
        )

    def _restricted(self, table: pl.DataFrame, benchmark: str) -> pl.DataFrame:
        if benchmark not in self.in_common:
            return table
        shared = self.in_common[benchmark]
        rows = table.join(shared, on=["problem_id", "k"], maintain_order="left")
        return rows.with_columns(pl.when("has_value").then("pass_at_k").alias("pass_at_k")).select(
            table.columns
        )

    def extra_grader_versions(self, benchmark: str) -> dict[str, str]:
        """Versions of the graders that stand beside the benchmark's own, by their names; none where
        the evaluation is not complete."""
        if not self.is_evaluated:
            return {}
        of = self.evaluate.benchmark(benchmark)
        graders = self.evaluated().evaluation_target.graders
        parts = {key.partition("/"): version for key, version in graders.items()}
        return {
            grader: version
            for (name, _, grader), version in parts.items()
            if name == benchmark and grader and of.passk(version).exists()
        }

    def extra_passk(self, benchmark: str, grader: str) -> pl.DataFrame:
        """pass@k by problem (tables.PASSK) as judged by a grader of `beside`."""
        version = self.extra_grader_versions(benchmark)[grader]
        table = read_table(self.evaluate.benchmark(benchmark).passk(version), PASSK)
        return self._restricted(table, benchmark)

    def evaluated(self) -> EvaluationMarker:
        """The marker of the evaluation."""
        return read_marker_as(EvaluationMarker, self.evaluate)

    def stopping(self) -> StagedDesign:
        """When a problem stopped whose pass@k is stored."""
        return stopping(self.evaluated().target, self.evaluate.done)

    def has_new_design(self, benchmark: str) -> bool:
        """Whether another design was asked for when draws were there already, so that it may have
        been chosen by their grades; False where it was not recorded."""
        manifest = self._manifest(benchmark)
        return manifest is not None and len(manifest.designs) > 1

    def evaluation_spec(self) -> EvaluationSpec:
        """What the evaluation computes."""
        return read_spec_as(EvaluationSpec, self.evaluate)

    def engines(self, benchmark: str) -> tuple[dict[str, Any], ...]:
        """Fingerprints of the engines that made the draws, in order; empty where none was
        recorded."""
        manifest = self._manifest(benchmark)
        return () if manifest is None else manifest.engines

    def _manifest(self, benchmark: str) -> DrawsRecord | None:
        """Of the evaluation's draws; None where there is none."""
        path = self.evaluate.benchmark(benchmark).manifest
        return read_record(path, DrawsRecord) if path.exists() else None


@dataclass(frozen=True, kw_only=True)
class LastOfRun(EvaluatedCheckpoint):
    """The last checkpoint of a training run of which earlier ones were evaluated too."""

    earlier: tuple[EvaluatedCheckpoint, ...]
    """By rising step, under whatever label and seed."""

    @property
    def run_checkpoints(self) -> tuple[EvaluatedCheckpoint, ...]:
        """All of them, under its own label and seed."""
        named = (
            replace(
                item,
                label=self.label,
                title=self.title,
                seed=self.seed,
                in_common=self.in_common,
            )
            for item in self.earlier
        )
        return (*named, self)


def last_of_run(checkpoints: Sequence[EvaluatedCheckpoint]) -> EvaluatedCheckpoint:
    """The last of a run's checkpoints, at least one, with the others behind it."""
    *earlier, last = sorted(checkpoints, key=lambda checkpoint: checkpoint.step)
    if not earlier:
        return last
    of_last = {item.name: getattr(last, item.name) for item in fields(EvaluatedCheckpoint)}
    return LastOfRun(**of_last, earlier=tuple(earlier))


def from_evaluation(
    folder: Path, label: str, *, seed: int | None = None, step: int = 0, title: str | None = None
) -> EvaluatedCheckpoint:
    """A checkpoint that was evaluated without a sweep (`fgrpo-bench evaluate MODEL --data ...`), or
    what was imported.

    folder: `<root>/evals/<name>`, or that of one evaluation below it where it has several; that of
    a sweep's evaluation does as well. ValueError for a label that cannot stand in a table, and
    where the folder holds several evaluations; FileNotFoundError where it holds none.
    """
    if not label.strip() or not label.isprintable() or len(label) > LONGEST_LABEL:
        raise ValueError(
            f"label {label[: 2 * LONGEST_LABEL]!r}: must be 1 to {LONGEST_LABEL} characters that "
            "can be printed, in one line; give a shorter name, e.g. its folder's"
        )
    stage = _evaluation(folder)
    spec = read_spec_as(EvaluationSpec, stage)
    return EvaluatedCheckpoint(
        label=label,
        seed=seed,
        step=step,
        cell=None,
        title=title,
        evaluate=stage,
        evaluate_fingerprint=spec.fingerprint,
        marks={name: spec.mark(name) for name in spec.stored_evaluation.benchmarks},
    )


def _settings(stage: StagePaths) -> str:
    """What tells an evaluation from others of its model, e.g. "math500, 16 draws, temperature 1";
    of what was imported the temperature is not known."""
    spec = read_spec_as(EvaluationSpec, stage)
    settings = [*spec.stored_evaluation.benchmarks, f"{spec.stored_evaluation.n_samples} draws"]
    if (temperature := spec.evaluation.get("temperature")) is not None:
        settings.append(f"temperature {temperature:g}")
    return ", ".join(settings)


def _evaluation(folder: Path) -> StagePaths:
    """The one evaluation in a folder."""
    below = sorted(path.parent for path in folder.glob("eval/*/*/spec.json"))
    if len(below) > 1:
        listed = "\n".join(f"  {path}: {_settings(StagePaths(path))}" for path in below)
        raise ValueError(
            f"{folder} holds several evaluations: name one of these folders, and the next time "
            f"give each a --name\n{listed}"
        )
    stage = StagePaths(below[0] if below else folder)
    if not stage.spec.exists() or read_spec(stage).kind not in ("evaluate", "import"):
        raise FileNotFoundError(
            f"{folder} holds no evaluation: run `fgrpo-bench evaluate <model> --data <problems>` "
            "first, which names the folder of its results"
        )
    return stage
