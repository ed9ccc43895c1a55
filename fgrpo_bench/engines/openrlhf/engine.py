"""OpenRLHF as the rest sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.engines.engine import Engine
from fgrpo_bench.engines.openrlhf import extra, fit, room
from fgrpo_bench.engines.openrlhf.arguments import batches, openrlhf_train
from fgrpo_bench.engines.openrlhf.environment import ENVIRONMENT, check_flags
from fgrpo_bench.engines.openrlhf.spec import OpenRLHFTrain
from fgrpo_bench.engines.openrlhf.states import check_origin
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.objectives.advantages import needs_binary
from fgrpo_bench.specs import DatasetSpec, Profile, SlurmProfile, SweepPoint
from fgrpo_bench.specs.fingerprint import (
    LOOP,
    dataset_fields,
    defining,
    model_fields,
    pretrained_fields,
)

DEFINING = (
    *LOOP,
    *("dataset", "pretrained", "prompt", "epochs", "prompt_tokens", "response_tokens"),
    *("overlong_buffer_tokens", "adam_eps", "batch_invariant", "extra"),
)
"""Fields of a training spec that define weights."""


def _identity(train: OpenRLHFTrain) -> dict[str, Any]:
    fields = defining(train, DEFINING) | {"model": model_fields(train.model)}
    if train.dataset is not None:
        fields["dataset"] = dataset_fields(train.dataset)
    if train.pretrained is not None:
        fields["pretrained"] = pretrained_fields(train.pretrained)
    return fields


def _check(point: SweepPoint, profile: Profile) -> list[str]:
    extra.check(point)
    _check_rewards(point)
    _check_invariance(point, profile)
    return fit.check(point, _cluster(profile), profile.placement)


def _check_rewards(point: SweepPoint) -> None:
    advantage = point.algorithm.advantage
    if openrlhf_train(point).overlong_buffer_tokens is not None and needs_binary(advantage):
        raise ValueError(
            f"{point.point_id} has the advantage {advantage}, which is defined for rewards of 0 "
            "and 1, and a length penalty changes them: set "
            "experiment.train.overlong_buffer_tokens=null, or exclude that algorithm"
        )


def _check_invariance(point: SweepPoint, profile: Profile) -> None:
    if not openrlhf_train(point).batch_invariant:
        return
    remedy = "set experiment.train.batch_invariant=false, or"
    if profile.device == "cpu":
        raise ValueError(
            f"{point.point_id} has batch_invariant=true with device=cpu: vLLM has batch-invariant "
            f"kernels for GPUs alone; {remedy} a device with a GPU"
        )
    if not profile.placement.colocate:
        raise ValueError(
            f"{point.point_id} has batch_invariant=true with profile.placement.colocate=false: "
            "vLLM then sets NCCL (NCCL_ALGO, NCCL_PROTO) in its own processes alone, but separate "
            f"engines share an NCCL group with the policy; {remedy} colocate=true"
        )


def _check_evaluation(point: SweepPoint, profile: Profile) -> list[str]:
    return fit.check_evaluation(point, _cluster(profile), profile.placement)


def _cluster(profile: Profile) -> SlurmProfile | None:
    return profile if isinstance(profile, SlurmProfile) else None


def _nodes(profile: Profile) -> int:
    return profile.nodes if isinstance(profile, SlurmProfile) else 1


def _memory(points: Sequence[SweepPoint], profile: Profile) -> list[str]:
    return room.summary(points, profile.placement, nodes=_nodes(profile))


def _check_state(folder: Path, profile: Profile, base_sha256: str | None) -> None:
    ranks = _nodes(profile) * profile.placement.actor_gpus_per_node
    check_origin(StagePaths(folder).training_states, ranks=ranks, base_sha256=base_sha256)


def _check_sizes(point: SweepPoint, rows_of: Callable[[DatasetSpec], int]) -> None:
    """An epoch and an evaluation during training have different problems."""
    train = openrlhf_train(point)
    if train.dataset is None:
        return
    rows, wanted = rows_of(train.dataset), batches(point).prompts_per_epoch
    if rows < wanted:
        raise ValueError(
            f"an epoch of {point.point_id} has {wanted} prompts (prompts a step x steps / "
            f"epochs), but dataset {train.dataset.name} has {rows}: raise "
            "experiment.train.epochs, or lower steps or the prompts a step"
        )
    if train.eval_dataset is None or not train.eval_every:
        return
    rows = rows_of(train.eval_dataset)
    if rows < train.eval_n_problems:
        raise ValueError(
            f"eval_n_problems={train.eval_n_problems}, but eval_dataset "
            f"{train.eval_dataset.name} has {rows}: ask for fewer"
        )


ENGINE = Engine(
    name="openrlhf",
    train=OpenRLHFTrain,
    program=("fgrpo_bench.engines.openrlhf",),
    environment=ENVIRONMENT,
    samplers=("vllm",),
    gives_log_probs=True,
    controls=("entropy_coef", "kl_coef"),
    identity=_identity,
    version=2,
    check=_check,
    check_evaluation=_check_evaluation,
    check_installed=check_flags,
    check_state=_check_state,
    check_sizes=_check_sizes,
    state_gb=fit.state_gb,
    save=fit.save,
    memory=_memory,
)
