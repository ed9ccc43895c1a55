"""A training run by the one-process engine of this package."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.specs import ModelSpec, TaskSpec, TrainSpec, WarmupSpec
from fgrpo_bench.specs.base import STRICT


@dataclass(config=STRICT, frozen=True, kw_only=True)
class EmbeddedTrain(TrainSpec):
    """A training run of the one-process engine of this package."""

    engine: Literal["embedded"]
    """Training engine."""
    task: TaskSpec
    """Where the training problems come from."""
    model: ModelSpec
    """Architecture of the policy."""
    warmup: WarmupSpec
    """How the base model is made."""
