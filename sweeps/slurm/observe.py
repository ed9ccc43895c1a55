"""Where every stage of a sweep stands, as its files and the scheduler show it.

One squeue call, and one sacct call where a job is no longer in the queue, whatever the number of
jobs. A row is a stage's only by id and name: after a reset of the controller its id may be another
job's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.slurm import answers, recover, scheduler
from sweeps.slurm.answers import Answer, Job, elements
from sweeps.slurm.arrays import Record
from sweeps.slurm.attempts import last_note, last_words, no_progress, of_batches, of_start
from sweeps.slurm.decide import Decision, StageObservation
from sweeps.slurm.packing import output_file
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import Batch, History, Place


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A sweep as files and scheduler show it."""

    history: History
    seen: tuple[StageObservation, ...]
    queue: Mapping[str, Job]
    """What squeue shows of all its batches."""
    is_readable: bool
    """Whether all that squeue and sacct printed makes sense."""


def observe(
    paths: RunPaths, records: Sequence[Record], call: Call, *, warn: Callable[[str], None]
) -> Observed:
    """Read everything and change nothing; nothing is asked where nothing was submitted."""
    history = recover.history(paths, warn)
    undone = recover.undone(paths, records)
    done = {record["name"] for record in records}.difference(undone)
    shown = scheduler.squeue(history.batches, call)
    recover.check_cluster(paths, history, undone, shown, call)
    queue = {job_id: job for job_id, job in shown.items() if job.name in history.batches}
    _identify(history, queue.values())
    places = history.places()
    standing = {
        r["name"]: _standing(places[r["name"]], queue) for r in records if places[r["name"]]
    }
    absent = {
        place.batch.name
        for stage, place in standing.items()
        if stage not in done and _row(place, queue) is None
    } | {b.name for b in history.batches.values() if b.known and not b.void and b.job_id is None}
    accounts = Answer()
    try:
        accounts = scheduler.sacct(absent, call)
    except (ValueError, ConnectionError) as error:
        warn(f"warning: accounting gives no answer, so ended jobs are judged without it: {error}")
    for warning in (*answers.nonsense("squeue", shown), *answers.nonsense("sacct", accounts)):
        warn(warning)
    _identify(history, accounts.values())
    seen = [
        _seen(paths, r, history, standing.get(r["name"]), queue, accounts, done=r["name"] in done)
        for r in records
    ]
    return Observed(
        history=history,
        queue=queue,
        seen=tuple(confirmed(seen, shown, call)),
        is_readable=shown.nonsense is None and accounts.nonsense is None,
    )


def _identify(history: History, jobs: Iterable[Job]) -> None:
    """Give batches whose job nobody noted the id that SLURM shows under their name."""
    for job in jobs:
        batch = history.batches.get(job.name)
        if batch is not None and batch.job_id is None:
            batch.job_id = job.job_id.partition("_")[0]


def _standing(places: Sequence[Place], queue: Mapping[str, Job]) -> Place:
    """Where a stage stands: its last place, or the last one of which something can still run."""
    shown = ((place, _row(place, queue)) for place in reversed(places))
    return next((place for place, job in shown if job is not None and job.active), places[-1])


def _row(place: Place, jobs: Mapping[str, Job], *, of_array: bool = False) -> Job | None:
    """The place's own row, by id and name: after a reset of the controller an id may be another
    job's. None where there is none.

    of_array: that for all elements which were cancelled before they began: squeue shows it under
    the array's own id, and accounting none.
    """
    job = jobs.get((place.batch.job_id if of_array else place.job_id) or "")
    return job if job is not None and job.name == place.batch.name else None


def _seen(
    paths: RunPaths,
    record: Record,
    history: History,
    place: Place | None,
    queue: Mapping[str, Job],
    accounts: Mapping[str, Job],
    *,
    done: bool,
) -> StageObservation:
    stage, name = StagePaths(paths.folder / record["name"]), record["name"]
    seen = StageObservation(record=record, done=done, attempts=history.attempts[name], place=place)
    if place is None:
        return seen
    queued = _row(place, queue)
    job = queued or _row(place, accounts) or _row(place, queue, of_array=True)
    seen = replace(seen, job=job, queued=queued is not None)
    if done:
        return seen
    notes = of_batches(stage, history.tried[name])
    note = last_note(stage, place.job_id, place.batch.name)
    if place.job_id is not None and job is not None and job.state == "FAILED":
        batch = paths.batch(place.batch.name)
        note = note or of_start(batch, place.job_id)
        if note is None or "outcome" not in note:
            seen = replace(seen, said=last_words(output_file(batch, place.job_id)))
    at_work = queued is None and is_locked(stage.lock)
    idle = no_progress(stage, notes)
    return replace(seen, note=note, at_work=at_work, starts=len(notes), idle=idle)


def in_queue(observed: Observed, decision: Decision) -> dict[str, Place]:
    """Where the stages stand that SLURM has or may have, which others can wait for."""
    places = {seen.record["name"]: seen.place for seen in observed.seen if seen.place is not None}
    return {name: p for name, p in places.items() if decision.standings[name].state == "active"}


def left(observed: Observed) -> list[Job]:
    """Jobs in the queue that are not ending."""
    return [job for job in observed.queue.values() if job.active and job.state != "COMPLETING"]


def confirmed(
    seen: Sequence[StageObservation], queue: Answer, call: Call
) -> list[StageObservation]:
    """With `doubt` where a job is not shown by squeue and yet may be there.

    Before a job can be called lost the controller is asked for it by another program.
    """
    known: dict[str, set[str] | str] = {}
    return [_doubted(stage, queue, known, call) for stage in seen]


def _doubted(
    seen: StageObservation, queue: Answer, known: dict[str, set[str] | str], call: Call
) -> StageObservation:
    place = seen.place
    if seen.done or seen.queued or place is None or place.job_id is None:
        return seen
    if queue.nonsense is not None:
        return replace(seen, doubt="squeue's answer makes no sense")
    ended = (seen.note or {}).get("outcome") not in (None, "stopped")
    if ended or (seen.job is not None and not seen.job.active):
        return seen
    name = place.batch.name
    if name not in known:
        known[name] = _known(place.batch, call)
    shown = known[name]
    if isinstance(shown, str):
        return replace(seen, doubt=f"squeue does not show it and scontrol says: {shown}")
    if place.job_id in shown:
        return replace(seen, doubt="squeue does not show it, but scontrol does")
    return seen


def _known(batch: Batch, call: Call) -> set[str] | str:
    """Ids of the jobs or elements of a batch that the controller knows; its words where it gives no
    answer that makes sense."""
    assert batch.job_id is not None
    try:
        output = call(["scontrol", "show", "job", "-o", batch.job_id])
    except (ValueError, ConnectionError) as error:
        return set() if scheduler.INVALID_ID in str(error) else str(error)
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in output.splitlines() if line.strip()]
    if not rows or not all({"JobId", "JobName", "JobState"} <= row.keys() for row in rows):
        return f"`scontrol` printed what makes no sense: {output[:80]!r}"
    ids: set[str] = set()
    for row in rows:
        if row["JobName"] != batch.name:
            continue
        array = row.get("ArrayTaskId")
        spelled, is_complete = elements(f"{batch.job_id}_[{array}]" if array else row["JobId"])
        ids |= {*spelled} if is_complete else {batch.element(index) for index in range(batch.size)}
    return ids
