"""What was tried of each stage: a note beside the log of each attempt, logs/attempt-001.json.

{"attempt": 1, "begun": "2026-01-02T03:04:05+00:00", "from_step": 80,
 "driver": "host:4700:..."                                        of a worker of this machine, or
 "job_id": "12_3", "batch": "smoke-train-5d41c01f0c66a2b9", "node": "n2", "restarts": 0   of a job
 "exit_code": 75, "outcome": "stopped", "step": 120, "wall_seconds": 31.2, "ended": "..."}   at its
end, and `why` where a job failed through no fault of its stage.

Whoever begins an attempt claims its number by making its log, which one process alone can; drivers
and jobs on several nodes could not append to one file safely. Notes tell what was tried: whether a
stage is done is told by its marker alone.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import FULL, noop, now, read_record, readable_record, write_json
from fgrpo_bench.stages.stage import EXIT_CONTINUE
from fgrpo_bench.stages.watch import Progress

Ending = Literal["done", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Note(Record):
    """logs/attempt-001.json."""

    attempt: int
    """Counted from 1."""
    driver: str | None = None
    """Of a worker of a machine's pool; None of a job."""
    job_id: str | None = None
    """As squeue shows it, likewise below; None of a worker."""
    batch: str | None = None
    node: str | None = None
    restarts: int | None = None
    """How often SLURM had begun this very job before."""
    begun: str | None = None
    from_step: int | None = None
    """Where it began; None where the stage had not said."""
    exit_code: int | None = None
    """None, like all below, until the attempt ends."""
    outcome: str | None = None
    """`Ending`, or what a job said of itself."""
    step: int | None = None
    ended: str | None = None
    wall_seconds: float | None = None
    why: str | None = None
    """Where a job failed through no fault of its stage."""


def begin(stage: StagePaths, **who: Any) -> tuple[Note, BinaryIO]:
    """Claim the next attempt; its note, which is on the disk, and its log, which is open.

    who: the note's fields that say who tries.
    """
    stage.logs.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            # O_EXCL: of several processes one alone makes the file, and has the number
            handle = os.open(stage.log(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            break
        except FileExistsError:
            number += 1
    note = Note(attempt=number, begun=now(), from_step=step(stage), **who)
    log = os.fdopen(handle, "wb")
    try:
        write_json(stage.attempt(number), note.as_json())
    except OSError:
        log.close()
        raise
    return note, log


def end(
    stage: StagePaths,
    note: Note,
    *,
    exit_code: int,
    outcome: str,
    seconds: float,
    why: str | None = None,
) -> None:
    """Note how an attempt ended, how far it had come, and why where it was not the stage's doing.

    On a full disk the note is written over the one of the beginning, whose block it fits into.
    """
    ended = replace(
        note,
        exit_code=exit_code,
        outcome=outcome,
        step=step(stage),
        ended=now(),
        wall_seconds=round(seconds, 3),
        why=why,
    )
    path = stage.attempt(note.attempt)
    try:
        write_json(path, ended.as_json())
    except OSError as error:
        if error.errno not in FULL:
            raise
        # in place: a whole new file needs a block that a full disk does not have
        with path.open("r+", encoding="utf-8") as file:
            file.write(json.dumps(ended.as_json()))
            file.truncate()


def step(stage: StagePaths) -> int | None:
    """How far the stage says it is; None where it has not said anything."""
    progress = readable_record(stage.progress, Progress)
    return None if progress is None else progress.step


def ending(exit_code: int, *, marked: bool) -> Ending:
    """What an exit code means: 0 with a marker is done; 75, or SIGTERM before the stage could
    answer it, is stopped; anything else is failed."""
    if exit_code == 0 and marked:
        return "done"
    return "stopped" if exit_code in (EXIT_CONTINUE, -signal.SIGTERM) else "failed"


def explain(exit_code: int) -> str:
    """An exit code in words."""
    if exit_code == 0:
        return "ended with 0 but left no completion marker"
    if exit_code == -signal.SIGKILL:
        return "was killed by SIGKILL: by hand, or by the system for want of memory"
    if exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"


def attempts(stage: StagePaths, warn: Callable[[str], None] = noop) -> list[Note]:
    """The notes in a stage's folder, in order. warn: told of each that is damaged; it is passed
    over."""
    notes = []
    for path in _files(stage, ".json"):
        try:
            notes.append(read_record(path, Note))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            warn(f"warning: {path} is damaged and was passed over")
    return notes


def count_attempts(stage: StagePaths) -> int:
    """How many notes there are; they are not opened."""
    return len(_files(stage, ".json"))


def logs(stage: StagePaths) -> list[Path]:
    """The logs of all attempts, in order."""
    return _files(stage, ".log")


def _files(stage: StagePaths, suffix: str) -> list[Path]:
    try:
        names = os.listdir(stage.logs)  # noqa: PTH208  (`status` looks at thousands of folders)
    except (FileNotFoundError, NotADirectoryError):
        return []
    matching = [name for name in names if name.startswith("attempt-") and name.endswith(suffix)]
    # by length first: attempt-1000 comes after attempt-999
    return [stage.logs / name for name in sorted(matching, key=lambda name: (len(name), name))]


def tail(log: Path, n_bytes: int = 8192) -> list[str]:
    """The lines at the end of a log, as far as they are in its last bytes."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - n_bytes))
        return file.read().decode(errors="replace").splitlines()
