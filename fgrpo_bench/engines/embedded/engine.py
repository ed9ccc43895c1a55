"""The one-process engine of this package, as the rest sees it: its training spec and its Engine."""

from __future__ import annotations

from typing import Any, Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.engines.engine import BASE, Engine
from fgrpo_bench.specs import ModelSpec, Profile, SweepPoint, TaskSpec, TrainSpec, WarmupSpec
from fgrpo_bench.specs.base import STRICT, Positive
from fgrpo_bench.specs.fingerprint import LOOP, defining, model_fields


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
    max_batch_tokens: Positive | None = None
    """Most tokens that go through the model at once, a prompt counted once a group: a batch of more
    is sampled and learned from in parts, of whole groups, which changes nothing but rounding. Null
    takes every batch at once."""


def _identity(train: EmbeddedTrain) -> dict[str, Any]:
    return defining(train, LOOP) | {"model": model_fields(train.model)}


def _check_evaluation(point: SweepPoint, _: Profile) -> list[str]:
    if point.evaluation.sampler == "embedded" and getattr(point.train, "model", None) is None:
        raise ValueError(
            "evaluation.sampler=embedded with a published model: the embedded engine samples from "
            "its own checkpoints only; set experiment.evaluation.sampler=vllm"
        )
    return []


ENGINE = Engine(
    name="embedded",
    train=EmbeddedTrain,
    program=("fgrpo_bench.engines.embedded",),
    environment=BASE,
    samplers=("embedded", "transformers"),
    gives_log_probs=True,
    aggregations=("token_mean", "sequence_mean", "constant_length"),
    identity=_identity,
    version=1,
    check_evaluation=_check_evaluation,
)
