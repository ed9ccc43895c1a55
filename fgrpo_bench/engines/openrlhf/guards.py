"""What must hold of OpenRLHF and of its arguments before a run begins.

The subclasses of this engine rest on names of OpenRLHF that no interface promises. The version that
was tested has them; another is refused before it can train something else than it says.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fgrpo_bench.engines.openrlhf.options import DriverOptions
from fgrpo_bench.engines.openrlhf.states import Origin

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


def class_of_actor(actor: Any) -> type:
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
