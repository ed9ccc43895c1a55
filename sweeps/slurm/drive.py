"""The commands on SLURM: `run` submits and returns, `follow` watches; retry, cancel, status.

In: a declaration, or a run's folder. Out: exit codes and words; refusals are raised. `run` shows
with --dry-run what it would send; `status` sets the files' word on progress beside the scheduler's
on jobs. Next: sweeps.slurm.tick, one look at everything; sweeps.slurm.decide, the rules.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench.command.runs import address
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import FULL, readable_record
from fgrpo_bench.specs import Declaration, SlurmProfile
from fgrpo_bench.stages.locks import describe_holder, driving
from fgrpo_bench.stages.plan import PlanRecord, read_plan
from fgrpo_bench.stages.watch import NUMBERS, shown
from sweeps import reporting, status
from sweeps.commands import StageCommand, check_installed, stage_command
from sweeps.freeze import check_conflicts, check_writable, freeze, plan_over
from sweeps.local.drive import fetch_files
from sweeps.plan import Plan, plan_record
from sweeps.reporting import LiveSync
from sweeps.slurm import preflight, recover, scheduler, submissions
from sweeps.slurm.code import code_folder, damage, freeze_code
from sweeps.slurm.decide import Decision, StageObservation, decide, decide_stage, remedy
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import Allow, Cancelled, Event, Hold, Synced, arrange, is_job
from sweeps.slurm.submit import Sender, with_more_memory
from sweeps.slurm.tick import (
    controller_config,
    failed,
    frozen_profile,
    in_queue,
    is_pending,
    observe,
    tick,
)
from sweeps.text import counted, echo, error_message, short_path

UNWRITABLE = (*FULL, errno.EROFS, errno.ESTALE, errno.EIO)
"""What is said where a disk or a file server takes no more for a while."""
CANCEL_SECONDS = 60.0
"""How long `cancel` waits for a driver at work."""
SLURM_DEFAULT_ARRAY = 1001
"""MaxArraySize where a site sets none; for a dry run where there is no SLURM to ask."""
FOR_READING = (
    "# For reading: sent by hand it fails, because `run` also hands over what the jobs do and\n"
    "# makes their folders; names of batches and ids of jobs are numbered here."
)
"""Follows the first line of each file of a dry run."""
Say = Callable[[str], None]


def run(
    declaration: Declaration,
    *,
    say: Say = echo,
    call: Call = scheduler.call,
    command: StageCommand = stage_command,
) -> int:
    """Freeze a sweep and its code, fetch its files, submit what is not done, and return; exit code
    0, or 128 + signal where it was stopped while it fetched.

    What had been given up or cancelled is tried again. Raises as `sweeps.local.drive.run`, `tick`
    and `preflight.check` do.
    """
    absent = scheduler.missing("sbatch")
    if absent is not None:
        raise ValueError(absent)
    config = controller_config(call, say)  # before anything that takes long: does a cluster answer?
    plan, paths = plan_over(declaration)
    records = plan_record(plan).stages
    check_installed(declaration, {stage.environment for stage in plan.stages}, say)
    _check_before(plan, paths, recover.undone(paths, records), command, call, say)
    warnings = [*plan.warnings, *preflight.short_graces(plan, call)]
    check_writable(paths)
    with driving(paths):
        check_conflicts(paths, plan)
        recover.history_and_queue(paths, records, call)
        freeze(paths, plan, nothing_to_run=False)
        exit_code = fetch_files(plan, paths, command)
        if exit_code:
            return exit_code
        code = freeze_code(paths.code)
        submissions.append(paths.submissions, Allow(stages=None, code=str(code)))
    say(f"{plan.declaration.sweep.name}: {plan.declaration.sweep.question}")
    say(f"folder {short_path(paths.folder)}")
    say(f"code frozen in {short_path(code)}")
    for note in scheduler.ignored(os.environ):
        say(note)
    for warning in warnings:
        say(f"warning: {warning}")
    decision = tick(paths, say=say, call=call, command=command, renew=True, config=config)
    for line in stuck(decision):
        say(line)
    done = sum(standing.state == "done" for standing in decision.standings.values())
    say(
        f"{done} of {counted(len(decision.standings), 'stage')} done; the rest is SLURM's: "
        f"`fgrpo-bench sweep status {address(paths)}` shows it, `fgrpo-bench sweep follow "
        f"{address(paths)}` watches it and mends what breaks"
    )
    return 0


def _check_before(
    plan: Plan,
    paths: RunPaths,
    undone: Collection[str],
    command: StageCommand,
    call: Call,
    say: Say,
) -> None:
    """Ask SLURM whether it would take what is not done, before anything is written."""
    remaining = Counter(stage.kind for stage in plan.stages if stage.name in undone)
    if not remaining:
        return
    profile = plan.declaration.profile
    assert isinstance(profile, SlurmProfile)
    sender = Sender(paths=paths, profile=profile, code=paths.code, records={}, command=command)
    elements = min(max(remaining.values()), profile.max_array_size or 1)
    preflight.check(sender, elements=elements, call=call, say=say)


def update(paths: RunPaths, *, say: Say = echo, call: Call = scheduler.call) -> Decision:
    """One tick, then what follows from it: MLflow after every change, the report at the end."""
    decision = tick(paths, say=say, call=call)
    done = sum(standing.state == "done" for standing in decision.standings.values())
    # a sync and a report take seconds, so only where more is done than at the last one
    if done > submissions.read(paths.submissions).synced:
        if done == len(decision.standings):
            reporting.finish(paths, say)
        else:
            reporting.sync(paths, say)
        submissions.append(paths.submissions, Synced(done=done))
    return decision


def follow(paths: RunPaths, *, seconds: float, say: Say = echo, call: Call = scheduler.call) -> int:
    """Tick until nothing is left in SLURM's hands, whatever gives no answer meanwhile; 0 where all
    is done, else 1. MLflow gets what runs have trained so far.

    seconds: between ticks. Ending it stops no job.
    """
    before: list[str] = []
    once = _warn_once(say)
    live = LiveSync(paths, once)
    while True:
        try:
            decision = update(paths, say=once, call=call)
            now = [
                standing_now(decision),
                *stuck(decision),
                *_saved_now(paths, decision),
            ]
        except OSError as error:
            # another driver at work, a controller that is away or a full disk pass by waiting
            passes = isinstance(error, BlockingIOError | ConnectionError)
            if not (passes or error.errno in UNWRITABLE):
                raise
            decision, now = None, [error_message(error)]
        for line in now:
            if line not in before:
                say(line)
        before = now
        if decision is not None and not is_pending(decision):
            if {standing.state for standing in decision.standings.values()} == {"done"}:
                return 0
            for name, exit_reason in failed(decision).items():
                say(f"{name}: {exit_reason}")
            live.look(last=True)
            return 1
        live.look()
        time.sleep(seconds)


def retry(
    paths: RunPaths, point_id: str | None, *, say: Say = echo, call: Call = scheduler.call
) -> int:
    """Try again what was given up, of one point or of all, with the code as it was frozen, or
    where that is damaged, as it is now."""
    records = read_plan(paths).stages
    point_ids = sorted({record.point_id for record in records})
    if point_id is not None and point_id not in point_ids:
        near = suggestion(point_id, point_ids)
        raise ValueError(f"unknown point {point_id!r}{near}: there are {', '.join(point_ids)}")
    point_records = [r for r in records if point_id in (None, r.point_id)]
    # with what they need, such as a warm-up that was given up too
    names = dict.fromkeys(n for r in point_records for n in [r.name, *r.needs])
    decision = resubmit(paths, list(names), say=say, call=call)
    if not decision.submit:
        standings = {record.name: decision.standings[record.name] for record in point_records}
        standing = standing_now(replace(decision, standings=standings))
        say(f"{point_id or paths.sweep}: {standing}; nothing to retry")
    return 0


def resubmit(
    paths: RunPaths, stages: Sequence[str], *, say: Say = echo, call: Call = scheduler.call
) -> Decision:
    """Submit stages that are not done, whatever became of them before; with the code as `retry`."""
    with driving(paths):
        recover.history_and_queue(paths, read_plan(paths).stages, call)
        code = submissions.read(paths.submissions).code
        if code is not None and damage(Path(code)):
            code = str(freeze_code(paths.code))
            say(f"the frozen code was damaged: it is frozen anew in {short_path(Path(code))}")
        submissions.append(paths.submissions, Allow(stages=tuple(stages), code=code))
    return tick(paths, say=say, call=call)


def cancel(paths: RunPaths, *, say: Say = echo, call: Call = scheduler.call) -> int:
    """Cancel every job of the sweep; running stages save first. Nothing more is submitted until
    `run` or `retry`.

    Raises BlockingIOError where a driver is at work for longer than CANCEL_SECONDS, ValueError
    where another cluster has the jobs, and OSError, once they are cancelled, where that cannot be
    noted.
    """
    unnoted: OSError | None = None
    with ExitStack() as lock:
        try:
            lock.enter_context(driving(paths, _patience(paths)))
        except OSError as error:  # even where nothing can be written, jobs can be cancelled
            if error.errno not in UNWRITABLE:
                raise
            unnoted = error
        plan = readable_record(paths.plan, PlanRecord)
        records = () if plan is None else plan.stages
        history, _ = recover.history_and_queue(paths, records, call, say)
        unnoted = unnoted or _note(paths, Hold())
        queue = recover.sweep_jobs(paths, history, call)
        for warning in scheduler.nonsense("squeue", queue):
            say(f"{warning}; jobs that it did not show may be left: give `cancel` again")
        active = [job for job in queue.values() if job.active]
        scheduler.scancel(active, call)
        if queue.nonsense is None:
            unnoted = unnoted or _note(paths, Cancelled())
    say(f"cancelled {counted(len(active), 'job')}; `run` or `retry` resumes them where they saved")
    if unnoted is not None:
        raise OSError(
            unnoted.errno,
            f"that they were cancelled cannot be noted ({error_message(unnoted)}): end a `follow` "
            "or `tick` that still runs, which would send them again once it can write, or give "
            "`cancel` again then",
        )
    return 0


def _patience(paths: RunPaths) -> Callable[[], None]:
    deadline = time.monotonic() + CANCEL_SECONDS

    def wait() -> None:
        if time.monotonic() > deadline:
            raise BlockingIOError(
                f"{describe_holder(paths.driver_lock)} still has the sweep in hand, so nothing was "
                "cancelled: stop that process (Ctrl-C), then `cancel` again"
            )

    return wait


def _note(paths: RunPaths, event: Event) -> OSError | None:
    """Why it could not be noted; None where it was."""
    try:
        submissions.append(paths.submissions, event)
    except OSError as error:
        return error
    return None


def largest_array(
    declaration: Declaration, *, say: Callable[[str], None] = echo, call: Call = scheduler.call
) -> int:
    """Most elements of an array: the profile's word, or else the site's. Where no SLURM answers,
    that is said, and SLURM's own default stands in: a dry run needs no cluster."""
    profile = declaration.profile
    assert isinstance(profile, SlurmProfile)
    try:
        site = scheduler.max_array_size(scheduler.show_config(call))
    except (ValueError, ConnectionError) as error:
        say(f"note: no cluster was asked about what follows, and `run` needs one: {error}\n")
        site = SLURM_DEFAULT_ARRAY
    return profile.max_array_size or site


