"""A driver on SLURM whose stages are fake, and which can be told where to die.

`python -m tests.slurm.fake_slurm_driver run|cancel <declaration.json> [<death>]`: `run` submits
and follows to the end. A death is event:kind:nth:moment, e.g. submitted:train:1:before: at the nth
line of that event and kind of batch (empty where there is none) in the record of submissions, the
process ends before it is written, after half of it, or after all of it.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import Declaration, from_dict
from sweeps import reporting
from sweeps.freeze import run_paths
from sweeps.slurm import drive, submissions, tick
from tests.support.fake_driver import fake_finish
from tests.support.fake_stage import fake_command

DIED = 9
ORPHAN_SECONDS = 3.0
MOMENTS = ("before", "torn", "after")


def kind_of(line: submissions.Event) -> str:
    """Kind of the batch that a line is about; empty where it is about none."""
    batch = str(getattr(line, "batch", ""))
    return batch.rsplit("-", 2)[1] if batch else ""


def die_at(death: str) -> None:
    """Make this process end at a line of the submissions."""
    event, kind, nth, moment = death.split(":")
    assert moment in MOMENTS
    append, seen = submissions.append, 0

    def fatal(path: Path, line: submissions.Event) -> None:
        nonlocal seen
        is_it = (line.event, kind_of(line)) == (event, kind)
        seen += is_it
        now = is_it and seen == int(nth)
        if now and moment == "torn":
            text = json.dumps(submissions.as_row(line))
            with path.open("a") as file:
                file.write(text[: len(text) // 2])
        if now and moment != "after":
            os._exit(DIED)
        append(path, line)
        if now:
            os._exit(DIED)

    submissions.append = fatal


def fake_sync(paths: RunPaths, say: object) -> None:
    """There is nothing to sync."""


def main(verb: str, declared: str, death: str | None = None) -> int:
    """Exit code of the driver's command."""
    declaration = from_dict(Declaration, read_json(Path(declared)))
    tick.ORPHAN_SECONDS = ORPHAN_SECONDS
    reporting.finish, reporting.sync = fake_finish, fake_sync
    drive.tick = partial(tick.tick, command=fake_command)
    if death is not None:
        die_at(death)
    if verb == "cancel":
        return drive.cancel(run_paths(declaration))
    drive.run(declaration, command=fake_command)
    return drive.follow(run_paths(declaration), seconds=0.3)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
