"""What became of each stage, and what to do about it: pure functions of what was observed.

In: a StageObservation of each stage. Out: a Decision: what to submit, to cancel and to tell. The
truth comes in this order: the completion marker, squeue, sacct, what the job itself noted, the
submissions. A stage is submitted again only where nothing of it can still run. Why a job waits is
read from SLURM's reasons: those that 22.05 knows, and those that its source has since (as far as
MpiPortsBusy in job_state_reason.c). Next: sweeps.slurm.tick, which observes and does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from fgrpo_bench.stages.attempts import Note
from fgrpo_bench.stages.plan import StageRecord
from sweeps.slurm.attempts import IDLE_ATTEMPTS, UNREADY
from sweeps.slurm.scheduler import FAILURES, Job
from sweeps.slurm.submissions import Place, is_job

NEVER = {
    "DependencyNeverSatisfied": "its input failed",
    "launch failed requeued held": "SLURM could not launch it and holds it",
    "BadConstraints": "no node can ever fit what it asks for",
}
"""Reasons of a pending job that it cannot get over by waiting, in words; it is cancelled."""


def _resend_with(cause: str, change: str) -> str:
    return f"{cause} give `run` with {change}, which sends them again"


PARTITION = "another profile.partition"
ELSEWHERE = "another profile.qos or profile.account"
LESS = "the quality of service or the account allows a job less"
LIMITS = {
    "PartitionTimeLimit": _resend_with(
        "the partition allows less time now than the jobs ask for:",
        f"a lower profile.time_minutes or {PARTITION}",
    ),
    "PartitionNodeLimit": _resend_with(
        "the partition allows fewer nodes now:", f"a lower profile.nodes or {PARTITION}"
    ),
    "PartitionConfig": _resend_with(
        "`scontrol show partition` tells what the partition allows:", f"less or with {PARTITION}"
    ),
    "PartitionDown": _resend_with("the partition starts no jobs now: wait, or", PARTITION),
    "PartitionInactive": _resend_with("the partition takes no jobs now: wait, or", PARTITION),
    "AccountNotAllowed": _resend_with(
        "the partition no longer takes this account:", f"another profile.account or {PARTITION}"
    ),
    "QOSNotAllowed": _resend_with(
        "the partition no longer takes this quality of service:",
        f"another profile.qos or {PARTITION}",
    ),
    "InvalidAccount": _resend_with("the account is not there any more:", "another profile.account"),
    "InvalidQOS": _resend_with(
        "the quality of service is not there any more:", "another profile.qos"
    ),
    "MaxMemPerLimit": _resend_with("the site allows a job less memory:", "a lower profile.mem_gb"),
    "Reservation(Deleted|Invalid)": _resend_with(
        "the reservation is gone:", "another profile.additional_parameters.reservation"
    ),
    r"(QOS|Assoc)MaxWall\w+": _resend_with(f"{LESS} time:", f"a lower {{key}} or {ELSEWHERE}"),
    r"(QOS|Assoc)Max\w+MinutesPerJob(Limit)?": _resend_with(
        f"{LESS} of this, counted by the minute:",
        f"a lower profile.time_minutes or {{key}}, or {ELSEWHERE}",
    ),
    r"(QOS|Assoc)Max\w+Per(Job|Node)(Limit)?": _resend_with(
        f"{LESS} of this:", f"a lower {{key}} or {ELSEWHERE}"
    ),
    r"QOSMin\w+": _resend_with(
        "the quality of service asks a job to take more of this:",
        "a higher {key} or another profile.qos",
    ),
    r"(QOS|Assoc)Grp(\w+(?<!Run)Minutes|Wall)(Limit)?|(QOS|Association)TimeLimit": _resend_with(
        "what the site grants the quality of service or the account is used up, or what is left is "
        "less than the jobs ask for: ask the site, or",
        f"a lower profile.time_minutes or {ELSEWHERE}",
    ),
    "JobHeldUser": "somebody holds them: `scontrol release <job>` lets them go",
    "JobHoldMaxRequeue|job.requeued.in.held.state": "SLURM holds them since they were requeued: "
    "`scontrol release <job>` lets them go",
    "JobHeldAdmin": "the site holds them: ask it",
}
"""What somebody's hand can do about a reason of a pending job that no waiting ends, by a pattern of
reasons, of which the first that fits counts. A limit on what all jobs have together
(QOSGrpCpuLimit, QOSMaxJobsPerUserLimit) is not among them: others end, and make room."""
KEYS = {
    "Cpu": "profile.cpus_per_task",
    "GRES": "profile.gpus_per_node",
    "Mem": "profile.mem_gb",
    "Node": "profile.nodes",
    "Wall": "profile.time_minutes",
}
"""What asks for that of which a limit of a quality of service or an account speaks."""


def remedy(reason: str) -> str | None:
    """What helps jobs that wait for this reason; None where waiting does, or nothing is known."""
    advice = next((item for form, item in LIMITS.items() if re.fullmatch(form, reason)), None)
    if advice is None:
        return None
    limited = re.match(rf"\w+?(?:Max|Min)({'|'.join(KEYS)})", reason)
    return advice.format(key="demand" if limited is None else KEYS[limited[1]])


GRACE_SECONDS = 120.0
"""How long after a job was sent, or ended in a way that SLURM may yet mend, its absence or end is
not believed: queues, databases and file systems lag."""

SlurmState = Literal["done", "active", "again", "failed", "new"]
OUT_OF_MEMORY = "out of memory"
FATAL = ("failed", "never started", "impossible", OUT_OF_MEMORY)
"""Exit reasons that another attempt would share: the stage's or the user's own fault."""
STALE_RESOURCES = "asked for anew"
NOT_COUNTED_AS_ATTEMPT = ("cancelled before it began", "input incomplete", STALE_RESOURCES)
"""Exit reasons that count as no attempt."""
STILL = {"SUSPENDED": "suspended", "STOPPED": "suspended"}
"""States of a job that has begun and stands still, of which SLURM gives no reason."""
RAISED = r"[\w.]*(Error|Exception): "
"""How the line begins with which Python ends; what was killed ends with another."""
REMEDIES = {
    OUT_OF_MEMORY: "the same memory would not do: raise profile.mem_gb, or set "
    "profile.memory_growth=true where nodes have more, and give `run` again",
    "killed": "by hand, with its node, or for want of memory: then raise profile.mem_gb and give "
    "`run` again",
}
"""What the user can do where another attempt alone may not help."""


@dataclass(frozen=True, kw_only=True)
class StageObservation:
    """All that was observed of one stage."""

    record: StageRecord
    done: bool
    attempts: int
    """Submissions since the stage was last allowed, those that never began left out."""
    place: Place | None = None
    """Where it was submitted last; None where it never was, or nothing of it will run."""
    job: Job | None = None
    """Its element as squeue, or else sacct, shows it; None where neither does."""
    queued: bool = False
    """Whether squeue shows it."""
    note: Note | None = None
    """What the element's last attempt noted; None where none began."""
    last_output: str = ""
    """The last line of the output of a job that failed and noted no end, and its file; empty where
    it wrote none."""
    out_of_memory: bool = False
    """Whether the output of a job that failed has SLURM's words on memory."""
    more_memory: float | None = None
    """What times the profile's memory it may ask for after it was out of memory; None where it may
    not ask for more."""
    starts: int = 0
    """Attempts that jobs noted since the stage was last allowed, SLURM's requeues among them."""
    idle: bool = False
    """Whether the last IDLE_ATTEMPTS of them brought it no further."""
    anew: str = ""
    """What its job, which waits, would ask SLURM for otherwise now; empty where nothing, or where
    that is to stay."""
    doubt: str = ""
    """Why it may be there although squeue does not show it; empty where nothing says so."""
    at_work: bool = False
    """Whether a process holds its lock although squeue does not show it; asked only then."""


