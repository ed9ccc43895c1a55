"""The training process: `python -m fgrpo_bench.engines.openrlhf.driver --fgrpo.* <OpenRLHF's>`.

Puts our classes in the place of OpenRLHF's, then runs `openrlhf.cli.train_ppo_ray` as it is. Starts
a Ray of its own on this machine, or joins that at --fgrpo.ray_address; never any other. SIGTERM,
SIGINT, SIGUSR1 and SIGUSR2 let it save after the running step and end with 75; a failure ends with
1 and its reason as the last line of stderr.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import fgrpo_bench
from fgrpo_bench.engines.openrlhf import guards, rehearsal, states
from fgrpo_bench.engines.openrlhf.cluster import ray_folder
from fgrpo_bench.engines.openrlhf.guards import DriverOptions, parse_options
from fgrpo_bench.engines.processes import STOP_SIGNALS, deaf, shorten_vllm_sockets, stay_deaf
from fgrpo_bench.stages.stage import EXIT_CONTINUE, EXIT_DONE, EXIT_FAILED, Stopped

CLI = "openrlhf.cli.train_ppo_ray"
PASSED_ON = ("FGRPO_", "DS_", "VLLM_", "OMP_", "HF_", "NCCL_", "TORCH_", "PYTHONPATH")
"""Beginnings of the environment variables that Ray's processes get on every node."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train to the end or to a stop; returns the exit code."""
    options, openrlhf_arguments = parse_options(sys.argv[1:] if argv is None else argv)
    options.stop_flag.unlink(missing_ok=True)
    _handle_signals(options)
    prepare_environment()
    try:
        train(options, openrlhf_arguments)
    except SystemExit as end:  # OpenRLHF's parser
        return end.code if isinstance(end.code, int) else EXIT_FAILED
    except Stopped as stop:
        print(f"{stop}; run the same command again to continue", flush=True)
        return EXIT_CONTINUE
    except BaseException as error:
        traceback.print_exc()
        print(f"training failed: {reason(_root_cause(error))}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    return EXIT_DONE


def train(options: DriverOptions, openrlhf_arguments: list[str]) -> None:
    """Run OpenRLHF's command line with our classes; raises what it raises, and Stopped."""
    guards.check_versions()
    rehearsal.set_up()
    if rehearsal.is_on():
        print(
            f"{rehearsal.SWITCH}=cpu: stand-ins for CUDA are on; this is a rehearsal without a GPU",
            flush=True,
        )
    os.environ["VLLM_BATCH_INVARIANT"] = str(int(options.batch_invariant))  # whatever was set
    with connected(options.ray_address):
        _handle_signals(options)  # again: ray.init has put a handler of its own in place
        install(options)
        from fgrpo_bench.engines.openrlhf import reward

        assert reward.__file__ is not None
        # OpenRLHF's program reads its words from here
        sys.argv = [CLI, *openrlhf_arguments, "--train.agent_func_path", reward.__file__]
        try:
            runpy.run_module(CLI, run_name="__main__", alter_sys=True)
        except Exception as error:
            cause = _root_cause(error)
            if type(cause).__name__ == "StoppedRun":  # Ray's copy of that class
                raise Stopped(str(cause)) from None
            raise


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """This process in the Ray cluster at that address, or, for None, in one of its own, which ends
    with it. All that Ray forwards is printed before this returns."""
    import ray

    with ExitStack() as stack:
        folder = stack.enter_context(ray_folder()) if address is None else None
        with deaf():
            ray.init(**ray_arguments(address, folder))
        try:
            yield
        finally:
            ray.shutdown()


def install(options: DriverOptions) -> None:
    """Replace OpenRLHF's classes in this process, which is the one that starts their actors."""
    from openrlhf.trainer import ppo_trainer
    from openrlhf.trainer.ray import ppo_actor, vllm_engine
    from openrlhf.utils import config

    from fgrpo_bench.engines.openrlhf import policy, rollout, trainer

    hierarchize = config.hierarchize

    def with_options(args: Any) -> Any:
        nested = hierarchize(args)
        guards.check_arguments(nested, options)
        nested.fgrpo = options
        states.remove_partial(
            Path(nested.ckpt.path), guards.origin(nested), say=partial(print, flush=True)
        )
        # as below, and here because the class has the number of engines
        vllm_engine.RolloutRayActor = rollout.rollout_actor(
            options, engines=nested.vllm.num_engines, nodes=nested.actor.num_nodes
        )
        return nested

    # OpenRLHF takes no class from outside: its modules' names are bound anew before it reads them
    config.hierarchize = with_options
    ppo_trainer.PPOTrainer = trainer.FocalTrainerActor
    ppo_actor.PolicyModelActor = policy.PolicyActorRemote


def prepare_environment() -> None:
    """Set the variables that must stand before Ray starts, for this process and all others."""
    root = str(Path(fgrpo_bench.__file__).parents[1])
    paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if rehearsal.is_on():
        paths.insert(0, str(rehearsal.STARTUP))
        rehearsal.set_environment()
    # Ray's workers start a Python of their own, which has to find this package
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    os.environ.pop("RAY_ADDRESS", None)  # of another cluster; OpenRLHF's engines would join it
    shorten_vllm_sockets()
    for name, value in {
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }.items():
        # setdefault: a user may have named another value
        os.environ.setdefault(name, value)


def ray_arguments(address: str | None, folder: Path | None) -> dict[str, Any]:
    """Keyword arguments of ray.init, for the cluster at that address or a new one in that folder.

    One of the two is None.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith((*PASSED_ON, "TOKENIZERS_"))
    }
    variables["RAY_ENABLE_ZERO_COPY_TORCH_TENSORS"] = "1"  # as OpenRLHF itself starts Ray
    hook = f"{stay_deaf.__module__}.{stay_deaf.__name__}"
    environment = {"env_vars": variables, "worker_process_setup_hook": hook}
    arguments: dict[str, Any] = {"runtime_env": environment}
    if address is not None:
        return arguments | {"address": address}
    arguments |= {"address": "local", "_temp_dir": str(folder), "include_dashboard": False}
    if rehearsal.is_on():
        arguments |= {"num_gpus": rehearsal.FAKE_GPUS, "num_cpus": 2 * rehearsal.FAKE_GPUS}
        arguments["object_store_memory"] = 200 * 2**20
    return arguments


def _handle_signals(options: DriverOptions) -> None:
    """Let signals raise the stop flag, which the trainer looks for after each step.

    A handler that raised would run only when Ray returns to Python, and take its processes down.
    """

    def stop(signum: int, _frame: object) -> None:
        print(f"signal {signal.Signals(signum).name}: stopping after the running step", flush=True)
        options.stop_flag.parent.mkdir(parents=True, exist_ok=True)
        options.stop_flag.touch()

    for signum in STOP_SIGNALS:
        signal.signal(signum, stop)


def _root_cause(error: BaseException) -> BaseException:
    """The exception that a Ray task raised, under Ray's wrapping; any other as it is."""
    while isinstance(getattr(error, "cause", None), BaseException):
        error = error.cause  # type: ignore[attr-defined]
    return error


def reason(error: BaseException) -> str:
    """One line: the type and what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[-1] if "Traceback" in str(error) else " ".join(lines)
    return f"{type(error).__name__}: {message[:2000]}"


if __name__ == "__main__":
    sys.exit(main())
