"""OpenRLHF as the rest sees it, and the installation that it and vLLM run in: where it is, and
whether it is there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.engines.engine import Engine, Environment
from fgrpo_bench.engines.openrlhf import arguments, fit, tiny
from fgrpo_bench.engines.openrlhf.arguments import (
    OpenRLHFTrain,
    batches,
    extra_arguments,
    openrlhf_train,
)
from fgrpo_bench.engines.openrlhf.installation import (
    DRIVER_QUERY,
    ask,
    check_driver,
    check_machine_driver,
    cuda_major,
)
from fgrpo_bench.engines.openrlhf.states import check_origin, states_folder
from fgrpo_bench.specs import DatasetSpec, Profile, SlurmProfile, SweepPoint
from fgrpo_bench.specs.fingerprint import (
    LOOP,
    dataset_fields,
    defining,
    model_fields,
    pretrained_fields,
)

REPOSITORY = Path(__file__).resolve().parents[3]
GPU_PINS = REPOSITORY / "requirements" / "openrlhf.txt"


def target(device: str) -> str:
    """The Makefile's target that installs it."""
    return "setup-openrlhf" if device == "cuda" else "setup-openrlhf-cpu"


def home(device: str) -> Path:
    """Where that target installs."""
    return REPOSITORY / target(device).replace("setup-", ".venv-")


def interpreter(machine: Any) -> str:
    """The Python of its stages, as the path where they run."""
    return machine.placement.python or str(home(machine.device) / "bin" / "python")


def check(profile: Profile) -> None:
    """ValueError where it is not there, or this machine's driver is too old for it and runs it.

    An interpreter that the profile names is a path on the nodes, and is left to them; so are the
    nodes' drivers, which their stages ask before anything is loaded.
    """
    if profile.placement.python is not None:
        return
    python = Path(interpreter(profile))
    if not python.exists():
        raise ValueError(
            f"no OpenRLHF environment for device={profile.device}: there is no {python}; run "
            f"`make {target(profile.device)}`, or name one with profile.placement.python=<path on "
            "the nodes>"
        )
    if profile.device == "cuda" and not isinstance(profile, SlurmProfile):
        check_driver(ask(*DRIVER_QUERY), cuda_major(GPU_PINS.read_text(encoding="utf-8")))


def check_flags(profile: Profile, train: OpenRLHFTrain) -> str | None:
    """ValueError where the installed OpenRLHF does not take `extra`; a note for a person where
    that OpenRLHF is on the nodes alone, and each job finds out by itself."""
    if not train.extra:
        return None
    python = Path(interpreter(profile))
    if not python.exists():
        return (
            f"note: {python} is not on this machine, so experiment.train.extra was not compared "
            "with the flags that its OpenRLHF knows: one that it does not know fails the jobs"
        )
    completed = subprocess.run(
        [str(python), "-m", "fgrpo_bench.engines.openrlhf.flags", *extra_arguments(train)],
        cwd=REPOSITORY,
        env=dict(os.environ) | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    if completed.returncode:
        errors = completed.stderr.strip().splitlines()
        raise ValueError(
            f"experiment.train.extra is refused: {errors[-1] if errors else f'{python} failed'}; "
            "mend or leave out that flag"
        )
    return None


ENVIRONMENT = Environment(
    name="openrlhf",
    interpreter=interpreter,
    target=target,
    check=check,
    check_machine=check_machine_driver,
    is_placed=True,
)


DEFINING = (
    *LOOP,
    *("dataset", "pretrained", "prompt", "epochs", "prompt_tokens", "response_tokens"),
    *("adam_eps", "batch_invariant", "extra"),
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
    arguments.check(point)
    _check_invariance(point, profile)
    return fit.check(point, _cluster(profile), profile.placement)


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
    return fit.summary(points, profile.placement, nodes=_nodes(profile))


def _check_state(folder: Path, profile: Profile, base_sha256: str | None) -> None:
    ranks = _nodes(profile) * profile.placement.actor_gpus_per_node
    check_origin(states_folder(folder), ranks=ranks, base_sha256=base_sha256)


def _check_sizes(point: SweepPoint, count_rows: Callable[[DatasetSpec], int]) -> None:
    """An epoch and an evaluation during training have different problems."""
    train = openrlhf_train(point)
    if train.dataset is None:
        return
    rows, n_prompts = count_rows(train.dataset), batches(point).prompts_per_epoch
    if rows < n_prompts:
        raise ValueError(
            f"an epoch of {point.point_id} has {n_prompts} prompts (prompts per step x steps / "
            f"epochs), but dataset {train.dataset.name} has {rows}: raise "
            "experiment.train.epochs, or lower steps or the prompts per step"
        )
    if train.eval_dataset is None or not train.eval_every:
        return
    rows = count_rows(train.eval_dataset)
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
    rehearsed=tiny.rehearsed,
    state_gb=fit.state_gb,
    save=fit.save,
    memory=_memory,
)
