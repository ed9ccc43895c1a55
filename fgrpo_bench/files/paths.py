"""File names that more than one package knows, each an attribute of one class."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

EVALUATIONS, TOGETHER = "evals", "together"
"""First and last part of the address of evaluations that are looked at together."""
RESERVED = frozenset(
    {
        *("mlflow.db", "mlflow.lock", "mlflow-artifacts", "verdicts", "cache", "data", "evals"),
        *("simulation", "draws"),
    }
)
"""Names in a run root that are no sweep's; those that begin with `_` or `.` are none's either."""


class SubPath:
    """An attribute that is a path below the owner's folder, or below another of its fields."""

    def __init__(self, *parts: str, base: str = "folder") -> None:
        self._parts, self._base = parts, base

    def __get__(self, owner: Any, _: type) -> Path:
        above: Path = getattr(owner, self._base)
        return above.joinpath(*self._parts)


@dataclass(frozen=True)
class StagePaths:
    """The files of one stage (a warm-up, a training run or an evaluation)."""

    folder: Path
    spec = SubPath("spec.json")
    """What the stage computes, frozen before it is dispatched."""
    done = SubPath("DONE.json")
    """The completion marker, written last."""
    lock = SubPath("stage.lock")
    """Held by the process that runs the stage."""
    owner = SubPath("owner.json")
    """Token of the process that began the stage last; an older one that wakes up stops."""
    progress = SubPath("progress.json")
    """Where the stage stands, rewritten every few seconds."""
    damaged = SubPath("damaged")
    """Folder of files that were damaged and made again, by their path in this one."""
    logs = SubPath("logs")
    """Folder of the stage's output, one file an attempt."""

    def log(self, attempt: int) -> Path:
        """Output of one attempt, counted from 1."""
        return self.logs / f"attempt-{attempt:03d}.log"

    def attempt(self, attempt: int) -> Path:
        """Who made an attempt and how it ended (fgrpo_bench.stages.attempts)."""
        return self.logs / f"attempt-{attempt:03d}.json"

    metrics = SubPath("metrics.parquet")
    """Training metrics, a row a step (tables.METRICS)."""
    rollouts = SubPath("rollouts.parquet")
    """Training groups of the steps that left a checkpoint (tables.ROLLOUTS), where the engine
    stores any."""
    step_rows = SubPath("metrics.jsonl")
    """The metrics while an engine over GPUs trains: a JSON line a step, of which a resumed run
    takes back those that it makes again."""
    trajectories = SubPath("trajectories.parquet")
    """Rare correct answers of a base model (tables.TRAJECTORIES)."""
    likelihoods = SubPath("likelihoods.parquet")
    """The same under a checkpoint (tables.LIKELIHOODS)."""
    checkpoints = SubPath("checkpoints")
    """Folder of the checkpoints."""

    def checkpoint(self, step: int) -> Path:
        """A Hugging Face checkpoint folder."""
        return self.checkpoints / f"step-{step:05d}"

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
    manifest = SubPath("draws.json")
    """What the draws were made with: digests of weights and prompts, engine fingerprint."""
    draws = SubPath("draws.parquet")
    """All draws (tables.DRAWS), once they are complete."""
    shards = SubPath("shards")
    """Folder of the shards."""

    @property
    def damaged(self) -> Path:
        """Folder of files that were damaged and made again, beside those of the stage itself."""
        return self.folder.parent / "damaged" / self.folder.name

    def shard(self, number: int) -> Path:
        """Draws of one attempt while sampling goes on, a JSON line each; append-only."""
        return self.shards / f"draws-{number:04d}.jsonl"

    def grades(self, grader_version: str) -> Path:
        """Judgements by one version of the grader (tables.GRADES)."""
        return self.folder / f"grades.{grader_version}.parquet"

    def judging(self, grader_version: str) -> Path:
        """Folder of judgements while grading goes on, a JSON line each; append-only."""
        return self.folder / f"judging.{grader_version}"

    def passk(self, further: str | None = None) -> Path:
        """pass@k by problem (tables.PASSK). further: version of a grader beside the benchmark's
        own; None: by its own."""
        return self.folder / f"passk{'' if further is None else f'.{further}'}.parquet"


@dataclass(frozen=True)
class DataPaths:
    """What a data stage leaves beside the files of every stage."""

    folder: Path
    lock = SubPath("data.lock.json")
    """Where the data came from and what each rule left: revisions, digests, counts."""
    problems = SubPath("problems.parquet")
    """The problems (tables.PROBLEMS)."""
    columns = SubPath("columns.parquet")
    """The short columns beside them, by problem_id (fgrpo_bench.data.problem_columns)."""
    source = SubPath("source")
    """Folder of the publisher's file."""
    tokenizer = SubPath("tokenizer")
    """Folder of the tokenizer that measures prompts."""