def dry_run(plan: Plan, paths: RunPaths, *, limit: int, call: Call = scheduler.call) -> list[str]:
    """The sbatch file of every batch that `run` would send, in order; writes and sends nothing.

    Each says that it is for reading: sbatch alone hands over nothing for the jobs to do.

    Names of batches are unique only when they are sent, and job ids are SLURM's: here both are
    numbered. What `run` would fetch before it sends anything counts as done. limit: most elements
    of an array.
    """
    profile = plan.declaration.profile
    assert isinstance(profile, SlurmProfile)
    records = plan_record(plan).stages
    observed = observe(paths, records, call, warn=echo)
    # Downloads run on this machine before anything is sent, so that no job waits for them.
    observations = [replace(s, done=s.done or not is_job(s.record.kind)) for s in observed.stages]
    decision = decide(observations, now=time.time(), max_attempts=profile.max_attempts)
    numbers: dict[str, int] = {}

    def name(kind: str) -> str:
        numbers[kind] = numbers.get(kind, 0) + 1
        return f"{paths.sweep}-{kind}-{numbers[kind]}"

    sendings = arrange(
        decision.submit,
        done={observed.record.name for observed in observations if observed.done},
        places=in_queue(observed, decision),
        limit=limit,
        at_once=profile.max_parallel,
        name=name,
        now=time.time(),
    )
    by_name = {record.name: record for record in records}
    code = code_folder(paths.code)
    sender = Sender(paths=paths, profile=profile, code=code, records=by_name)
    texts = []
    for sending in sendings:
        sending.batch.job_id = f"JOB-OF-{sending.batch.name}"
        # The first line has to stay the first: sbatch looks for the interpreter there.
        texts.append(sender.text(sending).replace("\n", f"\n{FOR_READING}\n", 1))
    return texts


