"""The smoke sweep, trained and judged: the one that `.ci/smoke` ran, else one of a test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sweeps import REPOSITORY

ROOT = os.environ.get("FGRPO_TESTS_SMOKE")
"""The run root of `.ci/smoke`; beside its sweep it has what that printed."""


def smoke_sweep(folder: Path) -> tuple[Path, str]:
    """The run root, not to be changed, and what the sweep printed. folder: the root where none was
    named."""
    if ROOT is not None:
        return Path(ROOT), Path(ROOT, "printed").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "sweeps", "run", "smoke", "profile.max_parallel=2"]
    printed = subprocess.run(
        [*command, f"run_root={folder}"],
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return folder, printed
