"""What jobs note of their attempts at a stage: logs/attempt-001.json beside attempt-001.log.

{"attempt": 1, "job_id": "12_3", "batch": "smoke-train-5d41c01f0c66a2b9", "node": "n2",
 "restarts": 0, "begun": "2026-01-02T03:04:05+00:00", "from_step": 80,
 "exit_code": 75, "outcome": "stopped", "step": 120, "ended": "..."}    these four at its end

and `why` where it failed through no fault of the stage (sweeps.slurm.causes).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from typing import Any

from fgrpo_bench.stages.files import now, read_json, write_json
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.states import attempts as attempts
from sweeps.slurm.causes import FULL

IDLE_ATTEMPTS = 3
"""A job whose stage got no further in so many attempts is not run again: it gets nowhere, whether
it stops by itself, is killed, or takes its node down."""
UNREADY = "unready"
"""Outcome of an attempt that found its input incomplete and did not start."""


def claim(stage: StagePaths) -> tuple[int, int]:
    """The next attempt's number and its open log; two processes never get the same."""
    stage.logs.mkdir(exist_ok=True)
    number = 1
    while True:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            return number, os.open(stage.log(number), flags, 0o644)
        except FileExistsError:
            number += 1


def end(
    stage: StagePaths, note: dict[str, Any], *, exit_code: int, how: str, why: str | None = None
) -> None:
    """Note how an attempt ended, how far it had come, and why where it was not the stage's doing.

    On a full disk the note is written over the one of the beginning, whose block it fits into.
    """
    note |= {"exit_code": exit_code, "outcome": how, "step": step(stage), "ended": now()}
    note |= {} if why is None else {"why": why}
    path = stage.attempt(note["attempt"])
    try:
        write_json(path, note)
    except OSError as error:
        if error.errno not in FULL:
            raise
        with path.open("r+", encoding="utf-8") as file:
            file.write(json.dumps(note))
            file.truncate()


def step(stage: StagePaths) -> int | None:
    """How far the stage says it is; None where it has not said anything."""
    try:
        return int(read_json(stage.progress)["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_note(stage: StagePaths, job_id: str | None, batch: str | None) -> dict[str, Any] | None:
    """What a job noted of its last attempt; None where it noted none."""
    return next(reversed(_of_job(stage, job_id, batch)), None)


def idle(stage: StagePaths, job_id: str | None, batch: str | None) -> bool:
    """Whether the last IDLE_ATTEMPTS of a job brought the stage no further. SLURM requeues a job
    as often as its node fails, so this is what ends a stage that makes its nodes fail."""
    return stands_still(stage, _of_job(stage, job_id, batch))


def of_batches(stage: StagePaths, batches: Collection[str]) -> list[dict[str, Any]]:
    """What the jobs of some batches noted, requeues of one job each for itself."""
    return [note for note in attempts(stage) if note.get("batch") in batches]


def stands_still(stage: StagePaths, notes: Sequence[dict[str, Any]]) -> bool:
    """Whether the last IDLE_ATTEMPTS of some attempts brought the stage no further; one that found
    its input incomplete did not try."""
    begun = [note.get("from_step") for note in notes if note.get("outcome") != UNREADY]
    reached = [-1 if at is None else at for at in [*begun, step(stage)]]
    return len(begun) >= IDLE_ATTEMPTS and reached[-1] <= max(reached[:-IDLE_ATTEMPTS])


def _of_job(stage: StagePaths, job_id: str | None, batch: str | None) -> list[dict[str, Any]]:
    """Notes of a job, by its id and its batch's name, since ids are given again after a reset of
    the controller; notes of earlier versions name no batch."""
    notes = [note for note in attempts(stage) if note.get("job_id") == job_id]
    return [note for note in notes if note.get("batch") in (batch, None)]
