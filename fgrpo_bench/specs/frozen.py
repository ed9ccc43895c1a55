"""What a stage's spec.json says, typed: what is asked for is read, the rest is nobody's business.

fgrpo_bench.kinds writes these files, each kind its own; the programs of fetches, warm-ups and
training runs, which stand below the kinds, read theirs by the classes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    PretrainedSpec,
    SweepPoint,
    TaskSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.files import fields_of, read_json
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.shapes import SPEC


@dataclass(frozen=True)
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


def read_content(stage: StagePaths) -> dict[str, Any]:
    """The spec.json of any kind (shapes.SPEC)."""
    content: dict[str, Any] = read_json(stage.spec, SPEC)
    return content


def trained_task(stage: StagePaths) -> dict[str, Any] | None:
    """The generated task of the run or warm-up that a stage is, as it was stored; None of another
    kind, and where a dataset is trained on."""
    spec = Frozen(stage, read_json(stage.spec))
    places = (spec.content, spec.content.get("point", {}).get("train", {}))
    tasks = [place.get("task") for place in (*places, spec.content.get("identity", {}))]
    return next((dict(task) for task in tasks if task is not None), None)


@dataclass(frozen=True)
class FetchSpec(Frozen):
    """The spec.json of a fetch."""

    @property
    def dataset(self) -> DatasetSpec | None:
        """What is fetched; None for a model."""
        dataset = self.content.get("dataset")
        return None if dataset is None else from_stored(DatasetSpec, dataset, self.stage.spec)

    @property
    def model(self) -> PretrainedSpec:
        """The published model that is fetched."""
        return from_stored(PretrainedSpec, self.value("model"), self.stage.spec)

    @property
    def chat_template(self) -> bool:
        """Whether the model must have a chat template."""
        return bool(self.value("chat_template"))


@dataclass(frozen=True)
class WarmupStageSpec(Frozen):
    """The spec.json of a warm-up. Those of versions before say in their identity alone what is
    done, which then had every field."""

    def field(self, name: str) -> Any:
        """A field, wherever it stands."""
        return self.value(name) if name in self.content else self.value("identity", name)

    @property
    def task(self) -> TaskSpec:
        """The task that is demonstrated."""
        return from_stored(TaskSpec, self.field("task"), self.stage.spec)

    @property
    def model(self) -> ModelSpec:
        """Architecture of the base model."""
        return from_stored(ModelSpec, self.field("model"), self.stage.spec)

    @property
    def warmup(self) -> WarmupSpec:
        """How it is made."""
        return from_stored(WarmupSpec, self.field("warmup"), self.stage.spec)

    @property
    def betas(self) -> tuple[float, float]:
        """AdamW's."""
        return float(self.field("beta1")), float(self.field("beta2"))

    @property
    def grad_clip(self) -> float:
        """Largest global gradient norm."""
        return float(self.field("grad_clip"))

    @property
    def seed(self) -> int:
        """The training seed."""
        return int(self.field("seed"))


@dataclass(frozen=True)
class TrainStageSpec(Frozen):
    """The spec.json of a training run."""

    @property
    def point(self) -> SweepPoint:
        """The whole run."""
        return from_stored(SweepPoint, self.value("point"), self.stage.spec)

    @property
    def base(self) -> StagePaths:
        """What makes the base model."""
        return self.needed("base")

    @property
    def save_every(self) -> int:
        """Steps between checkpoints."""
        return int(self.value("point", "train", "save_every"))

    @property
    def warmup_steps(self) -> int | None:
        """Of the base model, of which this may be the stage itself; None of a published one."""
        places = (self.content, self.content.get("point", {}).get("train", {}))
        stored = [place.get("warmup") for place in (*places, self.content.get("identity", {}))]
        return next((int(each["steps"]) for each in stored if each is not None), None)

    @property
    def labels(self) -> dict[str, Any]:
        """Algorithm, group size, focal gamma and seed, as plan.json names them."""
        named = {key: self.value("point", key) for key in ("group_size", "focal_gamma", "seed")}
        return named | {"algorithm": self.value("point", "algorithm", "name")}
