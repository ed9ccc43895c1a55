"""Every file name of the project, each a property of one class, and finding runs by their files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class StagePaths:
    """The files of one stage (a warm-up, a training run or an evaluation)."""

    folder: Path

    @property
    def spec(self) -> Path:
        """What the stage computes, frozen before it is dispatched."""
        return self.folder / "spec.json"

    @property
    def done(self) -> Path:
        """The completion marker, written last."""
        return self.folder / "DONE.json"

    @property
    def lock(self) -> Path:
        """Held by the process that runs the stage."""
        return self.folder / "stage.lock"

    @property
    def owner(self) -> Path:
        """Token of the process that began the stage last; an older one that wakes up stops."""
        return self.folder / "owner.json"

    @property
    def progress(self) -> Path:
        """Where the stage stands, rewritten every few seconds."""
        return self.folder / "progress.json"

    @property
    def logs(self) -> Path:
        """Folder of the stage's output, one file an attempt."""
        return self.folder / "logs"

    def log(self, attempt: int) -> Path:
        """Output of one attempt, counted from 1."""
        return self.logs / f"attempt-{attempt:03d}.log"

    def attempt(self, attempt: int) -> Path:
        """What a cluster's job notes of an attempt: its job, node and end."""
        return self.logs / f"attempt-{attempt:03d}.json"

    @property
    def metrics(self) -> Path:
        """Training metrics, a row a step (tables.METRICS)."""
        return self.folder / "metrics.parquet"

    @property
    def masses(self) -> Path:
        """What a run of the simulation measured (simulation.run.MASSES)."""
        return self.folder / "masses.parquet"

    @property
    def trajectories(self) -> Path:
        """Rare correct answers of a base model (tables.TRAJECTORIES)."""
        return self.folder / "trajectories.parquet"

    @property
    def likelihoods(self) -> Path:
        """The same under a checkpoint (tables.LIKELIHOODS)."""
        return self.folder / "likelihoods.parquet"

    def checkpoint(self, step: int) -> Path:
        """A Hugging Face checkpoint folder."""
        return self.folder / "checkpoints" / f"step-{step:05d}"

    def state(self, slot: int) -> Path:
        """The whole training state; two slots are written in turn, so that one is always whole."""
        return self.folder / "state" / f"state-{slot % 2}.safetensors"

    def evaluation(self, name: str, fp8: str, step: int) -> StagePaths:
        """The evaluation of one checkpoint under one set of sampling settings."""
        return StagePaths(self.folder / "eval" / f"{name}-{fp8}" / f"step-{step:05d}")

    def benchmark(self, name: str) -> BenchmarkPaths:
        """An evaluation's results on one benchmark."""
        return BenchmarkPaths(self.folder / name)


@dataclass(frozen=True)
class BenchmarkPaths:
    """Draws, grades and pass@k of one checkpoint on one benchmark."""

    folder: Path

    @property
    def manifest(self) -> Path:
        """What the draws were made with: digests of weights and prompts, engine fingerprint."""
        return self.folder / "draws.json"

    @property
    def draws(self) -> Path:
        """All draws (tables.DRAWS), once they are complete."""
        return self.folder / "draws.parquet"

    def shard(self, number: int) -> Path:
        """Draws of one attempt while sampling goes on, a JSON line each; append-only."""
        return self.shards / f"draws-{number:04d}.jsonl"

    @property
    def shards(self) -> Path:
        """Folder of the shards."""
        return self.folder / "shards"

    def grades(self, grader_version: str) -> Path:
        """Judgements by one version of the grader (tables.GRADES)."""
        return self.folder / f"grades.{grader_version}.parquet"

    def judging(self, grader_version: str) -> Path:
        """Folder of judgements while grading goes on, a JSON line each; append-only."""
        return self.folder / f"judging.{grader_version}"

    @property
    def passk(self) -> Path:
        """pass@k by problem (tables.PASSK), as the benchmark's grader judges."""
        return self.folder / "passk.parquet"

    def also_passk(self, grader_version: str) -> Path:
        """The same by a grader beside the benchmark's own."""
        return self.folder / f"passk.{grader_version}.parquet"


