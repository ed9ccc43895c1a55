"""`tick`: bring a sweep on SLURM up to date. Stateless; safe to kill and to run again at any time.

It derives where every stage stands from files and the scheduler (sweeps.slurm.observe), adopts
what a dead driver left in the queue and what the journal lost, cancels what is of no more use, and
submits what is to be done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fgrpo_bench.runs import address
from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.specs.stored import stored_placement, stored_profile
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.locks import driving
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.stages.shapes import PLAN, PROFILE
from sweeps.commands import StageCommand, stage_command
from sweeps.slurm import answers, recover, scheduler, submissions
from sweeps.slurm.answers import Job
from sweeps.slurm.arrays import arrange, beyond
from sweeps.slurm.attempts import check_room
from sweeps.slurm.code import in_words, mend
from sweeps.slurm.decide import ANEW, Decision, StageObservation, decide
from sweeps.slurm.observe import Observed, in_queue, left, observe
from sweeps.slurm.packing import is_packed
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import REPORT, Batch, History
from sweeps.slurm.submit import Sender, asked_anew, send
from sweeps.text import counted

ORPHAN_SECONDS = 90.0
"""How old an intent must be before its absence from the queue means that it was never sent: an
sbatch may outlive its driver."""


def reconcile_journal(
    paths: RunPaths, call: Call, *, now: float, warn: Callable[[str], None]
) -> Observed:
    """Observe, and first make up the books: of a driver that died between sbatch and its note, and
    of a journal that lost lines."""
    noted = submissions.read(paths.submissions)
    records = read_json(paths.plan, PLAN)["stages"]
    observed = observe(paths, records, call, warn=warn)
    history = observed.history
    lost = recover.orphan_jobs(paths, history, call) if noted.damaged or not noted.batches else []
    lost += [job for job in left(observed) if not history.batches[job.name].known]
    _cancel(lost, "of which nothing tells what they run", call, warn)
    void = [job for job in left(observed) if history.batches[job.name].void]
    _cancel(void, "that were given up before they came into the queue", call, warn)
    changed = False
    for batch in history.batches.values():
        written = noted.batches.get(batch.name)
        if batch.void or (written is not None and written.known and written.job_id is not None):
            continue
        waits = now - batch.begun <= ORPHAN_SECONDS or not observed.is_readable
        if batch.job_id is None and waits:
            continue
        _backfill_journal(paths, batch, written, observed, call)
        changed = True
    if noted.damaged:
        submissions.append(paths.submissions, "passed_over", lines=noted.damaged)
    return observe(paths, records, call, warn=warn) if changed else observed


def _cancel(jobs: Sequence[Job], why: str, call: Call, say: Callable[[str], None]) -> None:
    if jobs:
        scheduler.scancel(jobs, call)
        say(f"cancelled {counted(len(jobs), 'job')} {why}")


def _backfill_journal(
    paths: RunPaths, batch: Batch, written: Batch | None, observed: Observed, call: Call
) -> None:
    """Write what the journal should say of a batch; `written` is what it says."""
    if not batch.known:
        return _void(paths, batch, "nothing tells what it runs")
    if written is None or not written.known:
        facts = batch.intent(observed.history.code) | {"recovered": True}
        submissions.append(paths.submissions, "intent", **facts)
    if written is not None and written.job_id is not None:
        return None
    if batch.job_id is None:
        _void(paths, batch, "never sent")
    elif all(
        is_packed(paths.batch(batch.name), batch.element(index)) for index in range(batch.size)
    ):
        facts = {"batch": batch.name, "job_id": batch.job_id, "adopted": True}
        submissions.append(paths.submissions, "submitted", **facts)
    else:
        scheduler.scancel([job for job in left(observed) if job.name == batch.name], call)
        _void(paths, batch, "its driver died before it had handed over what to run")
    return None


def _void(paths: RunPaths, batch: Batch, why: str) -> None:
    submissions.append(paths.submissions, "void", batch=batch.name, why=why)


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
    config: of `asked_config`, where the controller was asked before; None asks it before anything
    is sent.

    Raises BlockingIOError where another driver is at work, ValueError with SLURM's own words where
    it refuses something, ConnectionError where it gives no answer.
    """
    profile = frozen_profile(paths)
    with driving(paths):
        observed = reconcile_journal(paths, call, now=clock(), warn=say)
        history = observed.history
        sender = Sender(
            paths=paths,
            profile=profile,
            code=Path(history.code or ""),
            records={seen.record["name"]: seen.record for seen in observed.seen},
            command=command,
            placement=stored_placement(_declaration(paths)),
        )
        seen = asked_anew(observed.seen, sender) if renew else observed.seen
        decision = decide(seen, now=clock(), max_attempts=profile.max_attempts, held=history.held)
        if decision.submit:
            _prepare(paths, history, say)
        _tell_anew(seen, decision, say)
        _cancel([*decision.cancel, *_held_reports(observed)], "of no more use", call, say)
        _tell_exit_reasons(decision, say)
        if decision.submit:
            config = config or asked_config(call, say)
            _submit(sender, observed, decision, config, call, clock, say)
            say(f"submitted {counted(len(decision.submit), 'stage')}")
    return decision


