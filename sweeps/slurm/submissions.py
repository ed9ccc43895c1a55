"""What was said to SLURM: submissions.jsonl, one line each, synced to disk, never changed.

{"event": "allow", "stages": null, "code": "<folder>"}                  run, or retry of some stages
{"event": "intent", "batch": "smoke-train-1f0c", "kind": "train", "stages": [...], "time": 1.7e9,
 "code": "<folder>", "cluster": "<ClusterName of its slurm.conf>", "memory": 1.0}
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

Which stages go into which array, and what each array waits for, are pure functions at the end.
SLURM carries the order of a sweep, so that it goes on with no driver alive: an array whose element
i needs element i of another waits element by element (aftercorr), an array whose stages all need
one stage waits for that one (afterok). Next: sweeps.slurm.submit, which sends them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

from fgrpo_bench.files import journal
from fgrpo_bench.files.records import Record, SchemaError
from fgrpo_bench.kinds import KINDS
from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.stages.plan import StageRecord

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
    memory: float = 1.0
    """What times the profile's memory it asks for."""


@dataclass(frozen=True, kw_only=True)
class Submitted(Event):
    """A batch that SLURM has."""

    event = "submitted"
    batch: str
    job_id: str
    adopted: bool = False
    """Whether another driver had sent it."""


@dataclass(frozen=True, kw_only=True)
class Abandoned(Event):
    """A batch of which nothing will run."""

    event = "void"
    batch: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class NotAnAttempt(Event):
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
    for kind in (
        Allow,
        Intent,
        Submitted,
        Abandoned,
        NotAnAttempt,
        Hold,
        Cancelled,
        Synced,
        PassedOver,
    )
}


@dataclass(kw_only=True)
class JobBatch:
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
    memory: float = 1.0
    """What times the profile's memory it asks for, as its stages were out of memory with less."""

    @property
    def is_described(self) -> bool:
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
            memory=self.memory,
        )


@dataclass(frozen=True, kw_only=True)
class Place:
    """An element of a batch."""

    batch: JobBatch
    index: int

    @property
    def job_id(self) -> str | None:
        """As squeue shows it; None where the batch's is not known."""
        return None if self.batch.job_id is None else self.batch.element(self.index)


@dataclass(kw_only=True)
class History:
    """All lines, read."""

    batches: dict[str, JobBatch] = field(default_factory=dict)
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

    def insert(self, batch: JobBatch) -> None:
        """Take in a batch whose place among the others is lost: ahead of those begun later."""
        batches = [*self.batches.values()]
        later = (i for i, item in enumerate(batches) if item.begun > batch.begun)
        batches.insert(next(later, len(batches)), batch)
        self.batches = {batch.name: batch for batch in batches}


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
    except SchemaError:
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
        case Abandoned():
            batch = _named(history, event.batch)
            batch.void = True
            if not batch.recovered:  # a recovered one was never counted
                history.attempts.subtract(batch.stages)
        case NotAnAttempt():
            history.attempts.subtract(event.stages)
        case Hold():
            history.held = True
        case Cancelled():
            # no cluster has its jobs, so that it may be sent to another one
            for batch in history.batches.values():
                batch.cluster = None
        case Synced():
            history.synced = event.done


