"""What the rest asks of a training engine, and of the installation that it runs in.

Nothing here or in a module that defines an ENGINE loads torch, ray or another heavy package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fgrpo_bench.files.records import Record
from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    Placement,
    PretrainedSpec,
    Profile,
    PromptSpec,
    SlurmProfile,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    WarmupSpec,
)
from fgrpo_bench.stages.markers import Marker


@dataclass(frozen=True, kw_only=True)
class TrainingFacts(Record):
    """What a training run says in its marker beside what all stages say."""

    step: int
    """The last one."""
    weights_sha256: str
    """Of its checkpoint."""
    resumed_at: int | None = None
    """Step of the state that it went on from, 0 for none; None of an engine that does not say."""
    rollouts: int
    optimizer_steps: int
    gpus: int | None = None
    """None of an engine that uses at most one."""
    engine: dict[str, Any]
    """Versions and hardware behind the numbers."""


@dataclass(frozen=True, kw_only=True)
class TrainingMarker(TrainingFacts, Marker):
    """DONE.json of a training run."""


def installed(*packages: str) -> dict[str, str]:
    """Versions of those packages that are here, by name."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def _no_check(*_: Any, **__: Any) -> None:
    """Of an engine or environment that has nothing to check or to say."""


def _no_warnings(*_: Any) -> list[str]:
    """Of an engine that takes every point and evaluation."""
    return []


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An installation that stages run in."""

    name: str
    """In plan.json; no two engines share one."""
    interpreter: Callable[[Any], str]
    """Its Python, as the path where a stage runs, for a profile or whatever else has a device and a
    placement."""
    target: Callable[[str], str]
    """The Makefile's target that installs it for a device."""
    check: Callable[[Profile], None] = _no_check
    """ValueError where it is not there for a profile, which must be known before anything runs."""
    check_machine: Callable[[], None] = _no_check
    """ValueError where the machine that a stage runs on cannot run it, asked by the stage."""
    is_placed: bool = False
    """Whether profile.placement lays its stages out over GPUs; they are given it."""


BASE = Environment(
    name="base",
    interpreter=lambda machine: getattr(machine, "python", None) or sys.executable,
    target=lambda _: "setup",
)
"""That of the commands themselves."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a training run begins with: a task or a dataset, with a model that is warmed up on the
    task or a published one; None of what it does not have."""

    task: TaskSpec | None = None
    model: ModelSpec | None = None
    warmup: WarmupSpec | None = None
    pretrained: PretrainedSpec | None = None
    dataset: DatasetSpec | None = None
    eval_dataset: DatasetSpec | None = None
    """Of the evaluation during training."""
    prompt: PromptSpec | None = None
    """How a problem becomes what the model reads; None gives it as it is."""
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    """Bounds; None are the task's own."""


def default_inputs(train: Any) -> Inputs:
    """The fields of a training spec that have those names; no dataset that is never drawn on."""
    values = {field.name: getattr(train, field.name, None) for field in fields(Inputs)}
    return Inputs(**values | ({} if train.eval_every else {"eval_dataset": None}))


@dataclass(frozen=True, kw_only=True)
class Save:
    """A whole training state on its way to the disk."""

    gb: float
    """Its size, 10^9 bytes."""
    seconds: float
    """What it takes at the rate that the profile states."""
    formula: str

    def __str__(self) -> str:
        return (
            f"saving a training state of {self.gb:.1f} GB takes about {self.seconds:.0f} s "
            f"({self.formula})"
        )


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One way to train."""

    name: str
    """The value of TrainSpec.engine."""
    train: type[TrainSpec]
    """Its training spec."""
    program: tuple[str, ...]
    """What follows `python -m` in the command of a training stage."""
    environment: Environment
    samplers: tuple[str, ...] = ()
    """Values of EvalSpec.sampler that run in its environment."""
    objectives: tuple[str, ...] | None = None
    """Names of the objectives that it has; None is every one of the table."""
    advantages: tuple[str, ...] | None = None
    """Likewise of the advantages."""
    gives_log_probs: bool = False
    """Whether an advantage gets the log-probabilities of the rollouts where it reads them."""
    carries_state: bool = False
    """Whether the state of an advantage that has one goes from step to step, and is saved."""
    aggregations: tuple[str, ...] = ("token_mean", "sequence_mean")
    """Values of AlgorithmSpec.loss_aggregation that it has."""
    controls: tuple[str, ...] = ()
    """Fields of AlgorithmSpec that need more of an engine than the objective, of those it has."""
    inputs: Callable[[Any], Inputs] = default_inputs
    """What a training spec of this engine begins with."""
    identity: Callable[[Any], dict[str, Any]]
    """What of a training spec of this engine defines the weights."""
    pretrained_identity: Callable[[Any], dict[str, Any]] = lambda _: {}
    """What defines the published model of a training spec of this engine beside where it is."""
    version: int
    """Raised when the engine makes other weights of the same spec."""
    check: Callable[[SweepPoint, Profile], list[str]] = _no_warnings
    """Warnings of a point; ValueError with value, rule and remedy where it cannot be trained."""
    check_evaluation: Callable[[SweepPoint, Profile], list[str]] = _no_warnings
    """The same of a point's evaluation, where the sampler is one of `samplers`."""
    check_installed: Callable[[Profile, Any], str | None] = _no_check
    """ValueError where the installation refuses a training spec; a note for a person where that
    cannot be found out from here."""
    check_state: Callable[[Path, Profile, str | None], None] = _no_check
    """ValueError where a run cannot resume from the state that its stage's folder has: with this
    profile, from a base model with this digest (None is one that is not made yet)."""
    check_sizes: Callable[[SweepPoint, Callable[[DatasetSpec], int]], None] = _no_check
    """ValueError where a fetched dataset, whose rows the function tells, is too small."""
    rehearsed: Callable[[Any, Path], TrainSpec] | None = None
    """A training spec as processors can run it, with a tiny model in its model's place, which is
    put below the folder; None: it runs on processors as it is."""
    state_gb: Callable[[SweepPoint, Placement], float | None] = _no_check
    """Size of a whole training state, 10^9 bytes; None where nobody can tell."""
    save: Callable[[SweepPoint, SlurmProfile], Save | None] = _no_check
    """What a save takes; None where nobody can tell."""
    memory: Callable[[Sequence[SweepPoint], Profile], list[str]] = _no_warnings
    """What the points need of a GPU's memory, in lines; none where nobody can tell."""
    digits: Callable[[Profile], list[str]] = _no_warnings
    """Why the digits that are computed here may be others than elsewhere, in lines; none where they
    are not, or nobody can tell."""