def asked_config(call: Call, say: Callable[[str], None]) -> str:
    """What the controller says of itself, with a warning where its clock is not this machine's;
    raises as `call` does."""
    config = scheduler.show_config(call)
    for warning in answers.controllers_clock(config, time.time()):
        say(warning)
    return config


def _held_reports(observed: Observed) -> list[Job]:
    """Jobs of the report that would wait for ever once every stage is done, as whoever ends the
    sweep writes the report."""
    if not all(seen.done for seen in observed.seen):
        return []
    batches = observed.history.batches
    reports = [job for job in left(observed) if batches[job.name].kind == REPORT]
    return [job for job in reports if job.state == "PENDING" and "held" in job.reason.lower()]


def _tell_exit_reasons(decision: Decision, say: Callable[[str], None]) -> None:
    for record in decision.submit:
        standing = decision.standings[record["name"]]
        if standing.state == "again" and standing.exit_reason != ANEW:
            say(f"{record['name']}: {standing.exit_reason}; submitted again")


def _tell_anew(
    seen: Sequence[StageObservation], decision: Decision, say: Callable[[str], None]
) -> None:
    again = [
        stage.anew for stage in seen if decision.standings[stage.record["name"]].exit_reason == ANEW
    ]
    for change, count in Counter(again).items():
        say(f"{counted(count, 'job')} that waited: sent again with {change}")


def _prepare(paths: RunPaths, history: History, say: Callable[[str], None]) -> None:
    """See that what is sent could run: with its own code, where something can still be written."""
    if history.code is None:
        raise ValueError(
            f"nothing tells with which code {paths.folder} was submitted: run it with `python -m "
            f"sweeps run {address(paths, full=True)} profile=slurm`"
        )
    check_room(paths.folder)
    wrong = mend(Path(history.code))
    if wrong:
        say(f"the frozen code was damaged ({in_words(wrong)}): it was made again as it was")


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
    if decision.uncount:
        submissions.append(paths.submissions, "uncount", stages=list(decision.uncount))
    sendings = arrange(
        decision.submit,
        done={seen.record["name"] for seen in observed.seen if seen.done},
        places=in_queue(observed, decision),
        limit=profile.max_array_size or scheduler.max_array_size(config),
        at_once=profile.max_parallel,
        name=partial(recover.batch_name, paths),
        now=clock(),
    )
    for sending in sendings:
        sending.batch.cluster = scheduler.cluster_name(config)
    for warning in beyond(sendings, profile.max_parallel):
        say(warning)
    send(sender, sendings, call)
    if any(sending.batch.kind == REPORT for sending in sendings):
        former = [job for job in left(observed) if history.batches[job.name].kind == REPORT]
        scheduler.scancel(former, call)


def frozen_profile(paths: RunPaths) -> SlurmProfile:
    """The profile that the sweep was last run with; ValueError where that was not SLURM."""
    profile = stored_profile(_declaration(paths), paths.sweep_json)
    if not isinstance(profile, SlurmProfile):
        raise ValueError(
            f"{paths.folder} was last run with profile={profile.name}, on one machine: "
            "`run` goes on with it; run it with profile=slurm to submit it"
        )
    return profile


def _declaration(paths: RunPaths) -> dict[str, Any]:
    declaration: dict[str, Any] = read_json(paths.sweep_json, PROFILE)["declaration"]
    return declaration


def is_pending(decision: Decision) -> bool:
    """Whether SLURM has, or will get, anything that is not done."""
    submitted = {record["name"] for record in decision.submit}
    return bool(submitted) or any(each.state == "active" for each in decision.standings.values())


def failed(decision: Decision) -> dict[str, str]:
    """Exit reasons of the stages that were given up, by name."""
    return {
        name: each.exit_reason
        for name, each in decision.standings.items()
        if each.state == "failed"
    }
