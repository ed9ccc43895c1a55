"""Specs in stored files: of sweep.json, and of the spec.json of fetches, warm-ups and training.

The programs of these stages stand below fgrpo_bench.kinds, which writes the files, so the classes
are here. What is not known in a file is passed over.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from fgrpo_bench.core import registry
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    PretrainedSpec,
    SweepPoint,
    TaskSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.base import STRICT, adapter
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.profile import LocalProfile, SlurmProfile

T = TypeVar("T")


def from_stored(cls: type[T], data: Any, path: Path) -> T:
    """A spec from a stored file: unknown fields are passed over, and one that is missing takes its
    neutral value.

    path: the file. ValueError in a sentence that names file, field and rule where a field without
    such a value is missing, or holds what this version cannot take.
    """
    try:
        text, context = json.dumps(data), {"extra": "ignore"}
        value: T = adapter(cls).validate_json(text, extra="ignore", context=context)
        return value
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"]) or "what it declares"
        rule = str(fault["msg"]).removeprefix("Value error, ")
        is_missing = fault["type"].startswith("missing")
        wrong = "is missing" if is_missing else f"is {fault['input']!r}: {rule}"
        raise ValueError(
            f"{path}: {field} {wrong}; another version of this program wrote it, or it was changed "
            "by hand: go on with that version, or with another `version=` beside it"
        ) from error


def stored_profile(declaration: Mapping[str, Any], path: Path) -> LocalProfile | SlurmProfile:
    """The profile of a stored declaration, whose plug-ins are loaded; the rest of it is not looked
    at. Raises as `from_stored`."""
    registry.load(declaration.get("plugins", ()))
    profile = declaration["profile"]
    kinds: dict[str, Any] = {"local": LocalProfile, "slurm": SlurmProfile}
    kind = kinds.get(profile.get("dispatcher", ""))
    if kind is None:
        raise ValueError(
            f"{path}: profile.dispatcher is {profile.get('dispatcher')!r}, which this version does "
            f"not have ({', '.join(kinds)}): go on with the version that wrote it"
        )
    read: LocalProfile | SlurmProfile = from_stored(kind, profile, path)
    return read


def typed(spec: StageSpec, cls: type[T], value: Any) -> T:
    """A field of a spec.json as a spec; see `from_stored`. Loads the stage's plug-ins."""
    registry.load(spec.plugins or ())
    return from_stored(cls, value, spec.file)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FetchSpec(StageSpec):
    """spec.json of a fetch: of a dataset, or of a model."""

    dataset: dict[str, Any] | None = None
    """None for a model; the next two are None for a dataset."""
    model: dict[str, Any] | None = None
    chat_template: bool | None = None
    """Whether the model must have one."""

    @property
    def dataset_spec(self) -> DatasetSpec:
        """What is fetched, where it is a dataset."""
        return typed(self, DatasetSpec, self.dataset)

    @property
    def model_spec(self) -> PretrainedSpec:
        """The published model that is fetched."""
        return typed(self, PretrainedSpec, self.model)


@dataclass(config=STRICT, frozen=True, kw_only=True)
class WarmedUp:
    """What a warm-up computes; fields as the specs and LoopSpec have them."""

    task: TaskSpec
    model: ModelSpec
    warmup: WarmupSpec
    beta1: float
    beta2: float
    grad_clip: float
    seed: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmupStageSpec(StageSpec):
    """spec.json of a warm-up."""

    seed: int
    task: dict[str, Any]
    model: dict[str, Any]
    warmup: dict[str, Any]
    beta1: float
    beta2: float
    grad_clip: float

    @property
    def computed(self) -> WarmedUp:
        """All of these as specs."""
        return typed(self, WarmedUp, self.as_json())


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainStageSpec(StageSpec):
    """spec.json of a training run."""

    point: dict[str, Any]
    base: str
    """Path to the stage that makes the base model, from this one's folder, likewise below."""
    data: str | None = None
    """To that of the training problems; None of a task's own, likewise below."""
    eval_data: str | None = None
    reward: str | None = None
    """What judges the rollouts, with the folder of a function's module; None as in the point."""

    def judge(self) -> str | None:
        """`reward`; ValueError where it is a function whose file was changed since the plan."""
        from fgrpo_bench.graders import grader_version  # which loads what judges mathematics

        planned = (self.identity or {}).get("reward")
        if self.reward is not None and not grader_version(self.reward).endswith(str(planned)):
            raise ValueError(
                f"the file of the reward {self.reward} was changed since this run was planned: "
                "put it back, or run the sweep again with another `version=`"
            )
        return self.reward

    @property
    def sweep_point(self) -> SweepPoint:
        """The whole run."""
        return typed(self, SweepPoint, self.point)


def seedless_fingerprint(spec: StageSpec) -> str:
    """Fingerprint of what a stage shares with the same stage of other seeds."""
    identity = spec.identity or {}
    return fingerprint({key: identity[key] for key in identity if key != "seed"})


def trained_with(stage: StagePaths, name: str) -> dict[str, Any] | None:
    """A part of the training spec, e.g. task or warmup, of the run or warm-up that a stage is, as
    it was stored; None where it has none, and of a stage of another kind."""
    spec = read_spec(stage)
    if spec.kind == "train":
        part: dict[str, Any] | None = spec.as_kind(TrainStageSpec).point["train"].get(name)
    else:
        part = (spec.identity or {}).get(name)
    return part
