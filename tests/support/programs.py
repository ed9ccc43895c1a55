"""A folder that holds only named programs, as the PATH of a test that must reach no other."""

from __future__ import annotations

import shutil
from pathlib import Path


def link_programs(folder: Path, *names: str) -> None:
    """Link programs that every machine has into a folder that exists."""
    for name in names:
        program = shutil.which(name)
        assert program is not None, f"{name} is not on the PATH"
        (folder / name).symlink_to(program)
