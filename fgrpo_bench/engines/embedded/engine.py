"""The one-process engine of this package, as the rest sees it: its training spec and its Engine."""

from __future__ import annotations

from typing import Any, Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.engines.engine import BASE, Engine
from fgrpo_bench.specs import ModelSpec, Profile, SweepPoint, TaskSpec, TrainSpec, WarmupSpec
from fgrpo_bench.specs.base import STRICT, Positive
from fgrpo_bench.specs.fingerprint import LOOP, defining, model_fields
from fgrpo_bench.tasks import make_task


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


def embedded_train(point: SweepPoint) -> EmbeddedTrain:
    """The training spec of a point of this engine; ValueError for one of another."""
    if not isinstance(point.train, EmbeddedTrain):
        raise ValueError(f"{point.point_id} has engine={point.train.engine}, not embedded")
    return point.train


def _identity(train: EmbeddedTrain) -> dict[str, Any]:
    return defining(train, LOOP) | {"model": model_fields(train.model)}


def _check(point: SweepPoint, _: Profile) -> list[str]:
    """ValueError where a bound is less than one group, which is never split."""
    train = embedded_train(point)
    if train.max_batch_tokens is not None:
        task = make_task(train.task)
        group = task.prompt_length + point.group_size * (task.response_length + 1)
        if train.max_batch_tokens < group:
            raise ValueError(
                f"max_batch_tokens={train.max_batch_tokens}, but a group of {point.point_id} "
                f"(group_size={point.group_size}) has up to {group} tokens and is never split: "
                "raise it, lower the group size, or bound the task's responses"
            )
    return []


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
    check=_check,
    version=2,
    check_evaluation=_check_evaluation,
)
