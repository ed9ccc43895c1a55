"""How training and evaluations are laid out over GPUs. Never identity: no result depends on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, Fraction, NonNegative, Positive, PositiveFloat


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Placement:
    """How training over GPUs and vLLM use the machines of a profile. Changes speed and memory,
    never what is meant to be computed."""

    python: str | None
    """Interpreter of the environment that has them, as its path on the nodes; null is the one that
    the Makefile's target for it made in this checkout."""
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
    """Whole training states that are kept, at least 2."""
    start_seconds: NonNegative
    """How long Ray may take to see all nodes before the job fails with what is missing."""

    def __post_init__(self) -> None:
        if self.states_kept < 2:
            raise ValueError(
                f"states_kept={self.states_kept}: the oldest state is deleted before the next is "
                "written, so a job killed while it saves would leave none to continue from; keep "
                "2 or more"
            )
        if self.vllm_max_num_batched_tokens < self.vllm_max_num_seqs:
            raise ValueError(
                f"vllm_max_num_batched_tokens={self.vllm_max_num_batched_tokens} is less than "
                f"vllm_max_num_seqs={self.vllm_max_num_seqs}: every sequence takes a token or more "
                "of a forward pass; raise the one or lower the other"
            )
