"""`tick`: bring a sweep on SLURM up to date. Stateless; safe to kill and to run again at any time.

It derives where every stage stands from files and the scheduler (`observe`), adopts what a dead
driver left in the queue and what the journal lost, cancels what is of no more use, and submits what
is to be done.

One squeue call, and a second one and one sacct call where a job is no longer in the queue under its
batch's name, whatever the number of jobs. A row is a stage's only by id and name: after a reset of
the controller its id may be another job's.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fgrpo_bench.command.runs import address
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.specs.stored import stored_profile
from fgrpo_bench.stages.locks import driving, is_locked
from fgrpo_bench.stages.plan import StageRecord, read_plan, read_sweep
from sweeps.commands import StageCommand, stage_command
from sweeps.slurm import recover, scheduler, submissions
from sweeps.slurm.attempts import (
    batch_notes,
    check_room,
    is_memory_kill,
    last_note,
    last_output_line,
    no_progress,
    start_failure,
)
from sweeps.slurm.code import damage, describe_damaged_files
from sweeps.slurm.decide import STALE_RESOURCES, Decision, StageObservation, decide
from sweeps.slurm.packing import is_packed, output_file
from sweeps.slurm.scheduler import Answer, Call, Job, elements
from sweeps.slurm.submissions import (
    REPORT,
    Abandoned,
    History,
    JobBatch,
    NotAnAttempt,
    PassedOver,
    Place,
    Submitted,
    arrange,
    beyond,
)
from sweeps.slurm.submit import Sender, send, with_more_memory, with_stale_resources
from sweeps.text import counted

ORPHAN_SECONDS = 90.0
"""How old an intent must be before its absence from the queue means that it was never sent: an
sbatch may outlive its driver."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A sweep as files and scheduler show it."""

    history: History
    stages: tuple[StageObservation, ...]
    queue: Mapping[str, Job]
    """What squeue shows of all its batches."""
    is_readable: bool
    """Whether all that squeue and sacct printed makes sense."""


def observe(
    paths: RunPaths, records: Sequence[StageRecord], call: Call, *, warn: Callable[[str], None]
) -> Observed:
    """Read everything and change nothing; nothing is asked where nothing was submitted."""
    history = recover.read_history(paths, warn)
    undone = recover.undone(paths, records)
    done = {record.name for record in records}.difference(undone)
    # the queue before the accounts: what leaves the queue in between is in the accounts by then
    shown = recover.queued_jobs(history, undone, call)
    recover.check_cluster(paths, history, undone, shown, call)
    queue = {job_id: job for job_id, job in shown.items() if job.name in history.batches}
    _identify(history, queue.values())
    places = history.places()
    standing = {
        record.name: _standing(places[record.name], queue)
        for record in records
        if places[record.name]
    }
    absent = {
        place.batch.name
        for stage, place in standing.items()
        if stage not in done and _row(place, queue) is None
    } | {
        b.name
        for b in history.batches.values()
        if b.is_described and not b.void and b.job_id is None
    }
    accounts = Answer()  # many clusters run without accounting, and it lags behind the queue
    try:
        accounts = scheduler.sacct(absent, call)
    except (ValueError, ConnectionError) as error:
        warn(f"warning: accounting gives no answer, so ended jobs are judged without it: {error}")
    nonsense = (*scheduler.nonsense("squeue", shown), *scheduler.nonsense("sacct", accounts))
    for warning in (*_renamed(shown.values()), *nonsense):
        warn(warning)
    _identify(history, accounts.values())
    observations = [
        _observe_stage(
            paths, r, history, standing.get(r.name), queue, accounts, done=r.name in done
        )
        for r in records
    ]
    return Observed(
        history=history,
        queue=queue,
        stages=tuple(confirmed(observations, shown, call)),
        is_readable=shown.nonsense is None and accounts.nonsense is None,
    )


def _renamed(jobs: Iterable[Job]) -> list[str]:
    """A warning on jobs that SLURM shows under other names."""
    names = Counter(job.shown_name for job in jobs if job.shown_name)
    if not names:
        return []
    return [
        f"warning: SLURM shows {counted(names.total(), 'job')} of this sweep under another name "
        f"({', '.join(sorted(names)[:3])}), by the site's or an administrator's doing: they are "
        "told by the folder of what they run"
    ]


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


def _row(place: Place, jobs: Mapping[str, Job], *, whole_array: bool = False) -> Job | None:
    """The place's own row, by id and name: after a reset of the controller an id may be another
    job's. None where there is none.

    whole_array: that for all elements which were cancelled before they began: squeue shows it under
    the array's own id, and accounting none.
    """
    job = jobs.get((place.batch.job_id if whole_array else place.job_id) or "")
    return job if job is not None and job.name == place.batch.name else None