@dataclass(frozen=True, kw_only=True)
class RunPaths:
    """One sweep of one experiment in one version.

    <root>/<sweep>/<experiment>/<version>/   sweep.json  plan.json  driver.lock  report/
                                             on SLURM: submissions.jsonl  code/  slurm/
      _warmup/s<seed>/                       a stage; one for each training seed
      _data/<dataset>                        a link to <root>/_data/<dataset>-<fp8>/, a stage
      <point_id>/                            a stage: spec.json  metrics.parquet
                                             rollouts.parquet  checkpoints/  state/
                                             progress.json  logs/  stage.lock  owner.json
                                             DONE.json  damaged/
      <stage>/eval/<evaluation>-<fp8>/step-00400/             a stage: spec.json ... DONE.json
      <stage>/eval/<evaluation>-<fp8>/step-00400/<benchmark>/ draws.json  draws.parquet  shards/
                                             grades.<grader_version>.parquet  passk.parquet
      <base model's stage>/rare/<fp8>/                        a stage: trajectories.parquet
      <point_id>/rare/<fp8>/step-00400/                       a stage: likelihoods.parquet
    <root>/simulation/                           no sweep: the simulation's results and report
    <root>/mlflow.db  <root>/mlflow-artifacts/   the embedded MLflow store, over all sweeps
    <root>/verdicts/                             what judges have said, over all sweeps
    <root>/draws/<digest>                        a link to the draws of a finished evaluation, by
                                             what they follow from
    <root>/_groups/<name>.json                   groups of another program's training run
    """

    root: Path
    sweep: str
    experiment: str
    version: str

    @cached_property
    def folder(self) -> Path:
        """The address of everything in this sweep."""
        return self.root / self.sweep / self.experiment / self.version

    sweep_json = SubPath("sweep.json")
    """The resolved declaration, as last run, with git commit and library versions."""
    plan = SubPath("plan.json")
    """The points and stages, as last run."""
    submissions = SubPath("submissions.jsonl")
    """One JSON line for each thing said to SLURM; append-only."""
    code = SubPath("code")
    """Folder of the frozen code that jobs run."""

    def batch(self, name: str) -> Path:
        """Folder of a batch of SLURM jobs: what was submitted and what it printed."""
        return self.folder / "slurm" / name

    driver_lock = SubPath("driver.lock")
    """Held by the one driver of this sweep."""
    damaged = SubPath("damaged")
    """Folder of files of the report that were damaged and made again."""
    analysis = SubPath("analysis")
    """Folder of the frames that every view shows (fgrpo_bench.analysis)."""
    report = SubPath("report")
    """Folder of tables and figures."""

    def warmup(self, seed: int) -> StagePaths:
        """The supervised warm-up that all points of a seed share."""
        return StagePaths(self.folder / "_warmup" / f"s{seed}")

    def point(self, point_id: str) -> StagePaths:
        """One training run."""
        return StagePaths(self.folder / point_id)

    verdicts = SubPath("verdicts", base="root")
    """Folder of the judges' verdicts (fgrpo_bench.graders.judge.VerdictStore)."""
    mlflow_db = SubPath("mlflow.db", base="root")
    """SQLite file of the embedded MLflow store."""
    mlflow_artifacts = SubPath("mlflow-artifacts", base="root")
    """Artifact folder of the embedded MLflow store."""
    mlflow_lock = SubPath("mlflow.lock", base="root")
    """Held by the one process that writes to the embedded store."""


def is_below(name: str) -> bool:
    """Whether a listed path is one below the folder that it is listed for, going by its words."""
    path = PurePosixPath(name)
    return (
        bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
    )


def check_inside(folder: Path, parent: Path) -> None:
    """ValueError where a folder below another one is, or lies behind, a link that leads out of it:
    what is written there would be written elsewhere. parent may be a link itself."""
    real = folder.resolve()
    if not real.is_relative_to(parent.resolve()):
        raise ValueError(
            f"{folder} is a link to {real}, outside of {parent}: nothing is written there; remove "
            "the link, or choose another name"
        )


def shared_data(root: Path, name: str, fingerprint: str) -> Path:
    """The folder of a dataset that all sweeps under a root share; their own ones link to it."""
    return root / "_data" / f"{name}-{fingerprint[:8]}"


def finished_draws(root: Path, identity: str) -> Path:
    """The link to the draws of a finished evaluation on a benchmark, which identical ones under a
    root take over."""
    return root / "draws" / identity


def stored_groups(root: Path) -> Path:
    """Folder of what was counted of the groups of training runs, a JSON file each."""
    return root / "_groups"


def between(folder: Path, other: Path) -> str:
    """The relative path from a folder to another path, which holds where links stand above them: a
    `..` leaves the folder that a link leads to, not the one in which the link stands."""
    return os.path.relpath(other.resolve(), folder.resolve())
