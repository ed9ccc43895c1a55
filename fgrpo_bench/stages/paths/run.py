"""The files of a run of a sweep, those that all runs share, and finding runs by their files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fgrpo_bench.stages.paths.stage import StagePaths

RESERVED = frozenset(
    {
        *("mlflow.db", "mlflow.lock", "mlflow-artifacts", "verdicts", "cache", "data", "evals"),
        "simulation",
    }
)
"""Names in a run root that are no sweep's; those that begin with `_` or `.` are none's either."""


@dataclass(frozen=True, kw_only=True)
class RunPaths:
    """One sweep of one experiment in one version.

    <root>/<sweep>/<experiment>/<version>/   sweep.json  plan.json  driver.lock  report/
                                             on SLURM: submissions.jsonl  code/  slurm/
      _warmup/s<seed>/                       a stage; one for each training seed
      _data/<dataset>                        a link to <root>/_data/<dataset>-<fp8>/, a stage
      <point_id>/                            a stage: spec.json  metrics.parquet  checkpoints/
                                             state/  progress.json  logs/  stage.lock
                                             owner.json  DONE.json  damaged/
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
        """What the drivers of earlier versions noted of attempts (fgrpo_bench.stages.attempts)."""
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
    def damaged(self) -> Path:
        """Folder of files of the report that were damaged and made again."""
        return self.folder / "damaged"

    @property
    def analysis(self) -> Path:
        """Folder of the frames that every view shows (fgrpo_bench.analysis)."""
        return self.folder / "analysis"

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


def shared_data(root: Path, name: str, fingerprint: str) -> Path:
    """The folder of a dataset that all sweeps under a root share; their own ones link to it."""
    return root / "_data" / f"{name}-{fingerprint[:8]}"