def _observe_stage(
    paths: RunPaths,
    record: StageRecord,
    history: History,
    place: Place | None,
    queue: Mapping[str, Job],
    accounts: Mapping[str, Job],
    *,
    done: bool,
) -> StageObservation:
    stage, name = StagePaths(paths.folder / record.name), record.name
    observation = StageObservation(
        record=record, done=done, attempts=history.attempts[name], place=place
    )
    if place is None:
        return observation
    queued = _row(place, queue)
    # The queue before accounting, which lags: a job that was requeued still has its old end there.
    job = queued or _row(place, accounts) or _row(place, queue, whole_array=True)
    observation = replace(observation, job=job, queued=queued is not None)
    if done:
        return observation
    notes = batch_notes(stage, history.tried[name])
    note = last_note(stage, place.job_id, place.batch.name)
    if place.job_id is not None and job is not None and job.state == "FAILED":
        # A job may fail before it can write a note: then its output has to say why.
        batch = paths.batch(place.batch.name)
        note = note or start_failure(batch, place.job_id)
        output = output_file(batch, place.job_id)
        if note is None or note.outcome is None:
            observation = replace(observation, last_output=last_output_line(output))
        if note is None or note.why is None:
            observation = replace(observation, out_of_memory=is_memory_kill(output))
    # A process may outlive its job, e.g. on a node that lost contact: it gets no second beside it.
    at_work = queued is None and is_locked(stage.lock)
    idle = no_progress(stage, notes)
    return replace(observation, note=note, at_work=at_work, starts=len(notes), idle=idle)


def in_queue(observed: Observed, decision: Decision) -> dict[str, Place]:
    """Where the stages stand that SLURM has or may have, which others can wait for."""
    places = {
        stage.record.name: stage.place for stage in observed.stages if stage.place is not None
    }
    return {name: p for name, p in places.items() if decision.standings[name].state == "active"}


def live_jobs(observed: Observed) -> list[Job]:
    """Jobs in the queue that are not ending."""
    return [job for job in observed.queue.values() if job.active and job.state != "COMPLETING"]


def confirmed(
    observations: Sequence[StageObservation], queue: Answer, call: Call
) -> list[StageObservation]:
    """With `doubt` where a job is not shown by squeue and yet may be there.

    Before a job can be called lost the controller is asked for it by another program.
    """
    ids_by_batch: dict[str, set[str] | str] = {}
    return [_doubted(stage, queue, ids_by_batch, call) for stage in observations]


def _doubted(
    observation: StageObservation,
    queue: Answer,
    ids_by_batch: dict[str, set[str] | str],
    call: Call,
) -> StageObservation:
    place = observation.place
    if observation.done or observation.queued or place is None or place.job_id is None:
        return observation
    if queue.nonsense is not None:
        return replace(observation, doubt="squeue's answer makes no sense")
    # What has written how it ended needs no controller to say that it is gone.
    ended = observation.note is not None and observation.note.outcome not in (None, "stopped")
    if ended or (observation.job is not None and not observation.job.active):
        return observation
    name = place.batch.name
    # One call a batch, not one an element: the controller serves the whole cluster.
    if name not in ids_by_batch:
        ids_by_batch[name] = _ids_at_controller(place.batch, call)
    shown = ids_by_batch[name]
    if isinstance(shown, str):
        return replace(observation, doubt=f"squeue does not show it and scontrol says: {shown}")
    if place.job_id in shown:
        return replace(observation, doubt="squeue does not show it, but scontrol does")
    return observation


def _ids_at_controller(batch: JobBatch, call: Call) -> set[str] | str:
    """Ids of the jobs or elements of a batch that the controller knows; its words where it gives no
    answer that makes sense."""
    assert batch.job_id is not None
    try:
        output = call(["scontrol", "show", "job", "-o", batch.job_id])
    except (ValueError, ConnectionError) as error:
        # an id that the controller does not know is an answer: no job of that batch is left
        return set() if scheduler.INVALID_ID in str(error) else str(error)
    lines = [line for line in output.splitlines() if line.strip()]
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    if not rows or not all({"JobId", "JobName", "JobState"} <= row.keys() for row in rows):
        return f"`scontrol` printed what makes no sense: {output[:80]!r}"
    ids: set[str] = set()
    for line, row in zip(lines, rows, strict=True):
        # a job under another name is told by its script, which lies in the folder of its batch
        in_folder = re.search(rf" Command=\S.*/{re.escape(batch.name)}/\w+\.sh ", line)
        if row["JobName"] != batch.name and in_folder is None:
            continue
        array = row.get("ArrayTaskId")
        spelled, is_complete = elements(f"{batch.job_id}_[{array}]" if array else row["JobId"])
        ids |= {*spelled} if is_complete else {batch.element(index) for index in range(batch.size)}
    return ids