@dataclass(frozen=True, kw_only=True)
class StageDecision:
    """What became of a stage."""

    state: SlurmState
    """active: SLURM has it or may have. again: to be submitted."""
    exit_reason: str = ""
    """How its last job ended, or why it waits, in words; empty where there is nothing to say."""
    cancel: Job | None = None
    """Job to cancel first."""
    memory: float = 1.0
    """What times the profile's memory it is to ask for where it is submitted."""


def decide_stage(observation: StageObservation, *, now: float, max_attempts: int) -> StageDecision:
    """now: Unix time."""
    job, place = observation.job, observation.place
    waits = job is not None and observation.queued and job.state == "PENDING"
    if observation.done:
        return StageDecision(state="done", cancel=job if waits else None)
    if not is_job(observation.record.kind):
        return StageDecision(
            state="failed", exit_reason="its files are not here: `run` fetches them"
        )
    if place is None:
        return StageDecision(state="new")
    # noted before sbatch and not after: the driver may be between the two, or dead
    if place.job_id is None:
        return StageDecision(state="active", exit_reason="being submitted")
    if job is not None and observation.queued and job.active:
        if waits and observation.anew:
            return StageDecision(state="again", exit_reason=STALE_RESOURCES, cancel=job)
        if not (waits and job.reason in NEVER):
            return StageDecision(state="active", exit_reason=STILL.get(job.state, job.reason))
        exit_reason = "impossible" if job.reason == "BadConstraints" else NEVER[job.reason]
        return _after(exit_reason, observation, max_attempts, cancel=job)
    if observation.doubt:
        return StageDecision(state="active", exit_reason=observation.doubt)
    if observation.at_work:  # whatever SLURM or a clock says: nothing runs twice
        answer = "shows it ended" if job is not None and not job.active else "does not show it"
        return StageDecision(state="active", exit_reason=f"at work, though SLURM {answer}")
    if job is None or job.active:
        if -GRACE_SECONDS < now - place.batch.begun < GRACE_SECONDS:
            return StageDecision(state="active", exit_reason="SLURM does not show it yet")
        return _after(_noted(observation.note) or "lost", observation, max_attempts)
    exit_reason = _exit_reason(job, observation)
    # SLURM requeues these itself; a job that completed may have left a marker not shown here yet
    mends = exit_reason in ("preempted", "node failure") or job.state == "COMPLETED"
    if mends and job.ended is not None and now - job.ended < GRACE_SECONDS:
        return StageDecision(state="active", exit_reason=f"{exit_reason}; SLURM may requeue it")
    return _after(exit_reason, observation, max_attempts)


