"""What was said to SLURM: submissions.jsonl, one line each, synced to disk, never changed.

{"event": "allow", "stages": null, "code": "<folder>"}                  run, or retry of some stages
{"event": "intent", "batch": "smoke-train-1f0c", "kind": "train", "stages": [...], "time": 1.7e9,
 "code": "<folder>", "cluster": "<ClusterName of its slurm.conf>"}
{"event": "submitted", "batch": "smoke-train-1f0c", "job_id": "12", "adopted": false}
{"event": "void", "batch": "smoke-train-1f0c", "why": "..."}             nothing of it will run
{"event": "uncount", "stages": [...]}                                   never begun: no attempt
{"event": "hold"}                                                       cancel: submit nothing more
{"event": "cancelled"}                                                  and no cluster has any of it
{"event": "synced", "done": 7}                                          MLflow and report follow 7
{"event": "passed_over", "lines": [3]}                                  damaged, and that was said

An intent is written before sbatch is called, under a job name that is unique for ever, so that a
driver that dies at any moment leaves a batch that the next one can find or knows was never sent.
Damaged lines (fgrpo_bench.stages.journal) are passed over; what they said is made up from the
batches' folders and the queue (sweeps.slurm.recover).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fgrpo_bench.stages import journal
from fgrpo_bench.stages.shapes import Shape, misfit

REPORT = "report"
"""Kind of the batch that writes the report after all others; it has no stages."""
SHAPES: dict[str, dict[str, Shape]] = {
    "allow": {"stages": ([str], type(None)), "code": str | None},
    "intent": {
        "batch": str,
        "kind": str,
        "stages": [str],
        "time": int | float,
        "code": str | None,
        "cluster": str | None,
    },
    "submitted": {"batch": str, "job_id": str},
    "void": {"batch": str},
    "uncount": {"stages": [str]},
    "hold": {},
    "cancelled": {},
    "synced": {"done": int},
    "passed_over": {"lines": [int]},
}
"""What a line must say, by its event; what else it may say is read where it is there."""


@dataclass(kw_only=True)
class Batch:
    """One sbatch call: a job, or an array with an element for each stage."""

    name: str
    kind: str
    stages: tuple[str, ...] = ()
    begun: float = 0.0
    """Unix time of the intent."""
    cluster: str | None = None
    """Where it was sent; None where that is not known, or it was cancelled there."""
    job_id: str | None = None
    """None while no driver has noted it."""
    void: bool = False
    recovered: bool = False
    """Whether its intent was lost and made up later; it counts as no attempt."""

    @property
    def known(self) -> bool:
        """Whether anything says what it runs."""
        return bool(self.stages) or self.kind == REPORT

    @property
    def size(self) -> int:
        """Elements."""
        return max(len(self.stages), 1)

    def element(self, index: int) -> str:
        """Job id of an element; the job must be known."""
        assert self.job_id is not None
        return self.job_id if self.size == 1 else f"{self.job_id}_{index}"

    def intent(self, code: str | None) -> dict[str, Any]:
        """What the journal, and beside the batch its own folder, say of it before it is sent."""
        facts: dict[str, Any] = {"batch": self.name, "kind": self.kind, "stages": list(self.stages)}
        return facts | {"time": self.begun, "code": code, "cluster": self.cluster}


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
    """By name, in the order in which they were sent."""
    attempts: Counter[str] = field(default_factory=Counter)
    """Submissions of each stage since it was last allowed."""
    tried: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Names of its batches since then."""
    code: str | None = None
    held: bool = False
    synced: int = 0
    damaged: list[int] = field(default_factory=list)
    """Lines that were passed over and of which nobody was told yet."""

    def places(self) -> dict[str, list[Place]]:
        """Where each stage was submitted, last place last."""
        places = defaultdict(list)
        for batch in self.batches.values():
            for index, stage in enumerate(() if batch.void else batch.stages):
                places[stage].append(Place(batch=batch, index=index))
        return places

    def insert(self, batch: Batch) -> None:
        """Take in a batch whose place among the others is lost: ahead of those begun later."""
        batches = [*self.batches.values()]
        later = (i for i, each in enumerate(batches) if each.begun > batch.begun)
        batches.insert(next(later, len(batches)), batch)
        self.batches = {each.name: each for each in batches}


def append(path: Path, event: str, **facts: Any) -> None:
    """Append one event and sync it to disk."""
    journal.append(path, {"event": event} | facts)


def read(path: Path) -> History:
    """Everything said so far; empty where nothing was."""
    history, reported = History(), set[int]()
    for line in journal.read(path):
        if line.row is None or not is_event(line.row):
            history.damaged.append(line.number)
        elif line.row["event"] == "passed_over":
            reported.update(line.row["lines"])
        else:
            _add(history, line.row)
    history.damaged = [number for number in history.damaged if number not in reported]
    return history


def is_event(row: dict[str, Any]) -> bool:
    """Whether a line says what its event asks for."""
    shape = SHAPES.get(str(row.get("event")))
    return shape is not None and misfit(row, shape) is None


def _add(history: History, row: dict[str, Any]) -> None:
    match row["event"]:
        case "allow":
            history.held = False
            history.code = row["code"] or history.code
            for stage in list(history.attempts) if row["stages"] is None else row["stages"]:
                del history.attempts[stage]
                history.tried.pop(stage, None)
        case "intent":
            history.code = row["code"] or history.code
            _intend(history, row)
        case "submitted":
            _named(history, row["batch"]).job_id = row["job_id"]
        case "void":
            batch = _named(history, row["batch"])
            batch.void = True
            if not batch.recovered:
                history.attempts.subtract(batch.stages)
        case "uncount":
            history.attempts.subtract(row["stages"])
        case "hold":
            history.held = True
        case "cancelled":
            for batch in history.batches.values():
                batch.cluster = None
        case "synced":
            history.synced = row["done"]


def _intend(history: History, row: dict[str, Any]) -> None:
    """An intent that was recovered comes late: its batch keeps the place that it has, if any."""
    batch = Batch(name=row["batch"], kind=row["kind"], stages=tuple(row["stages"]))
    batch.begun, batch.recovered = row["time"], row.get("recovered", False)
    batch.cluster = row["cluster"]
    former = history.batches.get(batch.name)
    if former is not None:
        batch.job_id, batch.void = former.job_id, former.void
    if batch.recovered and former is None:
        history.insert(batch)
    else:
        history.batches[batch.name] = batch
    for stage in batch.stages:
        history.tried[stage].append(batch.name)
    if not batch.recovered:
        history.attempts.update(batch.stages)


def _named(history: History, name: str) -> Batch:
    """The batch of a name; one of which nothing is known where its intent was lost."""
    return history.batches.setdefault(name, Batch(name=name, kind=kind_of(name)))


def kind_of(name: str) -> str:
    """The kind of a batch by its name, e.g. smoke-train-1f0c66a2b9; empty where it is no such."""
    return "".join(name.rsplit("-", 2)[1:2])
