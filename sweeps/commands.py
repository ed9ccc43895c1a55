"""The command of a stage and the environment it runs in: all that a dispatcher needs to know.

Whoever runs the command, here or on a cluster, may run it again at any time: it reads its folder,
does what is missing and says with its exit code how it ended (fgrpo_bench.stage).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fgrpo_bench.specs import Profile
from sweeps.plan import Kind

REPOSITORY = Path(__file__).resolve().parents[1]
"""Where stage commands run, whatever folder the driver was started in."""

PROGRAMS: dict[Kind, tuple[str, ...]] = {
    "warmup": ("fgrpo_bench.training",),
    "train": ("fgrpo_bench.training",),
    "evaluate": ("evaluators", "run"),
}


class StageCommand(Protocol):
    """What turns a stage into a command; tests put a fake program in its place."""

    def __call__(self, kind: Kind, folder: Path, profile: Profile) -> list[str]:
        """Arguments of the process; folder is absolute."""


def stage_command(kind: Kind, folder: Path, profile: Profile) -> list[str]:
    """e.g. [python, -m, fgrpo_bench.training, <folder>, --device, cpu, --threads, 1]."""
    threads = str(profile.threads_per_worker)
    options = ["--device", profile.device, "--threads", threads]
    return [sys.executable, "-m", *PROGRAMS[kind], str(folder), *options]


def stage_environment(profile: Profile, inherited: Mapping[str, str]) -> dict[str, str]:
    """The driver's environment with this checkout importable and the threads bounded."""
    threads = str(profile.threads_per_worker)
    path = [str(REPOSITORY), *filter(None, [inherited.get("PYTHONPATH")])]
    return dict(inherited) | {
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "POLARS_MAX_THREADS": threads,
    }


def workers(profile: Profile) -> int:
    """Processes at once: max_parallel, or one a processor that this process may use."""
    if profile.max_parallel is not None:
        return profile.max_parallel
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