def _after(
    exit_reason: str, observation: StageObservation, max_attempts: int, *, cancel: Job | None = None
) -> StageDecision:
    if observation.attempts <= 0:  # allowed again since, or it never began
        return StageDecision(state="again", exit_reason=exit_reason, cancel=cancel)
    advice = _advice(exit_reason, observation)
    growth = observation.more_memory if exit_reason == OUT_OF_MEMORY else None
    if exit_reason in FATAL and growth is None:
        return StageDecision(state="failed", exit_reason=f"{exit_reason}{advice}", cancel=cancel)
    # requeues count no attempt, so that a stage that never saves would go on for ever
    if observation.idle and growth is None and exit_reason not in NOT_COUNTED_AS_ATTEMPT:
        reason = f"{exit_reason}; it got no further in {IDLE_ATTEMPTS} attempts{advice}"
        return StageDecision(state="failed", exit_reason=reason, cancel=cancel)
    if observation.attempts - (exit_reason in NOT_COUNTED_AS_ATTEMPT) >= max_attempts:
        reason = f"{exit_reason}, after {observation.attempts} jobs{advice}"
        return StageDecision(state="failed", exit_reason=reason, cancel=cancel)
    if growth is not None:
        advice = f" ({growth:.3g} times profile.mem_gb is next)"
    memory = growth or (1.0 if observation.place is None else observation.place.batch.memory)
    exit_reason = f"{exit_reason}{advice}"
    return StageDecision(state="again", exit_reason=exit_reason, cancel=cancel, memory=memory)


