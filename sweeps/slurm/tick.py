"""`tick`: bring a sweep on SLURM up to date. Stateless; safe to kill and to run again at any time.

It derives where every stage stands from files and the scheduler, adopts what a dead driver left in
the queue, cancels what is of no more use, and submits what is to be done. One squeue call, and one
sacct call where a job is no longer in the queue, whatever the number of jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from submitit.core.utils import JobPaths

from fgrpo_bench.files import read_json
from fgrpo_bench.locks import locked
from fgrpo_bench.markers import is_done
from fgrpo_bench.paths import RunPaths, StagePaths
from fgrpo_bench.specs import Declaration, SlurmProfile, from_dict
from sweeps.commands import StageCommand, stage_command
from sweeps.slurm import scheduler, submissions
from sweeps.slurm.arrays import Record, arrange
from sweeps.slurm.judge import Decision, Seen, decide
from sweeps.slurm.notes import attempts
from sweeps.slurm.scheduler import Call, Job
from sweeps.slurm.submissions import REPORT, Batch, History, Place
from sweeps.slurm.submit import Sender, batch_name, send
from sweeps.text import counted

ORPHAN_SECONDS = 90.0
"""How old an intent must be before its absence from the queue means that it was never sent: an
sbatch may outlive its driver."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A sweep as files and scheduler show it."""

    history: History
    seen: tuple[Seen, ...]


def observe(
    paths: RunPaths, records: Sequence[Record], call: Call, *, warn: Callable[[str], None]
) -> Found:
    """Read everything and change nothing; nothing is asked where nothing was submitted."""
    history = submissions.read(paths.submissions)
    done = {record["name"] for record in records if _is_done(paths, record)}
    places = {r["name"]: history.latest[r["name"]] for r in records if r["name"] in history.latest}
    batches = {place.batch.name: place.batch for place in places.values()}
    unknown = [batch for batch in history.batches.values() if not batch.void and not batch.job_id]
    queue = scheduler.squeue({*batches, *(batch.name for batch in unknown)}, call)
    absent = {
        place.batch.name
        for stage, place in places.items()
        if stage not in done and place.job_id not in queue
    } | {b.name for b in unknown if b.name not in {job.name for job in queue.values()}}
    accounts: dict[str, Job] = {}
    try:
        accounts = scheduler.sacct(absent, call)
    except (ValueError, ConnectionError) as error:
        warn(f"warning: accounting gives no answer, so ended jobs are judged without it: {error}")
    for batch in unknown:
        found = {
            job.job_id for job in [*queue.values(), *accounts.values()] if job.name == batch.name
        }
        batch.job_id = next(iter(sorted(found)), "").split("_")[0] or None
    return Found(
        history=history,
        seen=tuple(
            _seen(paths, record, history, queue, accounts, done=record["name"] in done)
            for record in records
        ),
    )


def _is_done(paths: RunPaths, record: Record) -> bool:
    stage = StagePaths(paths.folder / record["name"])
    return is_done(stage, fingerprint=record["fingerprint"], target=record["target"])


def _seen(
    paths: RunPaths,
    record: Record,
    history: History,
    queue: dict[str, Job],
    accounts: dict[str, Job],
    *,
    done: bool,
) -> Seen:
    name = record["name"]
    place = history.latest.get(name)
    job_id = place.job_id if place is not None else None
    note: dict[str, Any] | None = None
    if job_id is not None and not done:
        notes = attempts(StagePaths(paths.folder / name))
        note = next((each for each in reversed(notes) if each.get("job_id") == job_id), None)
    return Seen(
        record=record,
        done=done,
        attempts=history.attempts[name],
        place=place,
        job=queue.get(job_id or "") or accounts.get(job_id or "") or _rest(place, queue),
        queued=job_id in queue,
        note=note,
    )


def _rest(place: Place | None, queue: dict[str, Job]) -> Job | None:
    """The row for all elements of an array that were cancelled before they began: squeue shows it
    under the array's own id, and accounting none."""
    return queue.get(place.batch.job_id or "") if place is not None else None


def settle(paths: RunPaths, call: Call, *, now: float, warn: Callable[[str], None]) -> Found:
    """Observe, and first make up the books of a driver that died between sbatch and its note."""
    noted = submissions.read(paths.submissions).batches
    records = read_json(paths.plan)["stages"]
    found = observe(paths, records, call, warn=warn)
    changed = False
    for batch in found.history.batches.values():
        if batch.void or noted[batch.name].job_id is not None:
            continue
        if batch.job_id is None:
            if now - batch.begun > ORPHAN_SECONDS:
                _void(paths, batch, "never sent")
                changed = True
            continue
        changed = True
        if _whole(paths, batch):
            facts = {"batch": batch.name, "job_id": batch.job_id, "adopted": True}
            submissions.append(paths.submissions, "submitted", **facts)
        else:
            scheduler.scancel([batch.job_id], call)
            _void(paths, batch, "its driver died before it had handed over what to run")
    return observe(paths, records, call, warn=warn) if changed else found


