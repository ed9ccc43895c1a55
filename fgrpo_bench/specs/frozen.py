"""What a stage's spec.json says, typed: what is asked for is read, the rest is nobody's business.

fgrpo_bench.kinds writes these files, each kind its own; the programs of fetches, warm-ups and
training runs, which stand below the kinds, read theirs by the classes here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic.dataclasses import dataclass

from fgrpo_bench import registry
from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    PretrainedSpec,
    SweepPoint,
    TaskSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.base import STRICT
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.files import fields_of, read_json
from fgrpo_bench.stages.paths import StagePaths

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Frozen:
    """The spec.json of a stage of any kind."""

    stage: StagePaths
    content: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """What the stage's marker must say."""
        return str(self.content["fingerprint"])

    def value(self, *keys: str) -> Any:
        """A field, or one within it; ValueError that names the file where it is not there."""
        value: Any = self.content
        with fields_of(self.stage.spec):
            for key in keys:
                value = value[key]
            return value

    def typed(self, cls: type[T], *keys: str) -> T:
        """A field as a spec; see `from_stored`. Loads the stage's plug-ins."""
        registry.load(self.content.get("plugins", ()))
        return from_stored(cls, self.value(*keys), self.stage.spec)

    def path(self, *keys: str) -> str | None:
        """Where another stage is, from here; None where the field is null or not there."""
        value: Any = self.content
        with fields_of(self.stage.spec):
            for key in keys:
                value = None if value is None else value.get(key)
            return None if value is None else str(value)

    def folder(self, *keys: str) -> StagePaths | None:
        """That stage."""
        path = self.path(*keys)
        return None if path is None else StagePaths((self.stage.folder / path).resolve())

    def needed(self, *keys: str) -> StagePaths:
        """The same where there must be one."""
        return StagePaths((self.stage.folder / str(self.value(*keys))).resolve())

    @property
    def source(self) -> StagePaths:
        """The stage whose checkpoint this one looks at."""
        return self.needed("source")

    @property
    def step(self) -> int:
        """The checkpoint that it looks at."""
        return int(self.value("step"))

    @property
    def seedless_fingerprint(self) -> str:
        """Fingerprint of what it shares with the same stage of other seeds."""
        identity = dict(self.value("identity"))
        identity.pop("seed", None)
        return fingerprint(identity)


def trained_with(stage: StagePaths, name: str) -> dict[str, Any] | None:
    """A part of the training spec, e.g. task or warmup, of the run or warm-up that a stage is, as
    it was stored; None where it has none, and of a stage of another kind."""
    spec = read_json(stage.spec)
    trained = spec["point"]["train"] if "point" in spec else spec.get("identity", {})
    part: dict[str, Any] | None = trained.get(name)
    return part


@dataclasses.dataclass(frozen=True)
class FetchSpec(Frozen):
    """The spec.json of a fetch: of a dataset, or of a model where that is None."""

    @property
    def dataset(self) -> DatasetSpec | None:
        """What is fetched; None for a model."""
        return self.typed(DatasetSpec, "dataset") if "dataset" in self.content else None

    @property
    def model(self) -> PretrainedSpec:
        """The published model that is fetched."""
        return self.typed(PretrainedSpec, "model")

    @property
    def chat_template(self) -> bool:
        """Whether the model must have a chat template."""
        return bool(self.value("chat_template"))


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


def warmed_up(spec: Frozen) -> WarmedUp:
    """What the spec.json of a warm-up says; in those of versions before the identity alone said
    it, which then had every field."""
    fields = {**spec.content.get("identity", {}), **spec.content}
    return from_stored(WarmedUp, fields, spec.stage.spec)


@dataclasses.dataclass(frozen=True)
class TrainStageSpec(Frozen):
    """The spec.json of a training run."""

    @property
    def point(self) -> SweepPoint:
        """The whole run."""
        return self.typed(SweepPoint, "point")

    @property
    def base(self) -> StagePaths:
        """What makes the base model."""
        return self.needed("base")
