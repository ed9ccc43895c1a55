"""What the kinds ask an engine about its training spec: one function for each question."""

from __future__ import annotations

import json
from typing import Any

from fgrpo_bench.specs import (
    DatasetSpec,
    EmbeddedTrain,
    EvalSpec,
    OpenRLHFTrain,
    PretrainedSpec,
    Profile,
    PromptSpec,
    SweepPoint,
    TaskSpec,
    TrainSpec,
    to_dict,
)
from fgrpo_bench.specs.fingerprint import defining

PROGRAMS = {"base": "fgrpo_bench.engines.embedded", "openrlhf": "fgrpo_bench.engines.openrlhf"}
"""Modules of the training commands, by environment."""
VERSIONS = {"embedded": 1, "openrlhf": 1}
"""Raised when an engine makes other weights of the same spec."""

LOOP = (
    *("engine", "task", "model", "warmup"),
    *("budget", "rollouts_per_step", "prompts_per_step", "steps", "updates_per_batch"),
    *("learning_rate", "lr_warmup_updates", "lr_warmup_steps", "beta1", "beta2", "weight_decay"),
    *("grad_clip", "temperature"),
)
"""Fields of a training spec that define weights under both engines."""
OPENRLHF = (
    *LOOP,
    *("dataset", "pretrained", "prompt", "epochs", "prompt_tokens", "response_tokens"),
    *("overlong_buffer_tokens", "adam_eps", "extra"),
)


def identity(train: TrainSpec) -> dict[str, Any]:
    """What of a training spec defines the weights."""
    return _embedded(train) if isinstance(train, EmbeddedTrain) else _openrlhf(train)


def _embedded(train: EmbeddedTrain) -> dict[str, Any]:
    return defining(train, LOOP) | {"model": model_identity(train)}


def _openrlhf(train: OpenRLHFTrain) -> dict[str, Any]:
    fields = defining(train, OPENRLHF) | {"model": model_identity(train)}
    if train.dataset is not None:
        fields["dataset"] = dataset_fields(train.dataset)
    if train.pretrained is not None:
        fields["pretrained"] = pretrained_identity(train.pretrained)
    return fields


def model_identity(train: TrainSpec) -> dict[str, Any] | None:
    """The architecture of a base model that is warmed up; None without one."""
    return None if train.model is None else defining(train.model, without=("name",))


def pretrained_identity(model: PretrainedSpec) -> dict[str, Any]:
    """What defines a published model."""
    return defining(model, ("path", "revision"))


def dataset_fields(dataset: DatasetSpec) -> dict[str, Any]:
    """What changes a dataset's table, apart from the bytes of its source."""
    return defining(dataset, without=("expected_rows", "exact_rows"))


def published(train: TrainSpec) -> PretrainedSpec | None:
    """The published model that is trained; None where the base model is warmed up."""
    return train.pretrained if isinstance(train, OpenRLHFTrain) else None


def base_name(point: SweepPoint) -> str:
    """Name of the stage that makes a point's base model."""
    model = published(point.train)
    return f"_warmup/s{point.seed}" if model is None else f"_base/{model.name}"


def dataset(train: TrainSpec) -> DatasetSpec | None:
    """What is trained on; None for a generated task."""
    return train.dataset if isinstance(train, OpenRLHFTrain) else None


def evaluated_dataset(train: TrainSpec) -> DatasetSpec | None:
    """What is drawn on during training; None for held-out problems of the task, or nothing."""
    return train.eval_dataset if isinstance(train, OpenRLHFTrain) and train.eval_every else None


def chat_template(train: TrainSpec) -> bool:
    """Whether the base model must have a chat template."""
    return isinstance(train, OpenRLHFTrain) and train.prompt.chat_template


def environment(train: TrainSpec) -> str:
    """Which installation trains."""
    return "openrlhf" if isinstance(train, OpenRLHFTrain) else "base"


def environment_of_sampler(evaluation: EvalSpec) -> str:
    """Which installation draws."""
    return "openrlhf" if evaluation.sampler == "vllm" else "base"


Prompting = tuple[TaskSpec | None, PromptSpec | None, int | None, int | None]


def prompting(train: TrainSpec) -> Prompting:
    """Task, prompt, and the longest prompt and response in tokens, as far as training has them."""
    if not isinstance(train, OpenRLHFTrain):
        return train.task, None, None, None
    return train.task, train.prompt, train.prompt_tokens, train.response_tokens


def options(profile: Profile, environment: str) -> list[str]:
    """Arguments of a stage's command that say where it computes."""
    said = ["--device", profile.device, "--threads", str(profile.threads_per_worker)]
    if environment != "base":
        said += ["--placement", json.dumps(to_dict(profile.openrlhf))]
    return said
