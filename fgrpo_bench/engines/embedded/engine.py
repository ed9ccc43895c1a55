"""The one-process engine of this package, as the rest sees it."""

from __future__ import annotations

from typing import Any

from fgrpo_bench.engines.embedded.spec import EmbeddedTrain
from fgrpo_bench.engines.engine import BASE, Engine
from fgrpo_bench.specs import Profile, SweepPoint
from fgrpo_bench.specs.fingerprint import LOOP, defining, model_fields


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
    aggregations=("token_mean", "sequence_mean", "constant_length"),
    identity=_identity,
    version=1,
    check_evaluation=_check_evaluation,
)