AT_REST = ("done", "waiting", "ended")
"""States of a stage that SLURM has no job of."""


def standing_now(decision: Decision) -> str:
    """e.g. `3 active (Dependency 2), 1 done`: states, and in SLURM's words why jobs wait."""
    standings = decision.standings.values()
    waits = Counter(
        standing.exit_reason
        for standing in standings
        if standing.state == "active" and standing.exit_reason
    )
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(waits.items()))
    states = Counter(standing.state for standing in standings)
    return ", ".join(
        f"{count} {state}" + (f" ({why})" if state == "active" and why else "")
        for state, count in sorted(states.items())
    )


def stuck(decision: Decision) -> list[str]:
    """A line for each reason that no waiting ends, with what can be done about it."""
    held: dict[tuple[str, bool], list[str]] = {}
    for name, standing in decision.standings.items():
        is_done = standing.state == "done"
        if (is_done or standing.state == "active") and remedy(standing.exit_reason) is not None:
            held.setdefault((standing.exit_reason, is_done), []).append(name)
    lines = []
    for (reason, is_done), names in held.items():
        stages = f"{counted(len(names), 'stage')} ({names[0]}{', ...' if len(names) > 1 else ''})"
        # a job with nothing left to do has to begin and end all the same for those that wait for it
        what = ": done, but what waits for the job will not begin" if is_done else " will not begin"
        lines.append(f"{stages}{what} by waiting, as SLURM says {reason}: {remedy(reason)}")
    return lines


