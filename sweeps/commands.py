"""The command of a stage and the environment it runs in: all that a dispatcher needs to know.

Whoever runs the command, here or on a cluster, may run it again at any time: it reads its folder,
does what is missing and says with its exit code how it ended (fgrpo_bench.stages.stage).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from fgrpo_bench.engines.openrlhf.arguments import extra_words
from fgrpo_bench.engines.openrlhf.installation import (
    DRIVER_QUERY,
    ask,
    check_driver,
    cuda_major,
)
from fgrpo_bench.kinds import KINDS, Environment
from fgrpo_bench.specs import (
    OpenRLHFTrain,
    Placement,
    Profile,
    SlurmProfile,
    TrainSpec,
)
from fgrpo_bench.stages.paths import RunPaths

REPOSITORY = Path(__file__).resolve().parents[1]
"""Where stage commands run, whatever folder the driver was started in."""

GPU_PINS = REPOSITORY / "requirements" / "openrlhf.txt"


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
    own = KINDS[kind].command(folder, profile, environment)
    return [interpreter(profile, environment), *own]


def interpreter(profile: Profile, environment: Environment) -> str:
    """The Python that runs a stage, as its path where the stage runs."""
    if environment == "openrlhf":
        return profile.openrlhf.python or str(openrlhf_home(profile.device) / "bin" / "python")
    if isinstance(profile, SlurmProfile) and profile.python is not None:
        return profile.python
    return sys.executable


def openrlhf_home(device: str) -> Path:
    """Where `make setup-openrlhf` and `make setup-openrlhf-cpu` install."""
    return REPOSITORY / (".venv-openrlhf" if device == "cuda" else ".venv-openrlhf-cpu")


def check_interpreters(profile: Profile, environments: Collection[Environment]) -> None:
    """ValueError where an environment that stages of this plan need is not there, or this machine's
    driver is too old for it and runs them.

    An interpreter that the profile names is a path on the nodes, and is left to them; so are the
    nodes' drivers, which their stages ask before anything is loaded.
    """
    placement: Placement = profile.openrlhf
    if "openrlhf" not in environments or placement.python is not None:
        return
    python = Path(interpreter(profile, "openrlhf"))
    if not python.exists():
        target = "setup-openrlhf" + ("" if profile.device == "cuda" else "-cpu")
        raise ValueError(
            f"no OpenRLHF environment for device={profile.device}: there is no {python}; run "
            f"`make {target}`, or name one with profile.openrlhf.python=<path on the nodes>"
        )
    if profile.device == "cuda" and not isinstance(profile, SlurmProfile):
        check_driver(ask(*DRIVER_QUERY), cuda_major(GPU_PINS.read_text(encoding="utf-8")))


def check_flags(profile: Profile, train: TrainSpec) -> str | None:
    """ValueError where the installed OpenRLHF does not take `extra`; a note for a person where
    that OpenRLHF is on the nodes alone, and each job finds out by itself."""
    if not isinstance(train, OpenRLHFTrain) or not train.extra:
        return None
    python = Path(interpreter(profile, "openrlhf"))
    if not python.exists():
        return (
            f"note: {python} is not on this machine, so experiment.train.extra was not compared "
            "with the flags that its OpenRLHF knows: one that it does not know fails the jobs"
        )
    command = [str(python), "-m", "fgrpo_bench.engines.openrlhf.flags", *extra_words(train)]
    asked = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=dict(os.environ) | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        said = asked.stderr.strip().splitlines()
        raise ValueError(
            f"experiment.train.extra is refused: {said[-1] if said else f'{python} failed'}; mend "
            "or leave out that flag"
        )
    return None


def stage_environment(
    profile: Profile, paths: RunPaths, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The driver's environment with this checkout importable, the threads bounded and the judges'
    verdicts shared by all sweeps under the run root."""
    threads = str(profile.threads_per_worker)
    path = [str(REPOSITORY), *filter(None, [inherited.get("PYTHONPATH")])]
    return dict(inherited) | {
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "POLARS_MAX_THREADS": threads,
        "FGRPO_VERDICTS": str(paths.verdicts.absolute()),
    }


def workers(profile: Profile) -> int:
    """Processes at once: max_parallel, or one a processor that this process may use."""
    if profile.max_parallel is not None:
        return profile.max_parallel
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
