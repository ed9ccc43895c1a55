"""The ledger: one line for each start and end of an attempt at a stage, in order, never changed.

A line of ledger.jsonl:
{"event": "end", "stage": "grpo-n8-g0.5-s11", "attempt": 1, "pid": 4711, "driver": "host:4700:...",
 "time": "2026-01-02T03:04:05+00:00", "exit_code": 0, "outcome": "done", "wall_seconds": 31.2,
 "crc": "1f9a02c7"}

A damaged line is passed over (fgrpo_bench.stages.journal). The ledger tells what was tried.
Whether a stage is done is told by its marker alone.
"""

from __future__ import annotations

import signal
from dataclasses import asdict
from pathlib import Path

from fgrpo_bench.stages import journal
from fgrpo_bench.stages.stage import EXIT_CONTINUE
from fgrpo_bench.stages.states import Event, Outcome, driver_id, latest
from fgrpo_bench.stages.states import read_events as read

__all__ = ["Event", "Outcome", "append", "driver_id", "explain", "latest", "outcome", "read"]


def append(path: Path, event: Event) -> None:
    """Append one event and fsync it."""
    journal.append(path, {key: value for key, value in asdict(event).items() if value is not None})


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
