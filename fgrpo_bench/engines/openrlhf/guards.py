"""What must hold of OpenRLHF and of its arguments before a run begins, and the driver's own
options.

The subclasses of this engine rest on names of OpenRLHF that no interface promises. The version that
was tested has them; another is refused before it can train something else than it says. Our options
(`--fgrpo.*`; all others are OpenRLHF's) ride on OpenRLHF's arguments into every Ray actor. Imports
neither Ray nor OpenRLHF.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fgrpo_bench.core import registry
from fgrpo_bench.engines.openrlhf.states import Origin

NAMED = ("objective", "advantage")
"""Options that name an entry of a table."""


@dataclass(frozen=True, kw_only=True)
class DriverOptions:
    """What a run of the driver needs beside OpenRLHF's arguments."""

    focal_gamma: float
    """Exponent of the focal weight; 0 is the base algorithm to the bit."""
    objective: str
    """A key of fgrpo_bench.objectives.losses.OBJECTIVES; clip is OpenRLHF's own PPO loss."""
    advantage: str = "grpo"
    """A key of fgrpo_bench.objectives.advantages.ADVANTAGES; grpo is OpenRLHF's own."""
    advantage_parameters: dict[str, Any] | None = None
    """Its parameters by name; None is those of its function."""
    metrics: Path
    """JSONL, one row a step (metrics.step_row)."""
    stop_flag: Path
    """While this file exists, the run saves after the running step and ends with 75."""
    checkpoints: Path
    """Folder of the Hugging Face checkpoints, step-00025 and so on."""
    save_every: int
    """Steps between Hugging Face checkpoints; the last step always has one."""
    steps: int
    """Steps of the run; OpenRLHF itself ends only with its prompts."""
    prompts_per_epoch: int | None = None
    """Different prompts of an epoch; None is all of the prompt file."""
    base_sha256: str
    """Of the base model's weights; a state of another model is refused."""
    vllm_max_num_seqs: int
    """Sequences that an engine draws at once."""
    vllm_max_num_batched_tokens: int
    """Tokens of a forward pass of an engine."""
    batch_invariant: bool = False
    """Whether vLLM draws with batch-invariant kernels; a bare flag."""
    ray_address: str | None = None
    """Of the Ray cluster that the run takes part in, host:port; None starts one for this machine,
    whatever others run here."""


def parse_options(argv: Sequence[str]) -> tuple[DriverOptions, list[str]]:
    """The driver's options, and what is left for OpenRLHF; SystemExit(2) on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m fgrpo_bench.engines.openrlhf.driver",
        description="Train with OpenRLHF; every option that is not listed here is OpenRLHF's.",
        epilog="exit code 0: done; 75: stopped at a checkpoint, run it again; other: failed",
        allow_abbrev=False,
    )
    readers: dict[str, Callable[[str], Any]] = {
        "float": _gamma,
        "int": _positive,
        "int | None": _positive,
        "Path": _absolute,
    }
    # The stage writes this one itself, as JSON.
    readers["dict[str, Any] | None"] = json.loads
    for field in fields(DriverOptions):
        # A bare flag, as OpenRLHF has them.
        if field.type == "bool":
            parser.add_argument(f"--fgrpo.{field.name}", dest=field.name, action="store_true")
            continue
        names = sorted(registry.table(f"{field.name}s")) if field.name in NAMED else None
        is_required = field.default is MISSING
        parser.add_argument(
            f"--fgrpo.{field.name}",
            dest=field.name,
            type=readers.get(str(field.type), str),
            choices=names,
            required=is_required,
            default=None if is_required else field.default,
        )
    ours, openrlhf_arguments = parser.parse_known_args(argv)
    unknown = [option for option in openrlhf_arguments if option.startswith("--fgrpo.")]
    if unknown:
        parser.error(f"unknown option {unknown[0]}")
    return DriverOptions(**vars(ours)), openrlhf_arguments


def _gamma(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more and finite")
    return value


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return int(text)


def _absolute(text: str) -> Path:
    return Path(text).absolute()  # Ray's processes have working directories of their own


TESTED = {"openrlhf": "0.11.2", "ray": "2.55.0"}
"""Versions that the classes here were written against and tested with."""


def check_versions(installed: Callable[[str], str] = version) -> None:
    """RuntimeError that names the tested version where another one is installed.

    installed: version of a distribution by name.
    """
    for name, tested in TESTED.items():
        if installed(name) != tested:
            raise RuntimeError(
                f"{name} {installed(name)} is installed, but this engine was written for {tested} "
                "and rests on names that no interface promises: install that version, with `make "
                "setup-openrlhf`"
            )


def actor_class(actor: Any) -> type:
    """The plain class under a class decorated with ray.remote; Ray has no public name for it."""
    plain: type = actor.__ray_metadata__.modified_class.__ray_actor_class__
    return plain


def check_arguments(args: Any, options: DriverOptions) -> None:
    """ValueError where OpenRLHF's arguments would make a run that is not what it says.

    args: OpenRLHF's, in its nested form.
    """
    rules = (
        (
            args.algo.advantage.estimator == "group_norm",
            f"--algo.advantage.estimator {args.algo.advantage.estimator}: pass group_norm; the "
            "focal weight is defined on group-normalised advantages",
        ),
        (
            not args.train.async_enable,
            "--train.async_enable: leave it out; rollouts here belong to one step",
        ),
        (
            args.algo.kl.init_coef == 0 or args.algo.kl.use_loss,
            f"--algo.kl.init_coef {args.algo.kl.init_coef} puts a KL penalty into the reward, "
            "which the focal weight would scale: add --algo.kl.use_loss",
        ),
        (
            options.objective == "clip" or args.algo.advantage.is_correction_level == "off",
            f"--algo.advantage.is_correction_level {args.algo.advantage.is_correction_level}: "
            "CISPO has no such correction; pass off",
        ),
        (
            args.actor.policy_loss_type == "ppo",
            f"--actor.policy_loss_type {args.actor.policy_loss_type}: pass ppo and choose the "
            "objective with --fgrpo.objective",
        ),
        (
            not args.ckpt.save_hf,
            "--ckpt.save_hf: leave it out; --fgrpo.save_every writes the checkpoints",
        ),
        (
            args.ckpt.max_num >= 2,
            f"--ckpt.max_num {args.ckpt.max_num}: pass 2 or more; OpenRLHF deletes the oldest "
            "state before it writes the next, and a kill in between would lose both",
        ),
    )
    for holds, message in rules:
        if not holds:
            raise ValueError(message)


def rank_count(args: Any) -> int:
    """Processes of the policy, from OpenRLHF's arguments in their nested form."""
    return int(args.actor.num_nodes * args.actor.num_gpus_per_node)


def origin(args: Any) -> Origin:
    """What a state of the run is a state of; OpenRLHF's arguments in their nested form, with the
    driver's options as `fgrpo`."""
    return Origin(ranks=rank_count(args), base_sha256=args.fgrpo.base_sha256)


def gpu_count(args: Any) -> int:
    """GPUs that a run holds, from OpenRLHF's arguments in their nested form."""
    actor = rank_count(args)
    if args.train.colocate_all:
        return actor
    engines = args.vllm.num_engines * args.vllm.tensor_parallel_size
    separate = args.algo.kl.init_coef > 0 and not args.train.colocate_actor_ref
    reference = args.ref.num_nodes * args.ref.num_gpus_per_node if separate else 0
    return int(actor + engines + reference)
