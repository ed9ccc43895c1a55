"""The commands on SLURM: `run` submits and returns, `follow` watches; retry, cancel, dry run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from fgrpo_bench.specs import Declaration, SlurmProfile
from fgrpo_bench.stages.files import FULL, read_json
from fgrpo_bench.stages.locks import driving
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.shapes import PLAN
from sweeps import reporting
from sweeps.commands import StageCommand, check_installed, stage_command
from sweeps.conflicts import check_conflicts
from sweeps.freeze import check_writable, freeze, plan_over
from sweeps.local.drive import fetch_files
from sweeps.plan import Plan, plan_record
from sweeps.reporting import LiveSync
from sweeps.slurm import answers, preflight, recover, scheduler, status, submissions
from sweeps.slurm.arrays import arrange, is_job
from sweeps.slurm.code import code_folder, freeze_code
from sweeps.slurm.decide import Decision, decide
from sweeps.slurm.observe import in_queue, observe
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submit import Sender
from sweeps.slurm.tick import failed, in_hand, tick
from sweeps.text import counted, echo, shown

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
    plan, paths = plan_over(declaration)
    check_installed(declaration, {stage.environment for stage in plan.stages}, say)
    _check_before(plan, paths, command, call, say)
    warnings = [*plan.warnings, *preflight.short_graces(plan, call)]
    check_writable(paths)
    with driving(paths):
        check_conflicts(paths, plan)
        freeze(paths, plan, nothing_to_run=False)
        exit_code = fetch_files(plan, paths, command)
        if exit_code:
            return exit_code
        code = freeze_code(paths.code)
        submissions.append(paths.submissions, "allow", stages=None, code=str(code))
    say(f"{plan.declaration.sweep.name}: {plan.declaration.sweep.question}")
    say(f"folder {shown(paths.folder)}")
    say(f"code frozen in {shown(code)}")
    for warning in warnings:
        say(f"warning: {warning}")
    decision = tick(paths, say=say, call=call, command=command, renew=True)
    for line in status.stuck(decision):
        say(line)
    done = sum(each.state == "done" for each in decision.standings.values())
    say(
        f"{done} of {counted(len(decision.standings), 'stage')} done; the rest is SLURM's: "
        f"`python -m sweeps status {paths.sweep}` shows it, `python -m sweeps follow "
        f"{paths.sweep}` watches it and mends what breaks"
    )
    return 0


def _check_before(plan: Plan, paths: RunPaths, command: StageCommand, call: Call, say: Say) -> None:
    """Ask SLURM whether it would take what is not done, before anything is written."""
    left = Counter(
        stage.kind
        for stage in plan.stages
        if not is_done(
            StagePaths(paths.folder / stage.name),
            fingerprint=stage.fingerprint,
            target=stage.target,
        )
    )
    if not left:
        return
    profile = _profile(plan)
    sender = Sender(paths=paths, profile=profile, code=paths.code, records={}, command=command)
    elements = min(max(left.values()), profile.max_array_size or 1)
    preflight.check(sender, elements=elements, call=call, say=say)


def _profile(plan: Plan) -> SlurmProfile:
    assert isinstance(plan.declaration.profile, SlurmProfile)
    return plan.declaration.profile


def update(paths: RunPaths, *, say: Say = echo, call: Call = scheduler.call) -> Decision:
    """One tick, then what follows from it: MLflow after every change, the report at the end."""
    decision = tick(paths, say=say, call=call)
    done = sum(each.state == "done" for each in decision.standings.values())
    if done > submissions.read(paths.submissions).synced:
        if done == len(decision.standings):
            reporting.finish(paths, say)
        else:
            reporting.sync(paths, say)
        submissions.append(paths.submissions, "synced", done=done)
    return decision


def follow(paths: RunPaths, *, seconds: float, say: Say = echo, call: Call = scheduler.call) -> int:
    """Tick until nothing is left in SLURM's hands, whatever gives no answer meanwhile; 0 where all
    is done, else 1. MLflow gets what runs have trained so far.

    seconds: between ticks. Ending it stops no job.
    """
    before: list[str] = []
    once = status.warn_once(say)
    live = LiveSync(paths, once)
    while True:
        try:
            decision = update(paths, say=once, call=call)
            now = [
                status.standing_now(decision),
                *status.stuck(decision),
                *status.saved_now(paths, decision),
            ]
        except OSError as error:
            if not (isinstance(error, BlockingIOError | ConnectionError) or error.errno in FULL):
                raise
            decision, now = None, [error.strerror or str(error)]
        for line in now:
            if line not in before:
                say(line)
        before = now
        if decision is not None and not in_hand(decision):
            if {each.state for each in decision.standings.values()} == {"done"}:
                return 0
            for name, fate in failed(decision).items():
                say(f"{name}: {fate}")
            live.look(last=True)
            return 1
        live.look()
        time.sleep(seconds)


def retry(paths: RunPaths, point_id: str | None, *, say: Say = echo) -> int:
    """Try again what was given up, of one point or of all, with the code as it was frozen."""
    records = read_json(paths.plan, PLAN)["stages"]
    known = sorted({record["point_id"] for record in records})
    if point_id is not None and point_id not in known:
        raise ValueError(f"unknown point {point_id!r}: there are {', '.join(known)}")
    of_point = [r for r in records if point_id in (None, r["point_id"])]
    again(
        paths, list(dict.fromkeys(n for r in of_point for n in [r["name"], *r["needs"]])), say=say
    )
    return 0


def again(paths: RunPaths, stages: Sequence[str], *, say: Say = echo) -> None:
    """Submit stages that are not done, whatever became of them before, with the code as it was
    frozen."""
    with driving(paths):
        code = submissions.read(paths.submissions).code
        submissions.append(paths.submissions, "allow", stages=list(stages), code=code)
    tick(paths, say=say)


def cancel(paths: RunPaths, *, say: Say = echo, call: Call = scheduler.call) -> int:
    """Cancel every job of the sweep; running stages save first. Nothing more is submitted until
    `run` or `retry`."""
    with driving(paths):
        try:
            submissions.append(paths.submissions, "hold")
        finally:  # even where nothing can be written, jobs can be cancelled
            history = recover.history(paths, say)
            queue = scheduler.squeue(history.batches, call)
            for warning in answers.nonsense("squeue", queue):
                say(f"{warning}; jobs that it did not show may be left: give `cancel` again")
            active = [job for job in queue.values() if job.active]
            active += recover.strays(paths, history, call)
            scheduler.scancel(active, call)
    say(f"cancelled {counted(len(active), 'job')}; `run` or `retry` goes on where they saved")
    return 0


def dry_run(plan: Plan, paths: RunPaths, *, call: Call = scheduler.call) -> list[str]:
    """The sbatch file of every batch that `run` would send, in order; writes and sends nothing.

    Each says that it is for reading: sbatch alone hands over nothing for the jobs to do.

    Names of batches are unique only when they are sent, and job ids are SLURM's: here both are
    numbered. What `run` would fetch before it sends anything counts as done.
    """
    profile = _profile(plan)
    records = plan_record(plan)["stages"]
    observed = observe(paths, records, call, warn=echo)
    seen = [replace(s, done=s.done or not is_job(s.record["kind"])) for s in observed.seen]
    decision = decide(seen, now=time.time(), max_attempts=profile.max_attempts)
    numbers: dict[str, int] = {}

    def name(kind: str) -> str:
        numbers[kind] = numbers.get(kind, 0) + 1
        return f"{paths.sweep}-{kind}-{numbers[kind]}"

    sendings = arrange(
        decision.submit,
        done={each.record["name"] for each in seen if each.done},
        places=in_queue(observed, decision),
        limit=profile.max_array_size or _limit(call),
        at_once=profile.max_parallel,
        name=name,
        now=time.time(),
    )
    by_name = {record["name"]: record for record in records}
    code = code_folder(paths.code)
    sender = Sender(paths=paths, profile=profile, code=code, records=by_name)
    texts = []
    for sending in sendings:
        sending.batch.job_id = f"JOB-OF-{sending.batch.name}"
        texts.append(sender.text(sending).replace("\n", f"\n{FOR_READING}\n", 1))
    return texts


def _limit(call: Call) -> int:
    missing = scheduler.missing("scontrol")
    if missing is not None:
        return SLURM_DEFAULT_ARRAY
    return scheduler.max_array_size(scheduler.show_config(call))