def _reconcile_journal(
    paths: RunPaths, call: Call, *, now: float, warn: Callable[[str], None]
) -> Observed:
    """Observe, and first make up the books: of a driver that died between sbatch and its note, and
    of a journal that lost lines."""
    noted = submissions.read(paths.submissions)
    records = read_plan(paths).stages
    observed = observe(paths, records, call, warn=warn)
    history = observed.history
    lost: list[Job] = []
    if noted.damaged or not noted.batches:
        queued = recover.sweep_jobs(paths, history, call).values()
        lost = [job for job in queued if job.active and job.name not in history.batches]
    lost += [job for job in live_jobs(observed) if not history.batches[job.name].is_described]
    _cancel(lost, "of which nothing tells what they run", call, warn)
    void = [job for job in live_jobs(observed) if history.batches[job.name].void]
    _cancel(void, "that were given up before they came into the queue", call, warn)
    changed = False
    for batch in history.batches.values():
        written = noted.batches.get(batch.name)
        if batch.void or (
            written is not None and written.is_described and written.job_id is not None
        ):
            continue
        # a job comes into the queue some time after sbatch, and a garbled answer shows too little
        waits = now - batch.begun <= ORPHAN_SECONDS or not observed.is_readable
        if batch.job_id is None and waits:
            continue
        _backfill_journal(paths, batch, written, observed, call)
        changed = True
    if noted.damaged:
        submissions.append(paths.submissions, PassedOver(lines=tuple(noted.damaged)))
    return observe(paths, records, call, warn=warn) if changed else observed


def _cancel(jobs: Sequence[Job], why: str, call: Call, say: Callable[[str], None]) -> None:
    if jobs:
        scheduler.scancel(jobs, call)
        say(f"cancelled {counted(len(jobs), 'job')} {why}")


def _backfill_journal(
    paths: RunPaths, batch: JobBatch, written: JobBatch | None, observed: Observed, call: Call
) -> None:
    """Write what the journal should say of a batch; `written` is what it says."""
    if not batch.is_described:
        return _void(paths, batch, "nothing tells what it runs")
    if written is None or not written.is_described:
        intent = replace(batch.intent(observed.history.code), recovered=True)
        submissions.append(paths.submissions, intent)
    if written is not None and written.job_id is not None:
        return None
    if batch.job_id is None:
        _void(paths, batch, "never sent")
    # a job whose pickle is missing would fail at its start: it is kept only where all are there
    elif all(
        is_packed(paths.batch(batch.name), batch.element(index)) for index in range(batch.size)
    ):
        submitted = Submitted(batch=batch.name, job_id=batch.job_id, adopted=True)
        submissions.append(paths.submissions, submitted)
    else:
        scheduler.scancel([job for job in live_jobs(observed) if job.name == batch.name], call)
        _void(paths, batch, "its driver died before it had handed over what to run")
    return None


def _void(paths: RunPaths, batch: JobBatch, why: str) -> None:
    submissions.append(paths.submissions, Abandoned(batch=batch.name, why=why))


def tick(
    paths: RunPaths,
    *,
    say: Callable[[str], None],
    call: Call = scheduler.call,
    command: StageCommand = stage_command,
    clock: Callable[[], float] = time.time,
    renew: bool = False,
    config: str | None = None,
) -> Decision:
    """One reconciliation, under the driver's lock.

    renew: whether jobs that wait are sent again where the profile asks for something else now.
    config: of `controller_config`, where the controller was asked before; None asks it before
    anything is sent.

    Raises BlockingIOError where another driver is at work, ValueError with SLURM's own words where
    it refuses something, ConnectionError where it gives no answer.
    """
    profile = frozen_profile(paths)
    with driving(paths):  # two drivers would both send what neither has noted yet
        observed = _reconcile_journal(paths, call, now=clock(), warn=say)
        history = observed.history
        sender = Sender(
            paths=paths,
            profile=profile,
            code=Path(history.code or ""),
            records={stage.record.name: stage.record for stage in observed.stages},
            command=command,
        )
        observations = with_more_memory(observed.stages, sender, call)
        observations = with_stale_resources(observations, sender) if renew else observations
        decision = decide(
            observations, now=clock(), max_attempts=profile.max_attempts, held=history.held
        )
        if decision.submit:
            _prepare(paths, history)
        _tell_anew(observations, decision, say)
        _cancel([*decision.cancel, *_held_reports(observed)], "of no more use", call, say)
        _tell_exit_reasons(decision, say)
        if decision.submit:
            config = config or controller_config(call, say)
            _submit(sender, observed, decision, config, call, clock, say)
            say(f"submitted {counted(len(decision.submit), 'stage')}")
    return decision


