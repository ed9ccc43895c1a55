"""The files of one stage: of any kind, of an evaluation's benchmarks, and of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
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
    def damaged(self) -> Path:
        """Folder of files that were damaged and made again, by their path in this one."""
        return self.folder / "damaged"

    @property
    def logs(self) -> Path:
        """Folder of the stage's output, one file an attempt."""
        return self.folder / "logs"

    def log(self, attempt: int) -> Path:
        """Output of one attempt, counted from 1."""
        return self.logs / f"attempt-{attempt:03d}.log"

    def attempt(self, attempt: int) -> Path:
        """Who made an attempt and how it ended (fgrpo_bench.stages.attempts)."""
        return self.logs / f"attempt-{attempt:03d}.json"

    @property
    def metrics(self) -> Path:
        """Training metrics, a row a step (tables.METRICS)."""
        return self.folder / "metrics.parquet"

    @property
    def step_rows(self) -> Path:
        """The same while an engine over GPUs trains: a JSON line a step, of which a resumed run
        takes back those that it makes again."""
        return self.folder / "openrlhf" / "metrics.jsonl"

    @property
    def training_states(self) -> Path:
        """Folder of its training states."""
        return self.folder / "openrlhf" / "states"

    @property
    def trajectories(self) -> Path:
        """Rare correct answers of a base model (tables.TRAJECTORIES)."""
        return self.folder / "trajectories.parquet"

    @property
    def likelihoods(self) -> Path:
        """The same under a checkpoint (tables.LIKELIHOODS)."""
        return self.folder / "likelihoods.parquet"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

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

    @property
    def manifest(self) -> Path:
        """What the draws were made with: digests of weights and prompts, engine fingerprint."""
        return self.folder / "draws.json"

    @property
    def damaged(self) -> Path:
        """Folder of files that were damaged and made again, beside those of the stage itself."""
        return self.folder.parent / "damaged" / self.folder.name

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
