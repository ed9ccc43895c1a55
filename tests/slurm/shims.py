"""Programs in front of SLURM's own, which answer otherwise while they are told to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SHIM = """\
#!/bin/sh
real={real}
if [ ! -e {lie} ]; then exec $real "$@"; fi
{script}
"""


class Liar:
    """One of SLURM's programs: itself, or a shell script while `lying`."""

    def __init__(
        self, name: str, script: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """script: may run "$real" "$@", the program itself. folder: for programs, first in PATH."""
        real = shutil.which(name)
        assert real is not None
        folder.mkdir(exist_ok=True)
        self.lie = folder / f"{name}.lies"
        program = folder / name
        program.write_text(SHIM.format(real=real, lie=self.lie, script=script))
        program.chmod(0o755)
        if str(folder) not in os.environ["PATH"].split(os.pathsep):
            monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    @contextmanager
    def lying(self) -> Iterator[None]:
        """Answer with the script meanwhile."""
        self.lie.touch()
        try:
            yield
        finally:
            self.lie.unlink()