def _advice(exit_reason: str, observation: StageObservation) -> str:
    if exit_reason in REMEDIES:
        return f" ({REMEDIES[exit_reason]})"
    if exit_reason != "never started":
        return ""
    node = observation.job.node if observation.job is not None else ""
    ask = f"can {node} see the run root and the interpreter (profile.python)?" if node else ""
    details = "; ".join(filter(None, [observation.last_output, ask]))
    return f": {details}" if details else ""


def _exit_reason(job: Job, observation: StageObservation) -> str:
    note, last_output = observation.note, observation.last_output
    failure = FAILURES.get(job.state, "failed")
    if failure == "cancelled":
        return failure if note is not None else "cancelled before it began"
    if observation.out_of_memory and failure == "failed":
        return OUT_OF_MEMORY
    if failure != "failed":
        return failure
    if note is None or note.outcome is not None:
        return _noted(note) or "never started"
    return f"its job failed: {last_output}" if re.match(RAISED, last_output) else "killed"


def _noted(note: Note | None) -> str | None:
    """The exit reason by the job's own word; None where it had none to say."""
    if note is None or note.outcome is None:
        return None
    if note.why:
        return note.why
    if note.outcome == UNREADY:
        return "input incomplete"
    if note.outcome == "failed" and note.exit_code == -9:
        return "killed"  # for want of memory where SLURM does not say so, or by hand
    return "failed" if note.outcome == "done" else note.outcome


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do; empty lists where nothing is to be done."""

    standings: Mapping[str, StageDecision]
    cancel: tuple[Job, ...]
    submit: tuple[StageRecord, ...]
    """Stages whose needs are done, queued, or submitted with them."""
    uncount: tuple[str, ...]
    """Of these, stages whose last job was no attempt."""


def decide(
    observed: Iterable[StageObservation], *, now: float, max_attempts: int, held: bool = False
) -> Decision:
    """observed: in an order in which needs come first. held: nothing is submitted."""
    standings: dict[str, StageDecision] = {}
    submit: list[StageRecord] = []
    uncount: list[str] = []
    ready: set[str] = set()
    observed = list(observed)
    needed: set[str] = set()
    for observation in observed:
        if not observation.done:
            needed.update(observation.record.needs)
    for observation in observed:
        name = observation.record.name
        standing = decide_stage(observation, now=now, max_attempts=max_attempts)
        if (
            observation.done
            and name in needed
            and observation.job is not None
            and observation.job.reason not in NEVER
        ):
            # it would take along what waits for it; where it is held, that has to be said
            reason = observation.job.reason if standing.cancel is not None else ""
            standing = replace(standing, cancel=None, exit_reason=reason)
        standings[name] = standing
        # what waits for a job that has ended is cancelled: squeue shows ended ones for a while
        in_queue = observation.queued and observation.job is not None and observation.job.active
        if standing.state == "done" or (standing.state == "active" and in_queue):
            ready.add(name)
        is_to_run = standing.state in ("new", "again") and not held
        if is_to_run and ready.issuperset(observation.record.needs):
            submit.append(observation.record)
            ready.add(name)
            # where it was allowed since, its last job is not among the attempts
            if observation.attempts > 0 and standing.exit_reason in NOT_COUNTED_AS_ATTEMPT:
                uncount.append(name)
    return Decision(
        standings=standings,
        cancel=tuple(
            standing.cancel for standing in standings.values() if standing.cancel is not None
        ),
        submit=tuple(submit),
        uncount=tuple(uncount),
    )
