"""Whether a run and its evaluations fit the machines they are to have, before anything is queued.

In: a point and its placement. Out: refusals, warnings and the sum that `plan` prints: how many GPUs
there are, whether they can share the batches, how long a save takes, and what a run and its engines
hold of one GPU at a time, in GiB.

Training takes turns, so that the largest of its phases must fit and not their sum: an update's
pass, the optimizer's step after it, weights on their way to vLLM or to the disk, rollouts. Read in
OpenRLHF 0.11.2 and DeepSpeed 0.19.6, not measured; CUDA's contexts, a sleeping vLLM, the layer that
is computed again and DeepSpeed's buckets come on top, some 5 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fgrpo_bench.data.published import model_shape
from fgrpo_bench.engines.engine import Save
from fgrpo_bench.engines.openrlhf.arguments import OpenRLHFTrain, batches, lora_rank, openrlhf_train
from fgrpo_bench.specs import ModelShape, Placement, PretrainedSpec, SlurmProfile, SweepPoint

GIB = 2**30
"""Bytes."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
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


def longest(point: SweepPoint) -> int:
    """Tokens of the longest prompt with the longest response."""
    train = openrlhf_train(point)
    return train.prompt_tokens + train.response_tokens


def pass_tokens(point: SweepPoint, placement: Placement) -> int:
    """Tokens of the largest pass: a sequence longer than max_tokens_per_gpu has one of its own."""
    if placement.max_tokens_per_gpu is None:
        return placement.train_micro_batch * longest(point)
    return max(placement.max_tokens_per_gpu, longest(point))


