"""A training run by OpenRLHF, and how it is laid out over GPUs (which is never identity)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import (
    STRICT,
    Fraction,
    Name,
    NonNegative,
    Positive,
    PositiveFloat,
)
from fgrpo_bench.specs.dataset import DatasetSpec
from fgrpo_bench.specs.training import LoopSpec, ModelSpec, TaskSpec, WarmupSpec


@dataclass(config=STRICT, frozen=True, kw_only=True)
class PretrainedSpec:
    """A published model, or one in a folder of yours."""

    name: Name
    """Name in tables."""
    path: str
    """Hugging Face id, e.g. Qwen/Qwen2.5-7B, or a folder that every node sees."""
    revision: str | None
    """Commit on the Hub; null takes the newest at the first fetch. Null for a folder."""
    parameters: Annotated[int, Field(ge=1, le=10**14)]
    """Number of parameters, for the check that weights and optimizer fit the GPUs."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class PromptSpec:
    """How a problem becomes what the model reads."""

    chat_template: bool
    """Whether the tokenizer's chat template is applied; false gives the problem as it is."""
    system: str | None
    """System message; null is none (some templates then put their own)."""


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
class OpenRLHFTrain(LoopSpec):
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


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Placement:
    """How OpenRLHF uses the machines of a profile. Changes speed and memory, never what is meant to
    be computed."""

    python: str | None
    """Interpreter of the OpenRLHF environment, as its path on the nodes; null is the one that
    `make setup-openrlhf` (with device: cpu, `make setup-openrlhf-cpu`) made in this checkout."""
    gpu_memory_gb: PositiveFloat | None
    """Memory of one GPU, GiB, for the check that everything fits; null checks nothing."""
    colocate: bool
    """Whether policy and vLLM engines share the same GPUs and take turns (sleep mode)."""
    actor_gpus_per_node: Positive
    """GPUs of the policy on each node."""
    vllm_engines: Positive
    """vLLM engines of training, over all nodes."""
    vllm_tensor_parallel: Positive
    """GPUs of one of them."""
    vllm_gpu_memory: Fraction
    """Share of a GPU's memory that one of them may take."""
    evaluation_engines: Positive
    """vLLM engines of one evaluation, each on GPUs of its own, drawing different problems."""
    evaluation_tensor_parallel: Positive
    """GPUs of one of them."""
    evaluation_gpu_memory: Fraction
    """Share of a GPU's memory that one of them may take."""
    vllm_max_num_seqs: Positive
    """Sequences that an engine draws at once, in training and in evaluation; more wait."""
    vllm_max_num_batched_tokens: Positive
    """Tokens of a forward pass of an engine, in training and in evaluation."""
    vllm_enforce_eager: bool
    """Whether vLLM runs without CUDA graphs: slower, starts sooner, needs less memory."""
    zero_stage: Annotated[int, Field(ge=0, le=3)]
    """DeepSpeed ZeRO: 2 shards optimizer and gradients, 3 the weights too."""
    adam_offload: bool
    """Whether the optimizer lives in the memory of the host."""
    gradient_checkpointing: bool
    """Whether activations are computed again in the backward pass."""
    attention: Literal["flash_attention_2", "sdpa", "eager"]
    """Attention of the policy."""
    packing: bool
    """Whether samples are packed without padding; needs flash attention."""
    train_micro_batch: Positive
    """Samples of a forward and backward pass on one GPU."""
    rollout_micro_batch: Positive
    """Samples of a forward pass on one GPU for the policy's log-probabilities."""
    max_tokens_per_gpu: Positive | None
    """Packs passes up to so many tokens instead of counting samples; null counts samples."""
    state_every: Positive
    """Steps between whole training states, from which a run continues after a crash."""
    states_kept: Positive
    """Whole training states that are kept."""
    start_seconds: NonNegative
    """How long Ray may take to see all nodes before the job fails with what is missing."""

    def __post_init__(self) -> None:
        if self.vllm_max_num_batched_tokens < self.vllm_max_num_seqs:
            raise ValueError(
                f"vllm_max_num_batched_tokens={self.vllm_max_num_batched_tokens} is less than "
                f"vllm_max_num_seqs={self.vllm_max_num_seqs}: every sequence takes a token or more "
                "of a forward pass; raise the one or lower the other"
            )