def _saved_now(paths: RunPaths, decision: Decision) -> list[str]:
    """What draws that stop have saved so far, as of sweeps.status.saved_lines."""
    done = {name for name, standing in decision.standings.items() if standing.state == "done"}
    if not done:
        return []
    records = read_plan(paths).stages
    return status.saved_lines(status.saved_draws(paths, records, done))


def _warn_once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Say a warning once, whatever its numbers are the next time."""
    warned: set[str] = set()

    def once(text: str) -> None:
        kind = re.sub(r"\d+", "", text)
        if kind not in warned or not text.startswith("warning: "):
            say(text)
        warned.add(kind)

    return once


def report(
    paths: RunPaths, *, warn: Callable[[str], None], call: Call = scheduler.call
) -> dict[str, Any]:
    """What `sweeps.status.report` gives, with job_id, node, elapsed and reason at every stage and
    its state by the scheduler's word; where SLURM cannot be asked, the files' word with a warning.
    """
    answer = status.report(paths)
    profile = frozen_profile(paths)
    records = read_plan(paths).stages
    by_name = {record.name: record for record in records}
    sender = Sender(paths=paths, profile=profile, code=paths.code, records=by_name)
    try:
        observations = observe(paths, records, call, warn=warn).stages
        observed_by_name = {s.record.name: s for s in with_more_memory(observations, sender, call)}
    except (ValueError, ConnectionError) as error:
        warn(f"warning: SLURM was not asked, so this is what the files tell: {error}")
        observed_by_name = {}
    for point in answer["points"]:
        for stage in point["stages"]:
            observed = observed_by_name.get(stage["name"])
            slurm_fields = {} if observed is None else _slurm_fields(observed, profile.max_attempts)
            if stage["state"] == status.DAMAGED and slurm_fields.get("state") in AT_REST:
                slurm_fields |= {"state": status.DAMAGED, "reason": stage["why"]}
            stage |= slurm_fields
    stages = [stage for point in answer["points"] for stage in point["stages"]]
    return answer | {"stages": dict(Counter(stage["state"] for stage in stages))}


def _slurm_fields(observation: StageObservation, max_attempts: int) -> dict[str, Any]:
    standing = decide_stage(observation, now=time.time(), max_attempts=max_attempts)
    if not is_job(observation.record.kind):  # no job: its files tell how it stands
        return {"reason": standing.exit_reason}
    job, place = observation.job, observation.place
    state: str = standing.state
    if state == "active":
        at_work = observation.at_work or _begun(observation)
        unseen = "running" if at_work else "pending"
        state = job.state.lower() if job is not None and observation.queued else unseen
    return {
        "state": {"new": "waiting", "again": "ended"}.get(state, state),
        "attempts": max(observation.attempts, observation.starts),
        "job_id": place.job_id if place is not None else None,
        "node": (job.node if job is not None else "")
        or ("" if observation.note is None else observation.note.node or ""),
        "elapsed": job.elapsed if job is not None else "",
        "reason": standing.exit_reason,
    }


def _begun(observation: StageObservation) -> bool:
    """Whether its job noted that it began, and nothing says that it ended."""
    ended = observation.job is not None and not observation.job.active
    return observation.note is not None and observation.note.outcome is None and not ended


def _title(stage: Mapping[str, Any], point_stages: Sequence[Mapping[str, Any]]) -> str:
    """e.g. `train`; where several checkpoints are evaluated, e.g. `evaluate step-00300`."""
    kind: str = stage["kind"]
    alone = sum(other["kind"] == kind for other in point_stages) == 1
    return kind if alone else f"{kind} {stage['name'].rpartition('/')[2]}"


def render(answer: Mapping[str, Any], width: int | None = None) -> str:
    """A row a stage that is at work, waits for a reason or failed; a count of the others. width:
    as of sweeps.status.fitted."""
    columns = status.number_columns(s for point in answer["points"] for s in point["stages"])
    titles = [NUMBERS[name].column for name in columns]
    header = ["point", "stage", "state", "job", "node", "elapsed", "attempts", "step"]
    rows = [[*header, *titles, "why"]]
    for point in answer["points"]:
        for stage in point["stages"]:
            row = _job_cells(stage, _title(stage, point["stages"]))
            numbers = [shown(name, stage["numbers"]) for name in columns]
            rows.append([point["point_id"], *row, *numbers, stage.get("reason") or ""])
    # the columns that go first where the terminal is narrow; the reward, the first number, stays
    optional = ["node", "elapsed", *titles[1:]]
    return status.framed(answer, status.fitted(rows, optional, width))


def _job_cells(stage: Mapping[str, Any], title: str) -> list[str]:
    """Stage, state, job, node, elapsed, attempts and step; empty where there is none."""
    step = f"{stage['step']}/{stage['of']}" if stage.get("of") else ""
    job = [stage.get(key) or "" for key in ("job_id", "node", "elapsed")]
    return [title, stage["state"], *job, str(stage["attempts"] or ""), step]
