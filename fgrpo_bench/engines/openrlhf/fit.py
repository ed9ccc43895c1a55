"""Whether a run fits the machines it is to have: pure arithmetic, before anything is queued.

Bytes a parameter under mixed precision with AdamW (ZeRO, arXiv 1910.02054, section 3): 2 for the
weights in bf16, 2 for their gradients, 12 for the optimizer (weights, momentum and variance in
fp32). ZeRO 1 shards the optimizer over the processes of the policy, 2 the gradients too, 3 all.
With LoRA 2 for the weights and 2 for the copy from which they are restored after vLLM got them with
the adapters in them; the adapters themselves are small and not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from fgrpo_bench.engines.engine import Save
from fgrpo_bench.engines.openrlhf.arguments import batches
from fgrpo_bench.engines.openrlhf.extra import lora_rank
from fgrpo_bench.engines.openrlhf.spec import OpenRLHFTrain
from fgrpo_bench.specs import Placement, PretrainedSpec, SlurmProfile, SweepPoint

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2}
"""Of a weight, by EvalSpec.dtype."""
TIGHT = 0.75
"""Share of a GPU's memory above which weights and optimizer leave little for activations."""


def check(point: SweepPoint, profile: SlurmProfile | None, placement: Placement) -> list[str]:
    """Warnings; ValueError with value, rule and remedy where the run cannot work.

    profile: None is one machine whose GPUs are not known.
    """
    nodes = 1 if profile is None else profile.nodes
    gpus = None if profile is None else profile.gpus_per_node
    _check_gpus(placement, nodes=nodes, gpus_per_node=gpus)
    _check_batches(point, placement, nodes=nodes)
    warnings = list(_check_memory(point, placement, nodes=nodes))
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
    each = placement.train_micro_batch if placement.max_tokens_per_gpu is None else 1
    if sizes.mini_batch % (processes * each):
        raise ValueError(
            f"{point.point_id} has mini-batches of {sizes.mini_batch} samples "
            f"({sizes.prompts} prompts x N={point.group_size} / updates_per_batch="
            f"{point.train.updates_per_batch}), no multiple of the {processes * each} that "
            f"{processes} processes take at once, {each} each: "
            + (
                "lower profile.placement.train_micro_batch or actor_gpus_per_node"
                if each > 1
                else "change the prompts a step, or profile.placement.actor_gpus_per_node"
            )
        )
    if sizes.samples // placement.rollout_micro_batch < processes:
        raise ValueError(
            f"{point.point_id} has {sizes.samples} samples a step, fewer than {processes} "
            f"processes x rollout_micro_batch={placement.rollout_micro_batch}: lower "
            "profile.placement.rollout_micro_batch"
        )


def _check_memory(point: SweepPoint, placement: Placement, *, nodes: int) -> Iterator[str]:
    pretrained = published(point)
    if placement.gpu_memory_gb is None or pretrained is None:
        return
    has_reference, has_adapters = point.algorithm.kl_coef > 0, lora_rank(point) > 0
    need = training_gib(
        pretrained.parameters,
        placement,
        processes=nodes * placement.actor_gpus_per_node,
        has_reference=has_reference,
        has_adapters=has_adapters,
    )
    parts = (
        "weights and their copy (2 + 2"
        if has_adapters
        else "weights, gradients and optimizer (2 + 2 + 12"
    )
    have = placement.gpu_memory_gb
    formula = (
        f"{pretrained.name} with {pretrained.parameters / 1e9:.2f} billion parameters needs "
        f"{need:.1f} GiB a GPU for {parts} bytes a parameter"
        f"{', 2 for the reference model' if has_reference else ''}, zero_stage="
        f"{placement.zero_stage} over {nodes * placement.actor_gpus_per_node} processes, "
        f"adam_offload={str(placement.adam_offload).lower()}) of {have:g} GiB"
    )
    remedy = (
        "take zero_stage 3, more GPUs (profile.nodes, actor_gpus_per_node) or "
        "profile.placement.adam_offload=true"
    )
    if need > have:
        raise ValueError(f"{formula}: it cannot fit; {remedy}")
    if need > TIGHT * have:
        yield f"{formula}: it leaves little for activations; {remedy}"
    yield from _check_engine(
        pretrained,
        f"in vLLM (2 bytes a parameter over vllm_tensor_parallel={placement.vllm_tensor_parallel})",
        need=weights_gib(pretrained, "bfloat16", placement.vllm_tensor_parallel),
        share=("vllm_gpu_memory", placement.vllm_gpu_memory),
        have=have,
    )


