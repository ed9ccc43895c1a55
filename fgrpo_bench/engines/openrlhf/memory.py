"""What a run and its engines hold of one GPU at a time, in GiB.

Training takes turns, so that the largest of its phases must fit and not their sum: an update's
pass, the optimizer's step after it, weights on their way to vLLM or to the disk, rollouts. Read in
OpenRLHF 0.11.2 and DeepSpeed 0.19.6, not measured; CUDA's contexts, a sleeping vLLM, the layer that
is computed again and DeepSpeed's buckets come on top, some 5 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.engines.openrlhf.arguments import openrlhf_train
from fgrpo_bench.engines.openrlhf.extra import lora_rank
from fgrpo_bench.engines.openrlhf.spec import OpenRLHFTrain
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import readable_record
from fgrpo_bench.specs import ModelShape, Placement, PretrainedSpec, SweepPoint

GIB = 2**30
"""Bytes."""
BYTES = {"float32": 4, "bfloat16": 2}
"""Of a weight, by EvalSpec.dtype."""
SUB_GROUP = 1_000_000_000
"""Parameters that ZeRO 3 updates at a time: DeepSpeed's sub_group_size, which OpenRLHF leaves."""
LAYER, CHECKPOINT = 34, 2
"""Bytes of activations a token, layer and unit of width without gradient checkpointing (arXiv
2205.05198, equation 1 less the attention matrix, which flash attention does not keep) and with it
(the layer's input in bf16)."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """GiB on the GPU that has most; parts that need the model's shape are 0 without one."""

    states: float
    """Weights, gradients, optimizer and reference model; see `states_gib`."""
    logits: float
    activations: float
    step: float
    """On top of `states` in the optimizer's step: gradients as one piece in bf16 and in fp32."""
    kept: float
    """What the policy and its reference model keep while vLLM is awake."""
    copies: float
    """In sync and save: the largest tensor gathered and cloned, LoRA's copy of all weights."""
    engine: float
    """Weights of the vLLM engine that shares the GPU; 0 where it has its own."""
    share: float
    """All that this engine may take; 0 likewise."""

    @property
    def peaks(self) -> dict[str, float]:
        """GiB of each phase."""
        return {
            "an update": self.states + self.logits + self.activations,
            "an optimizer step": self.states + self.step,
            "sync and save": self.kept + self.copies + self.engine,
            "rollouts": self.kept + self.share,
        }


def published(point: SweepPoint) -> PretrainedSpec | None:
    """The published model of a point, whose parameters are known; None of any other."""
    return point.train.pretrained if isinstance(point.train, OpenRLHFTrain) else None


