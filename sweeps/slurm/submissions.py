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
Damaged lines (fgrpo_bench.files.journal) are passed over; what they said is made up from the
batches' folders and the queue (sweeps.slurm.recover).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fgrpo_bench.files import journal
from fgrpo_bench.files.records import Misfit, Record

REPORT = "report"
"""Kind of the batch that writes the report after all others; it has no stages."""


@dataclass(frozen=True, kw_only=True)
class Event(Record):
    """A line, without its checksum."""

    event: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Allow(Event):
    """`run`, or `retry` of some stages: count their attempts anew."""

    event = "allow"
    stages: tuple[str, ...] | None
    """None: all."""
    code: str | None
    """Folder of the frozen code that jobs run from now on."""


@dataclass(frozen=True, kw_only=True)
class Intent(Event):
    """A batch, before it is sent."""

    event = "intent"
    batch: str
    kind: str
    stages: tuple[str, ...]
    time: float
    """Since 1970, in seconds."""
    code: str | None
    cluster: str | None
    """ClusterName of its slurm.conf; None where that is not known."""
    recovered: bool = False
    """Whether it was lost and made up later."""


@dataclass(frozen=True, kw_only=True)
class Submitted(Event):
    """A batch that SLURM has."""

    event = "submitted"
    batch: str
    job_id: str
    adopted: bool = False
    """Whether another driver had sent it."""


@dataclass(frozen=True, kw_only=True)
class Void(Event):
    """A batch of which nothing will run."""

    event = "void"
    batch: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Uncount(Event):
    """Stages whose last job never began: no attempt."""

    event = "uncount"
    stages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Hold(Event):
    """`cancel`: submit nothing more."""

    event = "hold"


@dataclass(frozen=True, kw_only=True)
class Cancelled(Event):
    """No cluster has any job of it."""

    event = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Synced(Event):
    """MLflow and the report follow as many done stages."""

    event = "synced"
    done: int


@dataclass(frozen=True, kw_only=True)
class PassedOver(Event):
    """Damaged lines of which a person was told."""

    event = "passed_over"
    lines: tuple[int, ...]


EVENTS: dict[str, type[Event]] = {
    kind.event: kind
    for kind in (Allow, Intent, Submitted, Void, Uncount, Hold, Cancelled, Synced, PassedOver)
}


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

    def intent(self, code: str | None) -> Intent:
        """What the journal, and beside the batch its own folder, say of it before it is sent."""
        return Intent(
            batch=self.name,
            kind=self.kind,
            stages=self.stages,
            time=self.begun,
            code=code,
            cluster=self.cluster,
        )


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


def append(path: Path, event: Event) -> None:
    """Append one event and sync it to disk."""
    journal.append(path, as_row(event))


def as_row(event: Event) -> dict[str, Any]:
    """A line, without its checksum."""
    return {"event": event.event} | event.as_json()


def from_row(row: dict[str, Any] | None) -> Event | None:
    """What a line says; None where it is damaged, or does not say what its event asks for."""
    if row is None or (kind := EVENTS.get(str(row.get("event")))) is None:
        return None
    try:
        return kind.parsed({key: row[key] for key in row if key != "event"})
    except Misfit:
        return None


def read(path: Path) -> History:
    """Everything said so far; empty where nothing was."""
    history, reported = History(), set[int]()
    for line in journal.read(path):
        event = from_row(line.row)
        if event is None:
            history.damaged.append(line.number)
        elif isinstance(event, PassedOver):
            reported.update(event.lines)
        else:
            _add(history, event)
    history.damaged = [number for number in history.damaged if number not in reported]
    return history


def _add(history: History, event: Event) -> None:
    match event:
        case Allow():
            history.held = False
            history.code = event.code or history.code
            for stage in list(history.attempts) if event.stages is None else event.stages:
                del history.attempts[stage]
                history.tried.pop(stage, None)
        case Intent():
            history.code = event.code or history.code
            _intend(history, event)
        case Submitted():
            _named(history, event.batch).job_id = event.job_id
        case Void():
            batch = _named(history, event.batch)
            batch.void = True
            if not batch.recovered:
                history.attempts.subtract(batch.stages)
        case Uncount():
            history.attempts.subtract(event.stages)
        case Hold():
            history.held = True
        case Cancelled():
            for batch in history.batches.values():
                batch.cluster = None
        case Synced():
            history.synced = event.done


def _intend(history: History, intent: Intent) -> None:
    """An intent that was recovered comes late: its batch keeps the place that it has, if any."""
    batch = Batch(
        name=intent.batch,
        kind=intent.kind,
        stages=intent.stages,
        begun=intent.time,
        cluster=intent.cluster,
        recovered=intent.recovered,
    )
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
