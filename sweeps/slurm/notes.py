"""What jobs note of their attempts at a stage: logs/attempt-001.json beside attempt-001.log.

{"attempt": 1, "job_id": "12_3", "node": "n2", "restarts": 0, "begun": "2026-01-02T03:04:05+00:00",
 "exit_code": 75, "outcome": "stopped", "step": 120, "ended": "..."}    the last four at its end
"""

from __future__ import annotations

import os
from typing import Any

from fgrpo_bench.files import now, read_json, write_json
from fgrpo_bench.paths import StagePaths

IDLE_STOPS = 3
"""A stage that stopped so often at the same step is not requeued again: it gets nowhere."""
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


def end(stage: StagePaths, note: dict[str, Any], *, exit_code: int, how: str) -> None:
    """Note how an attempt ended, and how far it had come."""
    try:
        step = read_json(stage.progress)["step"]
    except (OSError, ValueError, KeyError, TypeError):
        step = None
    note |= {"exit_code": exit_code, "outcome": how, "step": step, "ended": now()}
    write_json(stage.attempt(note["attempt"]), note)


def attempts(stage: StagePaths) -> list[dict[str, Any]]:
    """What jobs noted of their attempts, in order; keys as `Payload` and `end` write them."""
    notes = []
    for path in sorted(stage.logs.glob("attempt-*.json")):
        try:
            note = read_json(path)
        except (OSError, ValueError):
            continue
        if isinstance(note, dict):
            notes.append(note)
    return notes


def idle(stage: StagePaths, number: int) -> bool:
    """Whether the last stops, this attempt's included, were all at one step."""
    last = [note for note in attempts(stage) if note["attempt"] <= number][-IDLE_STOPS:]
    stops = [note.get("step") for note in last if note.get("outcome") == "stopped"]
    return len(stops) == IDLE_STOPS and len(set(stops)) == 1
