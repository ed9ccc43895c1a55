"""Whether a run fits the machines it is to have, before anything is queued: how many GPUs there
are, whether they can share the batches, and how long a save takes. Their memory: see `room`."""

from __future__ import annotations

from fgrpo_bench.engines.engine import Save
from fgrpo_bench.engines.openrlhf import room
from fgrpo_bench.engines.openrlhf.arguments import batches
from fgrpo_bench.engines.openrlhf.memory import published
from fgrpo_bench.specs import Placement, SlurmProfile, SweepPoint


def check(point: SweepPoint, profile: SlurmProfile | None, placement: Placement) -> list[str]:
    """Warnings; ValueError with value, rule and remedy where the run cannot work.

    profile: None is one machine whose GPUs are not known.
    """
    nodes = 1 if profile is None else profile.nodes
    gpus = None if profile is None else profile.gpus_per_node
    _check_gpus(placement, nodes=nodes, gpus_per_node=gpus)
    _check_batches(point, placement, nodes=nodes)
    warnings = list(room.check(point, placement, nodes=nodes))
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


def check_evaluation(
    point: SweepPoint, profile: SlurmProfile | None, placement: Placement
) -> list[str]:
    """Warnings of evaluations by vLLM; arguments and errors as those of `check`."""
    gpus = None if profile is None else profile.gpus_per_node
    if gpus is not None:
        _check_share(placement, gpus=gpus)
    return list(room.check_evaluation(point, placement))


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
