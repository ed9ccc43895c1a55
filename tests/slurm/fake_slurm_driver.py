"""A driver on SLURM whose stages are fake, as a process of its own.

`python -m tests.slurm.fake_slurm_driver <declaration.json>` submits and follows to the end.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import Declaration, from_dict
from sweeps import reporting
from sweeps.freeze import run_paths
from sweeps.slurm import drive, tick
from tests.support.fake_driver import fake_finish
from tests.support.fake_stage import fake_command


def fake_sync(paths: RunPaths, say: object) -> None:
    """There is nothing to sync."""


def main(declared: str) -> int:
    """Exit code of `follow`."""
    declaration = from_dict(Declaration, read_json(Path(declared)))
    tick.ORPHAN_SECONDS = 3.0
    reporting.finish, reporting.sync = fake_finish, fake_sync
    drive.tick = partial(tick.tick, command=fake_command)
    drive.run(declaration, command=fake_command)
    return drive.follow(run_paths(declaration), seconds=0.3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