def _whole(paths: RunPaths, batch: Batch) -> bool:
    """Whether submitit had put what to run where the jobs look for it."""
    folder = paths.batch(batch.name)
    ids = [batch.element(index) for index in range(batch.size)]
    return all(JobPaths(folder, job_id=job_id).submitted_pickle.exists() for job_id in ids)


def _void(paths: RunPaths, batch: Batch, why: str) -> None:
    submissions.append(paths.submissions, "void", batch=batch.name, why=why)


def tick(
    paths: RunPaths,
    *,
    say: Callable[[str], None],
    call: Call = scheduler.call,
    command: StageCommand = stage_command,
    clock: Callable[[], float] = time.time,
) -> Decision:
    """One reconciliation, under the driver's lock.

    Raises BlockingIOError where another driver is at work, ValueError with SLURM's own words where
    it refuses something, ConnectionError where it gives no answer.
    """
    profile = frozen_profile(paths)
    what = f"sweep {paths.sweep} experiment={paths.experiment} version={paths.version}"
    with locked(paths.driver_lock, wait=False, what=what):
        found = settle(paths, call, now=clock(), warn=say)
        history = found.history
        decision = decide(
            found.seen, now=clock(), max_attempts=profile.max_attempts, held=history.held
        )
        scheduler.scancel(decision.cancel, call)
        if decision.cancel:
            say(f"cancelled {counted(len(decision.cancel), 'job')} of no more use")
        _tell_fates(decision, say)
        if decision.submit:
            _submit(paths, profile, found, decision, call, command, clock)
            say(f"submitted {counted(len(decision.submit), 'stage')}")
    return decision


def _tell_fates(decision: Decision, say: Callable[[str], None]) -> None:
    for record in decision.submit:
        standing = decision.standings[record["name"]]
        if standing.state == "again":
            say(f"{record['name']}: {standing.fate}; submitted again")


def _submit(
    paths: RunPaths,
    profile: SlurmProfile,
    found: Found,
    decision: Decision,
    call: Call,
    command: StageCommand,
    clock: Callable[[], float],
) -> None:
    history = found.history
    if history.code is None:
        raise ValueError(
            f"{paths.folder} was never submitted: run it with `python -m sweeps run {paths.sweep} "
            "profile=slurm`"
        )
    if decision.uncount:
        submissions.append(paths.submissions, "uncount", stages=list(decision.uncount))
    sendings = arrange(
        decision.submit,
        done={seen.record["name"] for seen in found.seen if seen.done},
        places=history.latest,
        limit=profile.max_array_size or scheduler.max_array_size(call),
        at_once=profile.max_parallel,
        name=partial(batch_name, paths.sweep),
        now=clock(),
    )
    sender = Sender(
        paths=paths,
        profile=profile,
        code=Path(history.code),
        records={seen.record["name"]: seen.record for seen in found.seen},
        command=command,
    )
    send(sender, sendings, call)
    if any(sending.batch.kind == REPORT for sending in sendings):
        former = [b.job_id for b in history.batches.values() if b.kind == REPORT and not b.void]
        scheduler.scancel([job_id for job_id in former[-1:] if job_id is not None], call)


def frozen_profile(paths: RunPaths) -> SlurmProfile:
    """The profile that the sweep was last run with; ValueError where that was not SLURM."""
    declaration = from_dict(Declaration, read_json(paths.sweep_json)["declaration"])
    if not isinstance(declaration.profile, SlurmProfile):
        raise ValueError(
            f"{paths.folder} was last run with profile={declaration.profile.name}, on one machine: "
            "`run` goes on with it; run it with profile=slurm to submit it"
        )
    return declaration.profile


def in_hand(decision: Decision) -> bool:
    """Whether SLURM has, or will get, anything that is not done."""
    submitted = {record["name"] for record in decision.submit}
    return bool(submitted) or any(each.state == "active" for each in decision.standings.values())


def failed(decision: Decision) -> dict[str, str]:
    """Fates of the stages that were given up, by name."""
    return {name: each.fate for name, each in decision.standings.items() if each.state == "failed"}
