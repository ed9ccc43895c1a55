"""Which stages go into which job array, and what each array waits for: pure functions.

SLURM carries the order of a sweep, so that it goes on with no driver alive: an array whose element
i needs element i of another waits element by element (aftercorr), an array whose stages all need
one stage waits for that one (afterok).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from fgrpo_bench.kinds import KINDS
from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.stages.plan import StageRecord
from sweeps.slurm.submissions import REPORT, Batch, Place

"""A stage as plan.json lists it: name, kind, needs, fingerprint, target."""
Group = tuple[list[str], str | None, tuple[Place, ...]]


def is_job(kind: str) -> bool:
    """Whether stages of a kind are jobs; files are fetched by `run`, where there is a network."""
    return kind not in KINDS or not KINDS[kind].fetches


def _in_report(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].in_report


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A batch to be sent and what it waits for."""

    batch: Batch
    relation: str | None = None
    """aftercorr, afterok or afterany; None waits for nothing."""
    after: tuple[Place, ...] = ()
    at_once: int = 1
    """Most elements that SLURM may run at once."""

    def dependency(self) -> str | None:
        """sbatch --dependency; every batch waited for must have a job id."""
        if self.relation is None:
            return None
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
) -> list[Sending]:
    """Batches of at most `limit` stages, in an order in which what is waited for comes first.

    stages: those to be sent. Files are fetched before, so that most have at most one need that is
    not done, the model that they take. places: where unfinished stages that they may need stand in
    the queue. at_once: elements of a kind that may run at once. name: a new batch name for a kind.
    now: Unix time. A report after all that is judged ends the list; it cannot wait for a batch
    whose driver died before its job id was known.
    """
    unsent = {place.batch.name for place in places.values() if place.job_id is None}
    places = dict(places)
    sendings: list[Sending] = []
    for kind in filter(is_job, dict.fromkeys([*KINDS, *(stage.kind for stage in stages)])):
        groups = list(_groups([s for s in stages if s.kind == kind], done, places, limit))
        throttles = throttle([len(names) for names, _, _ in groups], at_once)
        for (names, relation, after), share in zip(groups, throttles, strict=True):
            batch = Batch(name=name(kind), kind=kind, stages=tuple(names), begun=now)
            sending = Sending(batch=batch, relation=relation, after=after, at_once=share)
            sendings.append(sending)
            for index, stage in enumerate(names):
                places[stage] = Place(batch=batch, index=index)
    if any(_in_report(sending.batch.kind) for sending in sendings):
        queued = {stage: p for stage, p in places.items() if p.batch.name not in unsent}
        last = {p.batch.name: p.batch for s, p in queued.items() if s not in done}
        report = Batch(name=name(REPORT), kind=REPORT, stages=(), begun=now)
        after = tuple(Place(batch=b, index=0) for b in last.values() if _in_report(b.kind))
        sendings.append(Sending(batch=report, relation="afterany", after=after))
    return sendings


def throttle(sizes: Sequence[int], at_once: int) -> list[int]:
    """How many elements of each batch may run at once, together at_once; at least one of each, as
    SLURM has no common throttle for several arrays.

    What a small batch leaves goes to the larger ones.
    """
    shares, left = [0] * len(sizes), at_once
    for rank, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = max(1, min(sizes[index], left // (len(sizes) - rank)))
        left -= shares[index]
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
            while len(by_index) == rows[0][0].batch.size and all(by_index.values()):
                ith = [by_index[index].pop(0) for index in sorted(by_index)]
                yield [name for _, name in ith], "aftercorr", (ith[0][0],)
        for of_one in filter(None, by_index.values()):
            for chunk in _chunks([name for _, name in of_one], limit):
                yield chunk, "afterok", (of_one[0][0],)
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
    share = 1.0 if gpus is None or used is None else used / gpus
    return Resources(
        nodes=profile.nodes if takes == "profile" else 1,
        gpus_per_node=None if kind == REPORT else used,
        cpus_per_task=ceil(profile.cpus_per_task * share),
        mem_mb=None if profile.mem_gb is None else ceil(profile.mem_gb * 1024 * share),
    )
