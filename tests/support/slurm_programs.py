"""SLURM's programs as scripts that answer as told and note how they were called.

They stand at the process boundary where no SLURM is, or in front of a real one.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

SBATCH = """\
case "$*" in *--test-only*) exit 0;; esac
echo "Submitted batch job $(wc -l < {calls})"
for file; do cp "$file" {folder}/sent.$(wc -l < {calls}); done"""
SINFO = "echo 'gpu*|n1|n1|localhost|8|64000|(null)|infinite|idle'"
CONFIG = "echo 'ClusterName             = near'; echo 'MaxArraySize            = 1001'"
SILENT = ("squeue", "sacct", "scancel", "srun")


class Programs:
    """A folder of programs, first in PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Programs of a cluster with one idle node and an empty queue."""
        self.folder = folder
        folder.mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self._noted.touch()
        for name in SILENT:
            self.install(name, "exit 0")
        self.install("sbatch", SBATCH.format(calls=self._noted, folder=folder))
        self.install("sinfo", SINFO)
        self.install("scontrol", CONFIG)

    @property
    def _noted(self) -> Path:
        return self.folder / "calls"

    def install(self, name: str, script: str) -> None:
        """Replace a program."""
        program = self.folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self._noted}\n{script}\n')
        program.chmod(0o755)

    def calls(self) -> list[str]:
        """Every command line so far."""
        return self._noted.read_text().splitlines()

    def elements(self) -> int:
        """Jobs and array elements that were sent."""
        total = 0
        for path in self.folder.glob("sent.*"):
            array = re.search(r"^#SBATCH --array=0-(\d+)", path.read_text(), re.MULTILINE)
            total += int(array[1]) + 1 if array else 1
        return total


def link_programs(folder: Path, *names: str) -> None:
    """Link programs that every machine has into a folder, for a PATH that reaches no other."""
    for name in names:
        program = shutil.which(name)
        assert program is not None, f"{name} is not on the PATH"
        (folder / name).symlink_to(program)
