"""What must hold of OpenRLHF and of its arguments before a run begins.

The subclasses here rest on names of OpenRLHF that no interface promises. A version that was tested
has them; another is refused before it can train something else than it says.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from typing import Any

from fgrpo_bench.training.openrlhf.options import TESTED_OPENRLHF, TESTED_RAY, DriverOptions
from fgrpo_bench.training.openrlhf.states import Origin

ATTRIBUTES = (
    ("openrlhf.trainer.ppo_trainer", "PPOTrainer"),
    ("openrlhf.trainer.ppo_trainer", "SamplesGenerator"),
    ("openrlhf.trainer.ppo_trainer", "prepare_datasets"),
    ("openrlhf.trainer.ppo_trainer", "RemoteExperienceMaker"),
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer.train_step"),
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer.ppo_train"),
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer.save_logs_and_checkpoints"),
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer.init_checkpoint_states"),
    (
        "openrlhf.trainer.ppo_utils.experience_maker",
        "RemoteExperienceMaker.compute_advantages_and_returns",
    ),
    ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator.generate_samples"),
    ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator.generate_eval_samples"),
    ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator._generate_vllm"),
    ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator._dispatch_prompts_to_vllm"),
    (
        "openrlhf.trainer.ppo_utils.samples_generator",
        "SamplesGenerator._process_response_into_experience",
    ),
    ("openrlhf.trainer.ray.ppo_actor", "PolicyModelActor"),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.training_step"),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.ppo_train"),
    ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer.broadcast_to_vllm"),
    ("openrlhf.trainer.ray.vllm_engine", "RolloutRayActor"),
    ("openrlhf.models.loss", "PolicyLoss.forward"),
    ("openrlhf.models.loss", "aggregate_loss"),
    ("openrlhf.utils.agent", "SingleTurnAgentExecutor.execute"),
    ("openrlhf.utils.config", "hierarchize"),
    ("ray._raylet", "GcsClient"),
    ("multiprocessing.resource_tracker", "_IGNORED_SIGNALS"),
)
"""(module, name in it) of everything that is subclassed, replaced, overridden or private."""
LOSS_ARGUMENTS = (
    "log_probs", "old_log_probs", "advantages", "action_mask", "rollout_log_probs",
    "dp_size", "batch_num_tokens", "global_batch_size",
)  # fmt: skip


def check_versions(*, allow_untested: bool, installed: Callable[[str], str] = version) -> None:
    """RuntimeError that names the tested versions where another one is installed.

    installed: version of a distribution by name.
    """
    for name, tested in (("openrlhf", TESTED_OPENRLHF), ("ray", TESTED_RAY)):
        found = installed(name)
        if found in tested:
            continue
        said = f"{name} {found} is installed, but this engine was tested with {', '.join(tested)}"
        if not allow_untested:
            raise RuntimeError(
                f"{said} only: install that version, or try with --fgrpo.allow_untested true"
            )
        print(f"warning: {said}", flush=True)


def check_attributes() -> None:
    """RuntimeError that names what is missing of what the engine rests on."""
    for module, path in ATTRIBUTES:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is None:
            raise RuntimeError(f"there is no {module}.{path} here: {_REMEDY}")
    from openrlhf.models.loss import PolicyLoss

    arguments = tuple(signature(PolicyLoss.forward).parameters)[1:]
    if arguments != LOSS_ARGUMENTS:
        raise RuntimeError(f"this OpenRLHF's PolicyLoss takes {', '.join(arguments)}: {_REMEDY}")


_REMEDY = f"the engine needs one that works as {', '.join(TESTED_OPENRLHF)} does"


def class_of_actor(actor: Any) -> type:
    """The plain class under a class decorated with ray.remote.

    Ray has no public name for it; RuntimeError where this Ray keeps it elsewhere.
    """
    try:
        found: type = actor.__ray_metadata__.modified_class.__ray_actor_class__
    except AttributeError as error:
        raise RuntimeError(
            f"cannot find the class under the Ray actor {actor!r} ({error}): use ray "
            f"{', '.join(TESTED_RAY)}"
        ) from error
    return found


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