def controller_config(call: Call, say: Callable[[str], None]) -> str:
    """What the controller says of itself, with a warning where its clock is not this machine's;
    raises as `call` does."""
    config = scheduler.show_config(call)
    for warning in scheduler.controllers_clock(config, time.time()):
        say(warning)
    return config


def _held_reports(observed: Observed) -> list[Job]:
    """Jobs of the report that would wait for ever once every stage is done, as whoever ends the
    sweep writes the report."""
    if not all(stage.done for stage in observed.stages):
        return []
    batches = observed.history.batches
    reports = [job for job in live_jobs(observed) if batches[job.name].kind == REPORT]
    return [job for job in reports if job.state == "PENDING" and "held" in job.reason.lower()]


def _tell_exit_reasons(decision: Decision, say: Callable[[str], None]) -> None:
    for record in decision.submit:
        standing = decision.standings[record.name]
        if standing.state == "again" and standing.exit_reason != STALE_RESOURCES:
            say(f"{record.name}: {standing.exit_reason}; submitted again")


def _tell_anew(
    observations: Sequence[StageObservation], decision: Decision, say: Callable[[str], None]
) -> None:
    changes = [
        stage.anew
        for stage in observations
        if decision.standings[stage.record.name].exit_reason == STALE_RESOURCES
    ]
    for change, count in Counter(changes).items():
        say(f"{counted(count, 'job')} that waited: sent again with {change}")


def _prepare(paths: RunPaths, history: History) -> None:
    """See that what is sent could run: with its own code, where something can still be written."""
    if history.code is None:
        raise ValueError(
            f"nothing tells with which code {paths.folder} was submitted: run it with `fgrpo-bench "
            f"sweep run {address(paths, full=True)} profile=slurm`"
        )
    check_room(paths.folder)
    wrong = damage(Path(history.code))
    if wrong:
        raise ValueError(
            f"the frozen code {history.code} is damaged ({describe_damaged_files(wrong)}): nothing "
            "was submitted, as jobs would run other code; "
            f"`fgrpo-bench sweep retry {address(paths)}` freezes the code as it is now and "
            "goes on with that"
        )


def _submit(
    sender: Sender,
    observed: Observed,
    decision: Decision,
    config: str,
    call: Call,
    clock: Callable[[], float],
    say: Callable[[str], None],
) -> None:
    paths, profile, history = sender.paths, sender.profile, observed.history
    # noted before sbatch: a driver killed in between has given an attempt too many, never too few
    if decision.uncount:
        submissions.append(paths.submissions, NotAnAttempt(stages=tuple(decision.uncount)))
    sendings = arrange(
        decision.submit,
        done={stage.record.name for stage in observed.stages if stage.done},
        places=in_queue(observed, decision),
        limit=profile.max_array_size or scheduler.max_array_size(config),
        at_once=profile.max_parallel,
        name=partial(recover.batch_name, paths),
        now=clock(),
        memory={r.name: decision.standings[r.name].memory for r in decision.submit},
    )
    for sending in sendings:
        sending.batch.cluster = scheduler.cluster_name(config)
    for warning in beyond(sendings, profile.max_parallel):
        say(warning)
    send(sender, sendings, call)
    # after the new one is sent: a driver killed in between leaves two reports to come, not none
    if any(sending.batch.kind == REPORT for sending in sendings):
        former = [job for job in live_jobs(observed) if history.batches[job.name].kind == REPORT]
        scheduler.scancel(former, call)


def frozen_profile(paths: RunPaths) -> SlurmProfile:
    """The profile that the sweep was last run with; ValueError where that was not SLURM."""
    declaration = read_sweep(paths).declaration
    profile = stored_profile(declaration, paths.sweep_json)
    if not isinstance(profile, SlurmProfile):
        raise ValueError(
            f"{paths.folder} was last run with profile={profile.name}, on one machine: "
            "`run` resumes it; run it with profile=slurm to submit it"
        )
    return profile


def is_pending(decision: Decision) -> bool:
    """Whether SLURM has, or will get, anything that is not done."""
    submitted = {record.name for record in decision.submit}
    return bool(submitted) or any(
        standing.state == "active" for standing in decision.standings.values()
    )


def failed(decision: Decision) -> dict[str, str]:
    """Exit reasons of the stages that were given up, by name."""
    return {
        name: standing.exit_reason
        for name, standing in decision.standings.items()
        if standing.state == "failed"
    }