@dataclass(frozen=True, kw_only=True)
class PublishedConfig(Record):
    """What of a model's config.json tells its shape."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int | None = None
    """None: as many as attention heads."""
    head_dim: int | None = None
    """None: the hidden size divided among the heads."""


def shape_of(pretrained: PretrainedSpec) -> ModelShape | None:
    """As it is declared, else as config.json of the model's folder has it; None where neither says
    it."""
    if pretrained.shape is not None:
        return pretrained.shape
    config = readable_record(Path(pretrained.path) / "config.json", PublishedConfig)
    if config is None:
        return None
    heads = config.num_attention_heads
    try:
        return ModelShape(
            hidden_size=config.hidden_size,
            n_layers=config.num_hidden_layers,
            n_kv_heads=config.num_key_value_heads or heads,
            head_dim=config.head_dim or config.hidden_size // max(heads, 1),
            vocabulary_size=config.vocab_size,
        )
    except ValueError:  # another architecture's idea of these fields
        return None


def longest(point: SweepPoint) -> int:
    """Tokens of the longest prompt with the longest response."""
    train = openrlhf_train(point)
    return train.prompt_tokens + train.response_tokens


def pass_tokens(point: SweepPoint, placement: Placement) -> int:
    """Tokens of the largest pass: a sequence longer than max_tokens_per_gpu has one of its own."""
    if placement.max_tokens_per_gpu is None:
        return placement.train_micro_batch * longest(point)
    return max(placement.max_tokens_per_gpu, longest(point))


def logits_bytes(point: SweepPoint) -> int:
    """Of a logit at the start of the backward pass: OpenRLHF's fp32 copy (4), its gradient in fp32
    (4) and that of the model's own in bf16 (2); before the last, an entropy bonus has a second
    gradient in fp32 (4)."""
    return 12 if point.algorithm.entropy_coef > 0 else 10


def phases(point: SweepPoint, placement: Placement, *, nodes: int) -> Phases | None:
    """What a run on so many nodes holds; None where the GPU's memory or the model's parameters are
    not known. Without the model's shape no logits, activations and gathered tensors are counted.

    DeepSpeed's step joins the gradients of a process into one piece (2 bytes) and takes it to fp32
    (4), under ZeRO 1 and 2 of all parameters of its part at once. What is saved moves to the host
    tensor by tensor (_consolidated_16bit_state_dict, clone_tensors_for_torch_save); vLLM gets a
    clone of each gathered tensor, under LoRA with the adapters in it, beside a copy of all weights
    from which they are restored. With sleep mode optimizer and gradients are on the host then.
    """
    pretrained = published(point)
    if placement.gpu_memory_gb is None or pretrained is None:
        return None
    parameters, shape = pretrained.parameters, shape_of(pretrained)
    processes = nodes * placement.actor_gpus_per_node
    has_reference, has_adapters = point.algorithm.kl_coef > 0, lora_rank(point) > 0
    states = states_gib(
        parameters,
        placement,
        processes=processes,
        has_reference=has_reference,
        has_adapters=has_adapters,
    )
    weights = 2 * parameters / (processes if placement.zero_stage >= 3 else 1) / GIB
    part, tokens = parameters / processes, pass_tokens(point, placement)
    updated = {0: 0.0, 3: min(part, SUB_GROUP)}.get(placement.zero_stage, part)
    if placement.adam_offload or has_adapters:
        updated = 0
    kept = weights * (2 if has_reference else 1) if placement.colocate else states
    engine = 2 * parameters / placement.vllm_tensor_parallel / GIB
    copies = 2 * parameters / GIB if has_adapters else 0
    tensors = 2 if placement.zero_stage >= 3 else 1
    each = CHECKPOINT if placement.gradient_checkpointing else LAYER
    vocabulary, width, depth = (
        (shape.vocabulary_size, shape.hidden_size, shape.n_layers) if shape else (0, 0, 0)
    )
    return Phases(
        states=states,
        logits=logits_bytes(point) * tokens * vocabulary / GIB,
        activations=each * tokens * width * depth / GIB,
        step=6 * updated / GIB,
        kept=kept,
        copies=copies + tensors * 2 * vocabulary * width / GIB,
        engine=engine if placement.colocate else 0,
        share=placement.vllm_gpu_memory * placement.gpu_memory_gb if placement.colocate else 0,
    )


def states_gib(
    parameters: int,
    placement: Placement,
    *,
    processes: int,
    has_reference: bool,
    has_adapters: bool,
) -> float:
    """GiB on each GPU of the policy for weights, gradients, optimizer and reference model.

    Bytes a parameter under mixed precision with AdamW (ZeRO, arXiv 1910.02054, section 3): 2 for
    the weights in bf16, 2 for their gradients, 12 for the optimizer (weights, momentum and variance
    in fp32). ZeRO 1 shards the optimizer over the processes, 2 the gradients too, 3 all. With LoRA
    2 for the weights; the adapters are small and not counted.
    """
    stage = placement.zero_stage
    weights = 2 / processes if stage >= 3 else 2
    if has_adapters:
        return parameters * weights * (2 if has_reference else 1) / GIB
    gradients = 2 / processes if stage >= 2 else 2
    optimizer = 12 / processes if stage >= 1 else 12
    total = weights + gradients + (0 if placement.adam_offload else optimizer)
    return parameters * (total + (weights if has_reference else 0)) / GIB


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """A vLLM engine on its GPUs."""

    settings: str
    """What the names of its fields in a placement begin with."""
    parallel: int
    """GPUs of the engine."""
    each: int
    """Bytes of a weight, a key or a value."""
    gib: float
    """All that it may take of each GPU."""
    weights: float
    """GiB of the weights on each GPU."""

    def cache_tokens(self, shape: ModelShape) -> int:
        """Tokens that its key-value cache holds in what the weights leave: a key and a value of
        every layer and key/value head, these split over the GPUs as far as they go."""
        heads = shape.n_kv_heads / min(self.parallel, shape.n_kv_heads)
        a_token = 2 * shape.n_layers * heads * shape.head_dim * self.each
        return int(max(self.gib - self.weights, 0) * GIB / a_token)


def samplers(
    point: SweepPoint, placement: Placement, pretrained: PretrainedSpec
) -> tuple[Sampler, Sampler]:
    """The engines of training and those of an evaluation; gpu_memory_gb must be known."""
    have, out = placement.gpu_memory_gb, []
    assert have is not None
    for settings, dtype in (("vllm", "bfloat16"), ("evaluation", point.evaluation.dtype)):
        parallel = getattr(placement, f"{settings}_tensor_parallel")
        out.append(
            Sampler(
                settings=settings,
                parallel=parallel,
                each=BYTES[dtype],
                gib=getattr(placement, f"{settings}_gpu_memory") * have,
                weights=BYTES[dtype] * pretrained.parameters / parallel / GIB,
            )
        )
    return out[0], out[1]
