"""Whether a run fits the machines it is to have: pure arithmetic, before anything is queued.

Bytes a parameter under mixed precision with AdamW (ZeRO, arXiv 1910.02054, section 3): 2 for the
weights in bf16, 2 for their gradients, 12 for the optimizer (weights, momentum and variance in
fp32). ZeRO 1 shards the optimizer over the processes of the policy, 2 the gradients too, 3 all.
With LoRA 2 for the weights and 2 for the copy from which they are restored after vLLM got them with
the adapters in them; the adapters themselves are small and not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from fgrpo_bench.specs import Placement, SlurmProfile, SweepPoint
from fgrpo_bench.training.openrlhf.arguments import batches, openrlhf_train
from fgrpo_bench.training.openrlhf.extra import lora_rank

GIB = 2**30
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
    return list(_check_memory(point, placement, nodes=nodes))


def _check_gpus(placement: Placement, *, nodes: int, gpus_per_node: int | None) -> None:
    policy = nodes * placement.actor_gpus_per_node
    engines = placement.vllm_engines * placement.vllm_tensor_parallel
    if placement.colocate and policy != engines:
        raise ValueError(
            f"colocate=true with {policy} GPUs of the policy ({nodes} nodes x actor_gpus_per_node="
            f"{placement.actor_gpus_per_node}) and {engines} of vLLM (vllm_engines="
            f"{placement.vllm_engines} x vllm_tensor_parallel={placement.vllm_tensor_parallel}): "
            "they share the same GPUs, so the products must be equal; change "
            f"profile.openrlhf.vllm_engines to {max(1, policy // placement.vllm_tensor_parallel)}"
        )
    needed = policy if placement.colocate else policy + engines
    if gpus_per_node is not None and needed > nodes * gpus_per_node:
        raise ValueError(
            f"the run needs {needed} GPUs and the profile has {nodes * gpus_per_node} (nodes="
            f"{nodes} x gpus_per_node={gpus_per_node}): raise them, or lower "
            "profile.openrlhf.actor_gpus_per_node or vllm_engines"
        )
    if placement.packing and placement.attention != "flash_attention_2":
        raise ValueError(
            f"packing=true with attention={placement.attention}: packed samples need flash "
            "attention; set profile.openrlhf.packing=false or attention=flash_attention_2"
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
                "lower profile.openrlhf.train_micro_batch or actor_gpus_per_node"
                if each > 1
                else "change the prompts a step, or profile.openrlhf.actor_gpus_per_node"
            )
        )
    if sizes.samples // placement.rollout_micro_batch < processes:
        raise ValueError(
            f"{point.point_id} has {sizes.samples} samples a step, fewer than {processes} "
            f"processes x rollout_micro_batch={placement.rollout_micro_batch}: lower "
            "profile.openrlhf.rollout_micro_batch"
        )


def _check_memory(point: SweepPoint, placement: Placement, *, nodes: int) -> Iterator[str]:
    pretrained = openrlhf_train(point).pretrained
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
        "profile.openrlhf.adam_offload=true"
    )
    if need > have:
        raise ValueError(f"{formula}: it cannot fit; {remedy}")
    if need > TIGHT * have:
        yield f"{formula}: it leaves little for activations; {remedy}"
    engine = 2 * pretrained.parameters / placement.vllm_tensor_parallel / GIB
    share = placement.vllm_gpu_memory * have
    if engine > share:
        raise ValueError(
            f"{pretrained.name} needs {engine:.1f} GiB a GPU in vLLM (2 bytes a parameter over "
            f"vllm_tensor_parallel={placement.vllm_tensor_parallel}), more than vllm_gpu_memory="
            f"{placement.vllm_gpu_memory:g} of {have:g} GiB: raise either"
        )
    if engine > TIGHT * share:
        yield (
            f"{pretrained.name} takes {engine:.1f} of the {share:.1f} GiB that vLLM may have on a "
            "GPU: little is left for its key-value cache; raise vllm_gpu_memory or "
            "vllm_tensor_parallel"
        )


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
