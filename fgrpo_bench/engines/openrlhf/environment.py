"""The installation that OpenRLHF and vLLM run in: where it is, and whether it is there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from fgrpo_bench.engines.engine import Environment
from fgrpo_bench.engines.openrlhf.arguments import extra_words
from fgrpo_bench.engines.openrlhf.installation import (
    DRIVER_QUERY,
    ask,
    check_driver,
    check_own_driver,
    cuda_major,
)
from fgrpo_bench.engines.openrlhf.spec import OpenRLHFTrain
from fgrpo_bench.specs import Profile, SlurmProfile

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
    asked = subprocess.run(
        [str(python), "-m", "fgrpo_bench.engines.openrlhf.flags", *extra_words(train)],
        cwd=REPOSITORY,
        env=dict(os.environ) | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        errors = asked.stderr.strip().splitlines()
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
    check_machine=check_own_driver,
    is_placed=True,
)