def _logits_bytes(point: SweepPoint) -> int:
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
    parameters, shape = pretrained.parameters, model_shape(pretrained)
    processes = nodes * placement.actor_gpus_per_node
    has_reference, has_adapters = point.algorithm.kl_coef > 0, lora_rank(point) > 0
    states = states_gib(
        parameters,
        placement,
        processes=processes,
        has_reference=has_reference,
        has_adapters=has_adapters,
    )
    # Two bytes a parameter, bfloat16; ZeRO 3 shares them among the processes.
    weights = 2 * parameters / (processes if placement.zero_stage >= 3 else 1) / GIB
    part, tokens = parameters / processes, pass_tokens(point, placement)
    updated = {0: 0.0, 3: min(part, SUB_GROUP)}.get(placement.zero_stage, part)
    if placement.adam_offload or has_adapters:
        updated = 0
    # What stays on the GPU while vLLM draws: all states where vLLM has its own GPUs.
    kept = states
    if placement.colocate:
        kept = 2 * weights if has_reference else weights
    engine = 2 * parameters / placement.vllm_tensor_parallel / GIB
    copies = 2 * parameters / GIB if has_adapters else 0
    # Under ZeRO 3 a gathered tensor and its clone; the largest is the embedding.
    tensors = 2 if placement.zero_stage >= 3 else 1
    per_layer = CHECKPOINT if placement.gradient_checkpointing else LAYER
    vocabulary, width, depth = (
        (shape.vocabulary_size, shape.hidden_size, shape.n_layers) if shape else (0, 0, 0)
    )
    return Phases(
        states=states,
        logits=_logits_bytes(point) * tokens * vocabulary / GIB,
        activations=per_layer * tokens * width * depth / GIB,
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
    bytes_per_value: int
    """Bytes of a weight, a key or a value."""
    gib: float
    """All that it may take of each GPU."""
    weights: float
    """GiB of the weights on each GPU."""

    def cache_tokens(self, shape: ModelShape) -> int:
        """Tokens that its key-value cache holds in what the weights leave: a key and a value of
        every layer and key/value head, these split over the GPUs as far as they go."""
        heads = shape.n_kv_heads / min(self.parallel, shape.n_kv_heads)
        a_token = 2 * shape.n_layers * heads * shape.head_dim * self.bytes_per_value
        return int(max(self.gib - self.weights, 0) * GIB / a_token)


def samplers(
    point: SweepPoint, placement: Placement, pretrained: PretrainedSpec
) -> tuple[Sampler, Sampler]:
    """The engines of training and those of an evaluation; gpu_memory_gb must be known."""
    have, out = placement.gpu_memory_gb, []
    assert have is not None
    for settings, dtype in (("vllm", "bfloat16"), ("evaluation", point.evaluation.dtype)):
        assert dtype is not None  # a sweep draws from no server
        parallel = getattr(placement, f"{settings}_tensor_parallel")
        out.append(
            Sampler(
                settings=settings,
                parallel=parallel,
                bytes_per_value=BYTES[dtype],
                gib=getattr(placement, f"{settings}_gpu_memory") * have,
                weights=BYTES[dtype] * pretrained.parameters / parallel / GIB,
            )
        )
    return out[0], out[1]


TIGHT = 0.9
"""Share of a GPU's memory above which little is left for what is not counted."""
CROWDED = 0.75
"""Share of an engine's memory above which its weights leave little for its key-value cache."""
HELD = 0.25
"""Of the longest sequence, what one in flight is taken to hold on average: it is half drawn, and a
response ends at half of its limit."""
SHIPPED = {"slurm-8gpu": 8, "slurm-multinode": 16}
"""Profiles of conf/ with the GPUs over which they lay a run out at zero_stage 3."""


def _check_training_memory(point: SweepPoint, placement: Placement, *, nodes: int) -> Iterator[str]:
    """Warnings of a training run, none where its parameters or the GPU's memory are not known;
    ValueError with formula and remedy where it cannot fit."""
    held, pretrained = phases(point, placement, nodes=nodes), published(point)
    if held is None or pretrained is None:
        return
    have, processes = placement.gpu_memory_gb or 0, nodes * placement.actor_gpus_per_node
    phase, need = max(held.peaks.items(), key=lambda peak: peak[1])
    need_text = (
        f"{pretrained.name} with {pretrained.parameters / 1e9:.2f} billion parameters needs "
        f"{need:.1f} GiB a GPU of {have:g} GiB in {phase}: "
        f"{_parts(point, placement, held, phase)}, at zero_stage={placement.zero_stage} over "
        f"{processes} processes, adam_offload={str(placement.adam_offload).lower()}"
    )
    remedy = _remedy(point, placement, phase)
    if need > have:
        raise ValueError(f"{need_text}: it cannot fit; {remedy}")
    if need > TIGHT * have:
        yield f"{need_text}: it leaves little for buffers, which are not counted; {remedy}"
    training, _ = samplers(point, placement, pretrained)
    yield from _check_sampler(point, placement, pretrained, training, "in vLLM")


def _check_evaluation_memory(point: SweepPoint, placement: Placement) -> Iterator[str]:
    """The same of an evaluation by vLLM."""
    pretrained = published(point)
    if placement.gpu_memory_gb is None or pretrained is None:
        return
    _, sampler = samplers(point, placement, pretrained)
    yield from _check_sampler(point, placement, pretrained, sampler, "in an evaluation")


def summary(points: Sequence[SweepPoint], placement: Placement, *, nodes: int) -> list[str]:
    """The memory of a GPU in two lines, for the point that needs most; none where it is not
    known."""
    held = [(point, phases(point, placement, nodes=nodes)) for point in points]
    with_phases = [(point, hold) for point, hold in held if hold is not None]
    if not with_phases:
        return []
    point, most = max(with_phases, key=lambda pair: max(pair[1].peaks.values()))
    peaks, pretrained = most.peaks, published(point)
    assert pretrained is not None
    shape = model_shape(pretrained)
    lines = [
        f"GiB of a GPU's {placement.gpu_memory_gb:g} by {point.algorithm.name}: "
        f"{peaks['an update']:.1f} in an update (states {most.states:.1f} + logits "
        f"{most.logits:.1f} + activations {most.activations:.1f}), "
        f"{peaks['an optimizer step']:.1f} in an optimizer step, "
        f"{peaks['sync and save']:.1f} in sync and save, {peaks['rollouts']:.1f} in rollouts "
        f"(vLLM {most.share:.1f} + policy {most.kept:.1f})"
    ]
    if shape is None:
        return [
            f"{lines[0]}; without logits, activations and cache: set "
            f"experiment.train.pretrained.shape, since {pretrained.path} is no folder with a "
            "config.json that says it"
        ]
    per_sampler = (
        f"{sampler.cache_tokens(shape) // placement.vllm_max_num_seqs:,}"
        for sampler in samplers(point, placement, pretrained)
    )
    return [
        *lines,
        f"vLLM's key-value cache holds {' tokens per sequence in training, '.join(per_sampler)} in "
        f"an evaluation, at vllm_max_num_seqs={placement.vllm_max_num_seqs} sequences of up to "
        f"{longest(point):,}",
    ]


def _parts(point: SweepPoint, placement: Placement, held: Phases, phase: str) -> str:
    """What a phase holds, each part with its formula."""
    adapted = lora_rank(point) > 0
    owned = "weights (2" if adapted else "weights, gradients and optimizer (2 + 2 + 12"
    reference = ", 2 for the reference model" if point.algorithm.kl_coef > 0 else ""
    states = f"{held.states:.1f} for {owned} bytes a parameter{reference})"
    kept = f"{held.kept:.1f} for what the policy keeps"
    return {
        "an update": f"{states}, {held.logits:.1f} for logits ({_logits_bytes(point)} bytes x "
        f"{pass_tokens(point, placement):,} tokens x vocabulary), {held.activations:.1f} for "
        "activations",
        "an optimizer step": f"{states}, {held.step:.1f} for gradients in one piece and in fp32 "
        "(2 + 4 bytes a parameter)",
        "sync and save": f"{kept}, {held.engine:.1f} for vLLM's weights, {held.copies:.1f} for "
        "copies",
        "rollouts": f"{kept}, {held.share:.1f} for vLLM (vllm_gpu_memory="
        f"{placement.vllm_gpu_memory:g})",
    }[phase]


def _remedy(point: SweepPoint, placement: Placement, phase: str) -> str:
    if phase == "rollouts":
        return "lower profile.placement.vllm_gpu_memory"
    ways = []
    if phase == "an update" and pass_tokens(point, placement) > longest(point):
        packed = placement.max_tokens_per_gpu is not None
        ways.append(f"a lower {'max_tokens_per_gpu' if packed else 'train_micro_batch'}")
    if placement.zero_stage < 3:
        ways.append("zero_stage 3")
    ways.append("more GPUs (profile.nodes, actor_gpus_per_node)")
    if phase == "sync and save":
        ways.append("a larger vllm_tensor_parallel")
    elif not placement.adam_offload:
        ways.append("adam_offload=true")
    return f"take {', or '.join(ways)} in profile.placement{_shipped(point, placement)}"


def _shipped(point: SweepPoint, placement: Placement) -> str:
    """The first shipped profile over whose GPUs a run would fit, were they such as these."""
    for name, gpus in SHIPPED.items():
        laid = replace(placement, zero_stage=3, actor_gpus_per_node=gpus)
        held, have = phases(point, laid, nodes=1), placement.gpu_memory_gb or 0
        if held is not None and max(held.peaks.values()) <= TIGHT * have:
            return f"; it fits the {gpus} GPUs of profile={name}"
    return ""


def _check_sampler(
    point: SweepPoint,
    placement: Placement,
    pretrained: PretrainedSpec,
    sampler: Sampler,
    where: str,
) -> Iterator[str]:
    """Whether an engine holds the weights on each of its GPUs, and enough of its sequences."""
    share, parallel = f"{sampler.settings}_gpu_memory", f"{sampler.settings}_tensor_parallel"
    setting = f"{share}={getattr(placement, share):g}"
    sized = (
        f"{pretrained.name} needs {sampler.weights:.1f} GiB a GPU {where} "
        f"({sampler.bytes_per_value} bytes a parameter over {parallel}={sampler.parallel})"
    )
    more = (
        f"raise profile.placement.{share}, or {parallel} and lower {sampler.settings}_engines alike"
    )
    if sampler.weights > sampler.gib:
        raise ValueError(f"{sized}, more than {setting} of {placement.gpu_memory_gb:g} GiB: {more}")
    if sampler.weights > CROWDED * sampler.gib:
        yield (
            f"{sized} of the {sampler.gib:.1f} GiB that {setting} leaves it: little is left for "
            f"its key-value cache; {more}"
        )
        return
    shape, at_once, length = model_shape(pretrained), placement.vllm_max_num_seqs, longest(point)
    if shape is None:
        return
    # Not every sequence is at its longest at once.
    tokens, taken = sampler.cache_tokens(shape), HELD * length
    if tokens < taken * at_once:
        yield (
            f"{pretrained.name} {where} has a key-value cache of {tokens:,} tokens ({setting}), "
            f"{tokens // at_once:,} for each of vllm_max_num_seqs={at_once} sequences, less than a "
            f"quarter of the longest ({length:,}): where responses run long vLLM interrupts some "
            "and computes them again; lower profile.placement.vllm_max_num_seqs to "
            f"{max(1, int(tokens / taken))}, or {more}"
        )


def check(point: SweepPoint, profile: SlurmProfile | None, placement: Placement) -> list[str]:
    """Warnings; ValueError with value, rule and remedy where the run cannot work.

    profile: None is one machine whose GPUs are not known.
    """
    nodes = 1 if profile is None else profile.nodes
    gpus = None if profile is None else profile.gpus_per_node
    _check_gpus(placement, nodes=nodes, gpus_per_node=gpus)
    _check_batches(point, placement, nodes=nodes)
    warnings = list(_check_training_memory(point, placement, nodes=nodes))
    saving = None if profile is None else save(point, profile)
    if profile is not None and saving is not None and saving.seconds > profile.signal_seconds:
        warnings.append(
            f"{saving}, more than signal_seconds={profile.signal_seconds}: a job at its time limit "
            "is ended in the middle of its save; raise profile.signal_seconds above that and the "
            "generation or the updates under way, which are finished first"
        )
    return warnings


def _check_gpus(placement: Placement, *, nodes: int, gpus_per_node: int | None) -> None:
    policy = nodes * placement.actor_gpus_per_node
    engines = placement.vllm_engines * placement.vllm_tensor_parallel
    if placement.colocate and policy != engines:
        raise ValueError(
            f"colocate=true with {policy} GPUs of the policy ({nodes} nodes x actor_gpus_per_node="
            f"{placement.actor_gpus_per_node}) and {engines} of vLLM (vllm_engines="
            f"{placement.vllm_engines} x vllm_tensor_parallel={placement.vllm_tensor_parallel}): "
            "they share the same GPUs, so the products must be equal; change profile.placement."
            + (
                f"vllm_tensor_parallel to {_divisors(policy)}"
                if policy % placement.vllm_tensor_parallel
                else f"vllm_engines to {policy // placement.vllm_tensor_parallel}"
            )
        )
    needed = policy if placement.colocate else policy + engines
    if gpus_per_node is not None and needed > nodes * gpus_per_node:
        raise ValueError(
            f"the run needs {needed} GPUs and the profile has {nodes * gpus_per_node} (nodes="
            f"{nodes} x gpus_per_node={gpus_per_node}): raise them, or lower "
            "profile.placement.actor_gpus_per_node or vllm_engines"
        )
    if placement.packing and placement.attention != "flash_attention_2":
        raise ValueError(
            f"packing=true with attention={placement.attention}: packed samples need flash "
            "attention; set profile.placement.packing=false or attention=flash_attention_2"
        )


def _check_batches(point: SweepPoint, placement: Placement, *, nodes: int) -> None:
    sizes, processes = batches(point), nodes * placement.actor_gpus_per_node
    micro_batch = placement.train_micro_batch if placement.max_tokens_per_gpu is None else 1
    if sizes.mini_batch % (processes * micro_batch):
        raise ValueError(
            f"{point.point_id} has mini-batches of {sizes.mini_batch} samples "
            f"({sizes.prompts} prompts x N={point.group_size} / updates_per_batch="
            f"{point.train.updates_per_batch}), no multiple of the {processes * micro_batch} that "
            f"{processes} processes take at once, {micro_batch} each: "
            + (
                "lower profile.placement.train_micro_batch or actor_gpus_per_node"
                if micro_batch > 1
                else "change the prompts per step, or profile.placement.actor_gpus_per_node"
            )
        )
    if sizes.samples // placement.rollout_micro_batch < processes:
        raise ValueError(
            f"{point.point_id} has {sizes.samples} samples per step, fewer than {processes} "
            f"processes x rollout_micro_batch={placement.rollout_micro_batch}: lower "
            "profile.placement.rollout_micro_batch"
        )


def check_evaluation(
    point: SweepPoint, profile: SlurmProfile | None, placement: Placement
) -> list[str]:
    """Warnings of evaluations by vLLM; arguments and errors as those of `check`."""
    gpus = None if profile is None else profile.gpus_per_node
    if gpus is not None:
        _check_share(placement, gpus=gpus)
    return list(_check_evaluation_memory(point, placement))


def _check_share(placement: Placement, *, gpus: int) -> None:
    """An evaluation takes a whole part of a node's GPUs: two or more then fill the node."""
    engines, parallel = placement.evaluation_engines, placement.evaluation_tensor_parallel
    if gpus % (engines * parallel) == 0:
        return
    if gpus % parallel:
        remedy = f"evaluation_tensor_parallel to {_divisors(gpus)}"
    else:
        remedy = f"evaluation_engines to {_divisors(gpus // parallel)}"
    raise ValueError(
        f"an evaluation takes {engines * parallel} GPUs (evaluation_engines={engines} x "
        f"evaluation_tensor_parallel={parallel}), which does not divide the {gpus} of a node "
        f"(profile.gpus_per_node): set profile.placement.{remedy}"
    )


def _divisors(number: int) -> str:
    """e.g. `1, 2 or 4`."""
    *others, last = [str(item) for item in range(1, number + 1) if number % item == 0]
    return f"{', '.join(others)} or {last}" if others else last


def state_gb(point: SweepPoint, placement: Placement) -> float | None:
    """Size of a training state, 10^9 bytes; None where the parameters are not known."""
    pretrained = published(point)
    return None if pretrained is None else _state_bytes(placement) * pretrained.parameters / 1e9


def _state_bytes(placement: Placement) -> int:
    """Of a parameter: DeepSpeed saves the optimizer, 12, and before ZeRO 3 the weights beside."""
    return 12 if placement.zero_stage >= 3 else 14


def save(point: SweepPoint, profile: SlurmProfile) -> Save | None:
    """How long a save takes; None where the parameters or the rate are not known."""
    gb, rate = state_gb(point, profile.placement), profile.save_gb_per_second
    if gb is None or rate is None:
        return None
    bytes_per_parameter = _state_bytes(profile.placement)
    return Save(
        gb=gb,
        seconds=gb / rate,
        formula=f"{bytes_per_parameter} bytes a parameter, profile.save_gb_per_second={rate:g}",
    )
