"""A training run by OpenRLHF."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs import (
    DatasetSpec,
    ModelSpec,
    PretrainedSpec,
    PromptSpec,
    TaskSpec,
    TrainSpec,
    WarmupSpec,
)
from fgrpo_bench.specs.base import STRICT, Positive, PositiveFloat

FlagValue = bool | int | float | str | tuple[int | float | str, ...]


def _joined(nested: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _joined(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", tuple(value) if isinstance(value, list) else value


def _is_word(value: Any) -> bool:
    """Whether a command line can hold a value, and cannot take it for an option."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return re.fullmatch(r"[^\s-]\S*", value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _flags(nested: Any) -> Any:
    """The flags by name, whether they came as {"ds": {"lora": {"rank": 16}}} or {"ds.lora.rank":
    16}; ValueError for a value that would be no word of a command line, or another option."""
    if not isinstance(nested, dict):
        raise ValueError(f"{nested!r} is no mapping of OpenRLHF's flags to their values")
    flags = dict(sorted(_joined(nested)))
    for name, value in flags.items():
        if not re.fullmatch(r"[a-z]\w*(\.\w+)*", name):
            raise ValueError(
                f"{name!r} is no flag: give its name without dashes, e.g. ds.lora.rank"
            )
        words = value if isinstance(value, tuple) and value else (value,)
        if value is not True and not all(map(_is_word, words)):
            raise ValueError(
                f"{name}={value!r} is no value of a flag: give true for a bare flag, a number, a "
                "word or a list of them, and leave out what is to be off"
            )
    return flags


@dataclass(config=STRICT, frozen=True, kw_only=True)
class OpenRLHFTrain(TrainSpec):
    """A training run by OpenRLHF: on a generated task with a base model of our own (task, model,
    warmup), or on a dataset with a published model (dataset, pretrained)."""

    engine: Literal["openrlhf"]
    """Training engine."""
    task: TaskSpec | None
    """Generated task, else null."""
    model: ModelSpec | None
    """Architecture of a base model that is warmed up on the task, else null."""
    warmup: WarmupSpec | None
    """How that base model is made, else null."""
    dataset: DatasetSpec | None
    """Training problems of a dataset, else null."""
    pretrained: PretrainedSpec | None
    """Published model, else null."""
    prompt: PromptSpec
    """How a problem becomes what the model reads."""
    epochs: Positive
    """Epochs of the run, each of prompts a step * steps / epochs different prompts. Where there are
    more, the next epoch begins with those that were left out."""
    prompt_tokens: Positive
    """Longest prompt; longer ones are left out."""
    response_tokens: Positive
    """Longest response."""
    overlong_buffer_tokens: Positive | None
    """DAPO's soft penalty over the last tokens of the longest response; null is none."""
    adam_eps: PositiveFloat
    """AdamW epsilon."""
    eval_dataset: DatasetSpec | None = None
    """Problems of the evaluation during training where a dataset is trained on: its first
    eval_n_problems, with the prompt of training. Null where there is none (eval_every=0), and on a
    generated task, which has held-out problems of its own. Has a default as lr_warmup_steps has."""
    batch_invariant: bool = False
    """Whether vLLM draws rollouts with kernels whose results do not depend on what is drawn beside
    a draw (VLLM_BATCH_INVARIANT), on GPUs. Has a default as lr_warmup_steps has."""
    extra: Annotated[dict[str, FlagValue], BeforeValidator(_flags)] = field(default_factory=dict)
    """Further flags of OpenRLHF by their names without dashes: true is the bare flag, a list is
    several values. None that a field of ours sets (fgrpo_bench.engines.openrlhf.extra). Has a
    default as lr_warmup_steps has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        generated = {"task": self.task, "model": self.model, "warmup": self.warmup}
        published = {"dataset": self.dataset, "pretrained": self.pretrained}
        given = [name for name, value in (generated | published).items() if value is not None]
        if given not in (list(generated), list(published)):
            raise ValueError(
                f"{', '.join(given) or 'nothing'} given: OpenRLHF trains either on a generated "
                "task (task, model, warmup) or on a dataset (dataset, pretrained); give all of one "
                "kind and null for the other"
            )
        if self.dataset is not None and self.eval_every and self.eval_dataset is None:
            raise ValueError(
                f"eval_every={self.eval_every} without eval_dataset: evaluation during training on "
                "a dataset draws on problems of another one; name a file of conf/dataset/ with "
                "+dataset@experiment.train.eval_dataset=<name>, or set eval_every=0"
            )
        if self.task is not None and self.eval_dataset is not None:
            raise ValueError(
                f"eval_dataset={self.eval_dataset.name} with a generated task: evaluation during "
                "training draws on the task's held-out problems; set eval_dataset=null"
            )
        if self.steps % self.epochs:
            raise ValueError(
                f"steps={self.steps} is no multiple of epochs={self.epochs}: every epoch has the "
                "same prompts; change one of them"
            )