@dataclass(frozen=True)
class DataPaths:
    """What a data stage leaves beside the files of every stage."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Where the data came from and what each rule left: revisions, digests, counts."""
        return self.folder / "data.lock.json"

    @property
    def problems(self) -> Path:
        """The problems (tables.PROBLEMS)."""
        return self.folder / "problems.parquet"

    @property
    def source(self) -> Path:
        """Folder of the publisher's file."""
        return self.folder / "source"

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer that measures prompts."""
        return self.folder / "tokenizer"


def shared_data(root: Path, name: str, fingerprint: str) -> Path:
    """The folder of a dataset that all sweeps under a root share; their own ones link to it."""
    return root / "_data" / f"{name}-{fingerprint[:8]}"


@dataclass(frozen=True, kw_only=True)
class RunPaths:
    """One sweep of one experiment in one version.

    <root>/<sweep>/<experiment>/<version>/   sweep.json  plan.json  ledger.jsonl
                                             driver.lock  report/
                                             on SLURM: submissions.jsonl  code/  slurm/
      _warmup/s<seed>/                       a stage; one for each training seed
      _data/<dataset>                        a link to <root>/_data/<dataset>-<fp8>/, a stage
      <point_id>/                            a stage: spec.json  metrics.parquet  checkpoints/
                                             state/  progress.json  logs/  stage.lock
                                             owner.json  DONE.json
      <stage>/eval/<evaluation>-<fp8>/step-00400/             a stage: spec.json ... DONE.json
      <stage>/eval/<evaluation>-<fp8>/step-00400/<benchmark>/ draws.json  draws.parquet  shards/
                                             grades.<grader_version>.parquet  passk.parquet
      <base model's stage>/rare/<fp8>/                        a stage: trajectories.parquet
      <point_id>/rare/<fp8>/step-00400/                       a stage: likelihoods.parquet
    <root>/simulation/categorical/<version>/<point_id>/   spec.json  masses.parquet  DONE.json
    <root>/mlflow.db  <root>/mlflow-artifacts/   the embedded MLflow store, over all sweeps
    <root>/verdicts/                             what judges have said, over all sweeps
    """

    root: Path
    sweep: str
    experiment: str
    version: str

    @cached_property
    def folder(self) -> Path:
        """The address of everything in this sweep."""
        return self.root / self.sweep / self.experiment / self.version

    @property
    def sweep_json(self) -> Path:
        """The resolved declaration, as last run, with git commit and library versions."""
        return self.folder / "sweep.json"

    @property
    def plan(self) -> Path:
        """The points and stages, as last run."""
        return self.folder / "plan.json"

    @property
    def ledger(self) -> Path:
        """One JSON line for each start and end of an attempt at a stage; append-only."""
        return self.folder / "ledger.jsonl"

    @property
    def submissions(self) -> Path:
        """One JSON line for each thing said to SLURM; append-only."""
        return self.folder / "submissions.jsonl"

    @property
    def code(self) -> Path:
        """Folder of the frozen code that jobs run."""
        return self.folder / "code"

    def batch(self, name: str) -> Path:
        """Folder of a batch of SLURM jobs: what was submitted and what it printed."""
        return self.folder / "slurm" / name

    @property
    def driver_lock(self) -> Path:
        """Held by the one driver of this sweep."""
        return self.folder / "driver.lock"

    @property
    def report(self) -> Path:
        """Folder of tables and figures."""
        return self.folder / "report"

    def warmup(self, seed: int) -> StagePaths:
        """The supervised warm-up that all points of a seed share."""
        return StagePaths(self.folder / "_warmup" / f"s{seed}")

    def point(self, point_id: str) -> StagePaths:
        """One training run."""
        return StagePaths(self.folder / point_id)

    @property
    def verdicts(self) -> Path:
        """Folder of the judges' verdicts (fgrpo_bench.graders.verdicts)."""
        return self.root / "verdicts"

    @property
    def mlflow_db(self) -> Path:
        """SQLite file of the embedded MLflow store."""
        return self.root / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        """Artifact folder of the embedded MLflow store."""
        return self.root / "mlflow-artifacts"

    @property
    def mlflow_lock(self) -> Path:
        """Held by the one process that writes to the embedded store."""
        return self.root / "mlflow.lock"


def find_runs(
    root: Path,
    sweep: str | None = None,
    *,
    experiment: str | None = None,
    version: str | None = None,
) -> list[RunPaths]:
    """Every planned run under a root, sorted by sweep, experiment and version; None is any."""
    return [
        RunPaths(root=root, sweep=name, experiment=parts[0], version=parts[1])
        for plan in sorted(root.glob("*/*/*/plan.json"))
        for name, *parts, _ in [plan.parts[-4:]]
        if sweep in (None, name) and experiment in (None, parts[0]) and version in (None, parts[1])
    ]


def default_root() -> Path:
    """Folder of all runs: FGRPO_RUN_ROOT, or `runs` here."""
    return Path(os.environ.get("FGRPO_RUN_ROOT", "runs"))
