"""The ledger: one line for each start and end of an attempt at a stage, in order, never changed.

A line of ledger.jsonl:
{"event": "end", "stage": "grpo-n8-g0.5-s11", "attempt": 1, "pid": 4711, "driver": "host:4700:...",
 "time": "2026-01-02T03:04:05+00:00", "exit_code": 0, "outcome": "done", "wall_seconds": 31.2}

It tells what was tried. Whether a stage is done is told by its marker alone.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fgrpo_bench.files import append_line, read_lines
from fgrpo_bench.stage import EXIT_CONTINUE

Outcome = Literal["done", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A start, or an end with its last three fields."""

    event: Literal["start", "end"]
    stage: str
    attempt: int
    """Counted from 1 over all drivers."""
    pid: int
    driver: str
    """Who started it; see `driver_id`."""
    time: str
    exit_code: int | None = None
    """As the process ended; -9 is killed by signal 9."""
    outcome: Outcome | None = None
    wall_seconds: float | None = None


def append(path: Path, event: Event) -> None:
    """Append one event and fsync it."""
    append_line(path, {key: value for key, value in asdict(event).items() if value is not None})


def read(path: Path) -> list[Event]:
    """All events so far; lines that are none (cut short, or another version's) are passed over."""
    events = []
    for row in read_lines(path):
        try:
            events.append(Event(**row))
        except TypeError:
            continue
    return events


def latest(events: Iterable[Event]) -> dict[str, Event]:
    """The last event of each stage."""
    return {event.stage: event for event in events}


def driver_id(holder: dict[str, Any]) -> str:
    """One driver among all that ever ran here, from what its lock says of it."""
    return f"{holder.get('host')}:{holder.get('pid')}:{holder.get('since')}"


def outcome(exit_code: int, *, marked: bool) -> Outcome:
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
