"""The private cluster leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

from tests.slurm.cluster import Cluster


def test_nothing_is_left_of_a_cluster_that_was_taken_down() -> None:
    with Cluster() as other:
        folder, conf = other.settings.folder, other.environment["SLURM_CONF"]
        job = other.sbatch("sleep 60 & setsid sleep 61 & wait")
        other.wait_for_state(job, "RUNNING")
        assert processes_that_name(str(folder))
    assert not folder.exists()
    assert processes_that_name(str(folder)) == []
    assert conf not in os.environ.values()


def processes_that_name(text: str) -> list[str]:
    """The command lines of the processes whose arguments or environment hold the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes()
            if text.encode() in arguments + (folder / "environ").read_bytes():
                found.append(arguments.replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