def _intend(history: History, intent: Intent) -> None:
    """An intent that was recovered comes late: its batch keeps the place that it has, if any."""
    batch = JobBatch(
        name=intent.batch,
        kind=intent.kind,
        stages=intent.stages,
        begun=intent.time,
        cluster=intent.cluster,
        recovered=intent.recovered,
        memory=intent.memory,
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


def _named(history: History, name: str) -> JobBatch:
    """The batch of a name; one of which nothing is known where its intent was lost."""
    return history.batches.setdefault(name, JobBatch(name=name, kind=batch_kind(name)))


def batch_kind(name: str) -> str:
    """The kind of a batch by its name, e.g. smoke-train-1f0c66a2b9; empty where it is no such."""
    return "".join(name.rsplit("-", 2)[1:2])


def is_job(kind: str) -> bool:
    """Whether stages of a kind are jobs; files are fetched by `run`, where there is a network."""
    return kind not in KINDS or not KINDS[kind].fetches


def _in_report(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].in_report


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A batch to be sent and what it waits for."""

    batch: JobBatch
    relation: str | None = None
    """aftercorr, afterok or afterany; None waits for nothing."""
    after: tuple[Place, ...] = ()
    at_once: int = 1
    """Most elements that SLURM may run at once."""

    def dependency(self) -> str | None:
        """sbatch --dependency; every batch waited for must have a job id."""
        if self.relation is None:
            return None
        # aftercorr and afterany name a whole array, afterok the one element that is needed
        whole_batch = self.relation != "afterok"
        ids = [str(place.batch.job_id if whole_batch else place.job_id) for place in self.after]
        return ":".join([self.relation, *ids])


def arrange(
    stages: Sequence[StageRecord],
    *,
    done: Collection[str],
    places: Mapping[str, Place],
    limit: int,
    at_once: int,
    name: Callable[[str], str],
    now: float,
    memory: Mapping[str, float] | None = None,
) -> list[Sending]:
    """Batches of at most `limit` stages, in an order in which what is waited for comes first.

    stages: those to be sent. Files are fetched before, so that most have at most one need that is
    not done, the model that they take. places: where unfinished stages that they may need stand in
    the queue. at_once: elements of a kind that may run at once. name: a new batch name for a kind.
    now: Unix time. memory: of stages that ask for other than once the profile's. A report after all
    that is judged ends the list; it cannot wait for a batch whose driver died before its job id was
    known.
    """
    # a dependency needs a job id
    unsent = {place.batch.name for place in places.values() if place.job_id is None}
    places = dict(places)
    sendings: list[Sending] = []
    # in the order of KINDS, so that a batch is listed after what it waits for
    for kind in filter(is_job, dict.fromkeys([*KINDS, *(stage.kind for stage in stages)])):
        kind_stages = [stage for stage in stages if stage.kind == kind]
        times = {stage.name: (memory or {}).get(stage.name, 1.0) for stage in kind_stages}
        groups: list[Group] = []
        for factor in sorted({*times.values()}):  # the elements of an array ask for the same
            alike = [stage for stage in kind_stages if times[stage.name] == factor]
            groups += _groups(alike, done, places, limit)
        throttles = throttle([len(names) for names, _, _ in groups], at_once)
        for (names, relation, after), share in zip(groups, throttles, strict=True):
            batch = JobBatch(
                name=name(kind),
                kind=kind,
                stages=tuple(names),
                begun=now,
                memory=times[names[0]],
            )
            sending = Sending(batch=batch, relation=relation, after=after, at_once=share)
            sendings.append(sending)
            for index, stage in enumerate(names):
                places[stage] = Place(batch=batch, index=index)
    if any(_in_report(sending.batch.kind) for sending in sendings):
        queued = {stage: p for stage, p in places.items() if p.batch.name not in unsent}
        last = {p.batch.name: p.batch for s, p in queued.items() if s not in done}
        report = JobBatch(name=name(REPORT), kind=REPORT, stages=(), begun=now)
        after = tuple(Place(batch=b, index=0) for b in last.values() if _in_report(b.kind))
        sendings.append(Sending(batch=report, relation="afterany", after=after))
    return sendings


def throttle(sizes: Sequence[int], at_once: int) -> list[int]:
    """How many elements of each batch may run at once, together at_once; at least one of each, as
    SLURM has no common throttle for several arrays.

    What a small batch leaves goes to the larger ones.
    """
    shares, remaining = [0] * len(sizes), at_once
    # the smallest first: what one leaves of its share is there for those after it
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = max(1, min(sizes[index], remaining // (len(sizes) - rank)))
        remaining -= shares[index]
    return shares


def beyond(sendings: Iterable[Sending], at_once: int) -> Iterator[str]:
    """A warning for each kind whose arrays may together run more than `at_once` elements."""
    arrays: dict[str, list[int]] = defaultdict(list)
    for sending in sendings:
        arrays[sending.batch.kind].append(sending.at_once)
    for kind, shares in arrays.items():
        if sum(shares) > at_once:
            yield (
                f"warning: {sum(shares)} {kind} jobs may run at once although "
                f"profile.max_parallel={at_once}, as they are sent in {len(shares)} arrays and "
                "SLURM bounds each by itself: a limit over all jobs is the site's to set (GrpJobs "
                "of an account or qos)"
            )


Group = tuple[list[str], str | None, tuple[Place, ...]]
"""Stages that may be sent as one batch, how it waits (Sending.relation), and for what."""


def _groups(
    stages: Iterable[StageRecord], done: Collection[str], places: Mapping[str, Place], limit: int
) -> Iterator[Group]:
    free: list[str] = []
    joint: dict[tuple[str, ...], list[str]] = defaultdict(list)
    waiting: dict[str, list[tuple[Place, str]]] = defaultdict(list)
    for stage in stages:
        missing = [need for need in stage.needs if need not in done]
        if not missing:
            free.append(stage.name)
        elif len(missing) > 1:
            joint[tuple(missing)].append(stage.name)
        else:
            (need,) = missing
            waiting[places[need].batch.name].append((places[need], stage.name))
    for chunk in _chunks(free, limit):
        yield chunk, None, ()
    for rows in waiting.values():
        by_index: dict[int, list[tuple[Place, str]]] = defaultdict(list)
        for row in rows:
            by_index[row[0].index].append(row)
        if max(map(len, by_index.values())) < rows[0][0].batch.size:  # else afterok is as few
            # paired by index: each element starts as soon as the one that it needs is done
            while len(by_index) == rows[0][0].batch.size and all(by_index.values()):
                ith = [by_index[index].pop(0) for index in sorted(by_index)]
                yield [name for _, name in ith], "aftercorr", (ith[0][0],)
        for element_rows in filter(None, by_index.values()):
            for chunk in _chunks([name for _, name in element_rows], limit):
                yield chunk, "afterok", (element_rows[0][0],)
    for needs, names in joint.items():
        for chunk in _chunks(names, limit):
            yield chunk, "afterok", tuple(places[need] for need in needs)


def _chunks(names: list[str], limit: int) -> Iterator[list[str]]:
    for start in range(0, len(names), limit):
        yield names[start : start + limit]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Of one job."""

    nodes: int
    gpus_per_node: int | None
    """None asks for none."""
    cpus_per_task: int
    mem_mb: int | None
    """On each node; None leaves it to the site."""


def resources(profile: SlurmProfile, kind: str, *, is_placed: bool) -> Resources:
    """Those of a job of a kind of stage, or of the report.

    is_placed: whether it may have several GPUs, as the placement says (Environment.is_placed).
    """
    gpus = profile.gpus_per_node
    used, takes = gpus, KINDS[kind].takes if kind in KINDS else "engines"
    if gpus is not None and takes != "profile":
        placement = profile.placement
        engines = 1 if takes == "engine" else placement.evaluation_engines
        used = engines * placement.evaluation_tensor_parallel if is_placed else 1
    # processors and memory go by the share of a node's GPUs that the job takes
    share = 1.0 if gpus is None or used is None else used / gpus
    return Resources(
        nodes=profile.nodes if takes == "profile" else 1,
        gpus_per_node=None if kind == REPORT else used,
        cpus_per_task=ceil(profile.cpus_per_task * share),
        mem_mb=None if profile.mem_gb is None else ceil(profile.mem_gb * 1024 * share),
    )