def _check_engine(
    pretrained: PretrainedSpec, where: str, *, need: float, share: tuple[str, float], have: float
) -> Iterator[str]:
    """Whether an engine holds the weights on each of its GPUs.

    need: GiB on each. share: the setting that bounds it, and its value. have: GiB of a GPU.
    """
    name, value = share
    sized = f"{pretrained.name} needs {need:.1f} GiB a GPU {where}"
    parallel, engines = (name.replace("gpu_memory", of) for of in ("tensor_parallel", "engines"))
    remedy = f"raise profile.placement.{name}, or {parallel} and lower {engines} alike"
    if need > value * have:
        raise ValueError(f"{sized}, more than {name}={value:g} of {have:g} GiB: {remedy}")
    if need > TIGHT * value * have:
        yield (
            f"{sized} of the {value * have:.1f} GiB that {name}={value:g} leaves it: little is "
            f"left for its key-value cache; {remedy}"
        )


def check_evaluation(
    point: SweepPoint, profile: SlurmProfile | None, placement: Placement
) -> list[str]:
    """Warnings of evaluations by vLLM; arguments and errors as those of `check`."""
    gpus = None if profile is None else profile.gpus_per_node
    if gpus is not None:
        _check_share(placement, gpus=gpus)
    pretrained = published(point)
    if placement.gpu_memory_gb is None or pretrained is None:
        return []
    each, parallel = BYTES[point.evaluation.dtype], placement.evaluation_tensor_parallel
    return list(
        _check_engine(
            pretrained,
            f"in an evaluation ({each} bytes a parameter over evaluation_tensor_parallel="
            f"{parallel})",
            need=weights_gib(pretrained, point.evaluation.dtype, parallel),
            share=("evaluation_gpu_memory", placement.evaluation_gpu_memory),
            have=placement.gpu_memory_gb,
        )
    )


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
    *others, last = [str(each) for each in range(1, number + 1) if number % each == 0]
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
    each = _state_bytes(profile.placement)
    return Save(
        gb=gb,
        seconds=gb / rate,
        formula=f"{each} bytes a parameter, profile.save_gb_per_second={rate:g}",
    )


def published(point: SweepPoint) -> PretrainedSpec | None:
    """The published model of a point, whose parameters are known; None of any other."""
    return point.train.pretrained if isinstance(point.train, OpenRLHFTrain) else None


def weights_gib(pretrained: PretrainedSpec, dtype: str, tensor_parallel: int) -> float:
    """GiB of the weights on each GPU of an engine; dtype: EvalSpec.dtype."""
    return BYTES[dtype] * pretrained.parameters / tensor_parallel / GIB


def training_gib(
    parameters: int,
    placement: Placement,
    *,
    processes: int,
    has_reference: bool,
    has_adapters: bool,
) -> float:
    """GiB on each GPU of the policy for weights, gradients, optimizer and reference model, or with
    adapters of LoRA on the one that has most; activations come on top."""
    stage = placement.zero_stage
    weights = 2 / processes if stage >= 3 else 2
    if has_adapters:
        return parameters * (weights + 2 + (weights if has_reference else 0)) / GIB
    gradients = 2 / processes if stage >= 2 else 2
    optimizer = 12 / processes if stage >= 1 else 12
    total = weights + gradients + (0 if placement.adam_offload else optimizer)
    return parameters * (total + (weights if has_reference else 0)) / GIB
