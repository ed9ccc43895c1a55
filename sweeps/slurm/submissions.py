"""What was said to SLURM: submissions.jsonl, one line each, synced to disk, never changed.

{"event": "allow", "stages": null, "code": "<folder>"}                  run, or retry of some stages
{"event": "intent", "batch": "smoke-train-1f0c", "kind": "train", "stages": [...], "time": 1.7e9}
{"event": "submitted", "batch": "smoke-train-1f0c", "job_id": "12", "adopted": false}
{"event": "void", "batch": "smoke-train-1f0c", "why": "..."}             nothing of it will run
{"event": "uncount", "stages": [...]}                                   never begun: no attempt
{"event": "hold"}                                                       cancel: submit nothing more
{"event": "synced", "done": 7}                                          MLflow and report follow 7

An intent is written before sbatch is called, under a job name that is unique for ever, so that a
driver that dies at any moment leaves a batch that the next one can find or knows was never sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fgrpo_bench.files import append_line, read_lines

REPORT = "report"
"""Kind of the batch that writes the report after all others; it has no stages."""


@dataclass(kw_only=True)
class Batch:
    """One sbatch call: a job, or an array with an element for each stage."""

    name: str
    kind: str
    stages: tuple[str, ...]
    begun: float
    """Unix time of the intent."""
    job_id: str | None = None
    """None while no driver has noted it."""
    void: bool = False

    @property
    def size(self) -> int:
        """Elements."""
        return max(len(self.stages), 1)

    def element(self, index: int) -> str:
        """Job id of an element; the job must be known."""
        assert self.job_id is not None
        return self.job_id if self.size == 1 else f"{self.job_id}_{index}"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An element of a batch."""

    batch: Batch
    index: int

    @property
    def job_id(self) -> str | None:
        """As squeue shows it; None where the batch's is not known."""
        return None if self.batch.job_id is None else self.batch.element(self.index)


@dataclass(kw_only=True)
class History:
    """All lines, read."""

    batches: dict[str, Batch] = field(default_factory=dict)
    latest: dict[str, Place] = field(default_factory=dict)
    """Where each stage was submitted last."""
    attempts: Counter[str] = field(default_factory=Counter)
    """Submissions of each stage since it was last allowed."""
    code: str | None = None
    held: bool = False
    synced: int = 0


def append(path: Path, event: str, **facts: Any) -> None:
    """Append one event and sync it to disk."""
    append_line(path, {"event": event} | facts)


def read(path: Path) -> History:
    """Everything said so far; empty where nothing was."""
    history = History()
    for row in read_lines(path):
        _add(history, row)
    history.latest = _latest(history.batches.values())
    return history


def _add(history: History, row: dict[str, Any]) -> None:
    match row["event"]:
        case "allow":
            history.held = False
            history.code = row["code"]
            for stage in list(history.attempts) if row["stages"] is None else row["stages"]:
                del history.attempts[stage]
        case "intent":
            history.batches[row["batch"]] = Batch(
                name=row["batch"],
                kind=row["kind"],
                stages=tuple(row["stages"]),
                begun=row["time"],
            )
            history.attempts.update(row["stages"])
        case "submitted":
            history.batches[row["batch"]].job_id = row["job_id"]
        case "void":
            batch = history.batches[row["batch"]]
            batch.void = True
            history.attempts.subtract(batch.stages)
        case "uncount":
            history.attempts.subtract(row["stages"])
        case "hold":
            history.held = True
        case "synced":
            history.synced = row["done"]


def _latest(batches: Iterable[Batch]) -> dict[str, Place]:
    return {
        stage: Place(batch=batch, index=index)
        for batch in batches
        if not batch.void
        for index, stage in enumerate(batch.stages)
    }
