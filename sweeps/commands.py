"""The command of a stage and the environment it runs in: all that a dispatcher needs to know.

Whoever runs the command, here or on a cluster, may run it again at any time: it reads its folder,
does what is missing and says with its exit code how it ended (fgrpo_bench.stages.stage).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from fgrpo_bench import engines
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.kinds import KINDS, Environment
from fgrpo_bench.specs import Declaration, Profile, TrainSpec
from sweeps import REPOSITORY


class StageCommand(Protocol):
    """What turns a stage into a command; tests put a fake program in its place."""

    def __call__(
        self, kind: str, folder: Path, profile: Profile, environment: Environment
    ) -> list[str]:
        """Arguments of the process; folder is absolute."""


def stage_command(kind: str, folder: Path, profile: Profile, environment: Environment) -> list[str]:
    """e.g. [python, -m, fgrpo_bench.engines.embedded, <folder>, --device, cpu, --threads, 1]."""
    if kind not in KINDS:
        raise ValueError(
            f"{folder} is a stage of kind {kind!r}, which this version does not have "
            f"({', '.join(KINDS)}): go on with the version that planned it"
        )
    arguments = KINDS[kind].command(folder, profile, environment)
    return [interpreter(profile, environment), *arguments]


def interpreter(profile: Profile, environment: Environment) -> str:
    """The Python that runs a stage, as its path where the stage runs."""
    return engines.environment(environment).interpreter(profile)


def check_interpreters(profile: Profile, environments: Collection[Environment]) -> None:
    """ValueError where an environment that stages of this plan need is not there, or this machine
    cannot run it and would."""
    for name in environments:
        engines.environment(name).check(profile)


def check_flags(profile: Profile, train: TrainSpec) -> str | None:
    """ValueError where what is installed refuses a training spec; a note for a person where that
    cannot be found out from here."""
    return engines.engine_for(train).check_installed(profile, train)


def check_installed(
    declaration: Declaration, environments: Collection[Environment], say: Callable[[str], None]
) -> None:
    """Both of these; say is told the note."""
    check_interpreters(declaration.profile, environments)
    note = check_flags(declaration.profile, declaration.experiment.train)
    if note is not None:
        say(note)


def stage_environment(
    profile: Profile, paths: RunPaths, inherited: Mapping[str, str], *, fetches: bool
) -> dict[str, str]:
    """The driver's environment with this checkout importable, the threads bounded, the run root,
    and the judges' verdicts shared by all sweeps under it.

    fetches: whether the stage needs a network. Others find every model and dataset on the disk, and
    on a node without internet would wait for the Hub: they are told not to ask it.
    """
    threads = str(profile.threads_per_worker)
    path = [str(REPOSITORY), *filter(None, [inherited.get("PYTHONPATH")])]
    base = dict(inherited) if fetches else {"HF_HUB_OFFLINE": "1"} | dict(inherited)
    return base | {
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "POLARS_MAX_THREADS": threads,
        "FGRPO_VERDICTS": str(paths.verdicts.absolute()),
        "FGRPO_RUN_ROOT": str(paths.root.absolute()),
    }


def workers(profile: Profile) -> int:
    """Processes at once: max_parallel, or one a processor that this process may use."""
    if profile.max_parallel is not None:
        return profile.max_parallel
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
