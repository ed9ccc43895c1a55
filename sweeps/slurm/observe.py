"""Where every stage of a sweep stands, as its files and the scheduler show it.

One squeue call, and one sacct call where a job is no longer in the queue, whatever the number of
jobs. A row is a stage's only by id and name: after a reset of the controller its id may be another
job's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.slurm import doubts, recover, scheduler
from sweeps.slurm.answers import Answer, Job
from sweeps.slurm.arrays import Record
from sweeps.slurm.causes import last_note, of_batches, of_start, stands_still
from sweeps.slurm.judge import Decision, Seen
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import History, Place


@dataclass(frozen=True, kw_only=True)
class Found:
    """A sweep as files and scheduler show it."""

    history: History
    seen: tuple[Seen, ...]
    queue: Mapping[str, Job]
    """What squeue shows of all its batches."""
    whole: bool
    """Whether all that squeue and sacct printed makes sense."""


def observe(
    paths: RunPaths, records: Sequence[Record], call: Call, *, warn: Callable[[str], None]
) -> Found:
    """Read everything and change nothing; nothing is asked where nothing was submitted."""
    history = recover.history(paths, warn)
    done = {record["name"] for record in records if _is_done(paths, record)}
    shown = scheduler.squeue(history.batches, call)
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
    for warning in [
        *doubts.nonsense("squeue", shown),
        *doubts.nonsense("sacct", accounts),
        *doubts.dated(accounts, history.batches),
        *doubts.clocks(history.batches.values(), (shown, accounts), time.time()),
    ]:
        warn(warning)
    _identify(history, accounts.values())
    seen = [
        _seen(
            paths,
            record,
            history,
            standing.get(record["name"]),
            queue,
            accounts,
            done=record["name"] in done,
        )
        for record in records
    ]
    return Found(
        history=history,
        queue=queue,
        seen=tuple(doubts.confirmed(seen, shown, call)),
        whole=shown.nonsense is None and accounts.nonsense is None,
    )


def _is_done(paths: RunPaths, record: Record) -> bool:
    stage = StagePaths(paths.folder / record["name"])
    return is_done(stage, fingerprint=record["fingerprint"], target=record["target"])


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


def _row(place: Place, jobs: Mapping[str, Job]) -> Job | None:
    """The place's own row, by id and name: after a reset of the controller an id may be another
    job's. None where there is none."""
    job = jobs.get(place.job_id or "")
    return job if job is not None and job.name == place.batch.name else None


def _rest(place: Place, queue: Mapping[str, Job]) -> Job | None:
    """The row for all elements of an array that were cancelled before they began: squeue shows it
    under the array's own id, and accounting none."""
    job = queue.get(place.batch.job_id or "")
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
) -> Seen:
    stage, name = StagePaths(paths.folder / record["name"]), record["name"]
    attempts = history.attempts[name]
    if place is None:
        return Seen(record=record, done=done, attempts=attempts)
    queued = _row(place, queue)
    job = queued or _row(place, accounts) or _rest(place, queue)
    if done:
        return Seen(
            record=record, done=True, attempts=attempts, place=place, job=job, queued=bool(queued)
        )
    notes = of_batches(stage, history.tried[name])
    note = last_note(stage, place.job_id, place.batch.name)
    if place.job_id is not None and job is not None and job.state == "FAILED":
        note = note or of_start(paths.batch(place.batch.name), place.job_id)
    return Seen(
        record=record,
        done=False,
        attempts=attempts,
        place=place,
        job=job,
        queued=queued is not None,
        note=note,
        at_work=queued is None and is_locked(stage.lock),
        starts=len(notes),
        idle=stands_still(stage, notes),
    )


def in_queue(found: Found, decision: Decision) -> dict[str, Place]:
    """Where the stages stand that SLURM has or may have, which others can wait for."""
    places = {seen.record["name"]: seen.place for seen in found.seen if seen.place is not None}
    return {name: p for name, p in places.items() if decision.standings[name].state == "active"}


def left(found: Found) -> list[Job]:
    """Jobs in the queue that are not ending."""
    return [job for job in found.queue.values() if job.active and job.state != "COMPLETING"]
