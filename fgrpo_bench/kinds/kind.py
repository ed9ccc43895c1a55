"""What a kind of stage is: the records that the files beside this one fill and others read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fgrpo_bench import engines
from fgrpo_bench.engines.engine import Inputs
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.specs import DatasetSpec, Declaration, Profile, SweepPoint, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stats.selection import saved_steps

Environment = str
"""Which installation runs a stage: base, or an engine's own."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command of the sweep and what it computes."""

    name: str
    """Folder relative to the sweep's, e.g. `grpo-n8-g0.5-s11`; unique."""
    spec: StageSpec
    """Content of its spec.json."""
    needs: tuple[str, ...]
    """Names of stages that must be done first."""
    point_id: str
    """The point it serves; `base-s<seed>` for a warm-up, its own name for what serves all."""
    environment: Environment
    source: str | None = None
    """Name of the stage whose checkpoint it looks at; None where it looks at none."""

    @property
    def kind(self) -> str:
        """A key of KINDS."""
        return self.spec.kind

    @property
    def fingerprint(self) -> str:
        """What defines it."""
        return self.spec.fingerprint

    @property
    def target(self) -> dict[str, Any]:
        """Layers on top of the fingerprint; see fgrpo_bench.stages.markers.is_done."""
        return self.spec.target

    @property
    def step(self) -> int | None:
        """Of the checkpoint that it looks at; None without a source."""
        return self.spec.step


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A declaration on its way to a plan: its points, and the stages of the kinds before."""

    declaration: Declaration
    points: tuple[SweepPoint, ...]
    stages: dict[str, Stage] = field(default_factory=dict)
    """By name, in order."""

    def base(self, point: SweepPoint) -> Stage:
        """What makes the base model of a point."""
        return self.stages[base_name(point)]

    def training(self, point: SweepPoint) -> Stage:
        """What trains a point."""
        return self.stages[point.point_id]

    def dataset(self, dataset: DatasetSpec) -> Stage:
        """What fetches a dataset."""
        return self.stages[dataset_name(dataset)]

    @cached_property
    def by_seed(self) -> list[SweepPoint]:
        """The first point of every seed, by rising seed."""
        first = {point.seed: point for point in reversed(self.points)}
        return [first[seed] for seed in sorted(first)]

    @cached_property
    def by_base(self) -> list[SweepPoint]:
        """A point of every base model."""
        return list({base_name(point): point for point in self.by_seed}.values())

    @cached_property
    def steps(self) -> list[int]:
        """Steps whose checkpoints are looked at, the last first; ValueError for one that has none.

        The steps follow from ExperimentSpec.checkpoints.
        """
        checkpoints, train = self.declaration.experiment.checkpoints, self.points[0].train
        saved = saved_steps(steps=train.steps, save_every=train.save_every)
        if checkpoints == "last":
            return saved[-1:]
        if checkpoints == "every":
            return saved[::-1]
        for step in checkpoints:
            if step not in saved:
                raise ValueError(
                    f"checkpoints={list(checkpoints)}, but a run of {train.steps} steps with "
                    f"save_every={train.save_every} leaves none at step {step}: choose from "
                    f"{', '.join(map(str, saved))}"
                )
        return sorted(checkpoints, reverse=True)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What all stages of a kind have in common."""

    name: str
    """In spec.json, plan.json and the names of jobs."""
    noun: str
    """For people; an `s` makes it many."""
    stages: Callable[[Planned], Iterator[Stage]]
    """Those that a plan needs."""
    command: Callable[[Path, Profile, Environment], list[str]]
    """Arguments of the interpreter that runs a stage; the folder is absolute."""
    comes_first: bool = False
    """Whether everything else of a sweep waits for its stages."""
    fetches: bool = False
    """Whether it needs a network, so that on a cluster `run` does it before any job is sent."""
    in_report: bool = False
    """Whether the report waits for its stages."""
    takes: Literal["profile", "engines", "engine"] = "engines"
    """Its share of a cluster's nodes: all that the profile says, the vLLM engines of an evaluation,
    or one of these; where vLLM does not run either of the last two is a GPU."""
    rerun_hint: str = "makes it again, and nothing else"
    """What `run` does about a missing file."""


def make_stage(
    spec_type: type[StageSpec],
    kind: str,
    name: str,
    identity: dict[str, Any],
    *,
    point_id: str,
    needs: Sequence[str] = (),
    environment: Environment = "base",
    target: dict[str, Any] | None = None,
    source: Stage | None = None,
    step: int | None = None,
    **content: Any,
) -> Stage:
    """A stage that is defined by its identity. spec_type: the class of its spec.json; content: the
    fields that are this class's own; source and step: of the checkpoint that it looks at."""
    spec = spec_type(
        kind=kind,
        fingerprint=fingerprint(identity),
        target=target or {},
        identity=identity,
        source=None if source is None else os.path.relpath(source.name, name),
        step=step,
        **content,
    )
    if source is not None:
        needs = (source.name, *needs)
    return Stage(
        name=name,
        spec=spec,
        needs=tuple(dict.fromkeys(needs)),
        point_id=point_id,
        environment=environment,
        source=None if source is None else source.name,
    )


def training_inputs(point: SweepPoint) -> Inputs:
    """What the training of a point begins with."""
    return engines.engine_for(point.train).inputs(point.train)


def base_name(point: SweepPoint) -> str:
    """Name of the stage that makes a point's base model."""
    model = training_inputs(point).pretrained
    return f"_warmup/s{point.seed}" if model is None else f"_base/{model.name}"


def compute_options(profile: Profile, environment: Environment) -> list[str]:
    """Arguments of a stage's command that say where it computes."""
    arguments = ["--device", profile.device, "--threads", str(profile.threads_per_worker)]
    if engines.environment(environment).is_placed:
        arguments += ["--placement", json.dumps(to_dict(profile.placement))]
    return arguments


def by_module(*arguments: str) -> Callable[[Path, Profile, Environment], list[str]]:
    """The command of a kind that a module runs, e.g. -m evaluators run <folder> --device cpu
    --threads 1. arguments: the module's name, and what stands before the folder."""

    def command(folder: Path, profile: Profile, environment: Environment) -> list[str]:
        return ["-m", *arguments, str(folder), *compute_options(profile, environment)]

    return command


def dataset_name(dataset: DatasetSpec) -> str:
    """Name of the stage that fetches a dataset."""
    return f"_data/{dataset.name}"
