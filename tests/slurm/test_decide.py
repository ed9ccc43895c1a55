"""What became of a stage and what to do, as a table of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fgrpo_bench.stages.attempts import Note
from sweeps.slurm.decide import GRACE_SECONDS, StageDecision, StageObservation, decide, decide_stage
from sweeps.slurm.drive import stuck
from sweeps.slurm.scheduler import Job
from sweeps.slurm.submissions import JobBatch, Place
from tests.support.sent import stage_record

NOW = 1_000_000.0
OLD = NOW - 10 * GRACE_SECONDS


def observation(
    state: str | None = None,
    *,
    name: str = "p",
    needs: tuple[str, ...] = (),
    queued: bool = True,
    done: bool = False,
    attempts: int = 1,
    reason: str = "",
    ended: float | None = OLD,
    begun: float = OLD,
    note: dict[str, Any] | None = None,
    sent: bool = True,
    job_id: str | None = "12",
    at_work: bool = False,
    out_of_memory: bool = False,
    more_memory: float | None = None,
    idle: bool = False,
    memory: float = 1.0,
) -> StageObservation:
    batch = JobBatch(
        name="b", kind="train", stages=(name,), begun=begun, job_id=job_id, memory=memory
    )
    job = None
    if state is not None:
        job = Job(job_id="12", name="b", state=state, reason=reason, ended=ended)
    return StageObservation(
        record=stage_record(name, *needs),
        done=done,
        attempts=attempts,
        place=Place(batch=batch, index=0) if sent else None,
        job=job,
        queued=queued and job is not None,
        note=None if note is None else Note.parsed({"attempt": 1} | note),
        at_work=at_work,
        out_of_memory=out_of_memory,
        more_memory=more_memory,
        idle=idle,
    )


FAILED = {"outcome": "failed", "exit_code": 1}
STOPPED = {"outcome": "stopped", "exit_code": 75}
OUT_OF_MEMORY = (
    "out of memory (the same memory would not do: raise profile.mem_gb, or set "
    "profile.memory_growth=true where nodes have more, and give `run` again)"
)
KILLED = (
    "killed (by hand, with its node, or for want of memory: then raise profile.mem_gb and give "
    "`run` again)"
)
CASES = [
    ("the marker stands", observation(done=True), "done", "", None),
    ("marked, but its job waits", observation("PENDING", done=True), "done", "", "12"),
    ("marked, and its job ends", observation("COMPLETING", done=True), "done", "", None),
    ("never sent", observation(sent=False, attempts=0), "new", "", None),
    ("intent without a job", observation(job_id=None), "active", "being submitted", None),
    ("it waits", observation("PENDING", reason="Priority"), "active", "Priority", None),
    (
        "it is held by hand",
        observation("PENDING", reason="JobHeldUser"),
        "active",
        "JobHeldUser",
        None,
    ),
    ("it runs", observation("RUNNING"), "active", "", None),
    ("it is suspended", observation("SUSPENDED"), "active", "suspended", None),
    ("it is requeued", observation("REQUEUED"), "active", "", None),
    (
        "its input failed",
        observation("PENDING", reason="DependencyNeverSatisfied"),
        "again",
        None,
        "12",
    ),
    (
        "no launch",
        observation("PENDING", reason="launch failed requeued held"),
        "again",
        None,
        "12",
    ),
    ("no node fits", observation("PENDING", reason="BadConstraints"), "failed", "impossible", "12"),
    ("just sent", observation(begun=NOW - 5), "active", "SLURM does not show it yet", None),
    ("just sent, by a clock ahead", observation(begun=NOW + 5), "active", None, None),
    ("gone", observation(), "again", "lost", None),
    (
        "gone, sent by a clock far ahead",
        observation(begun=NOW + GRACE_SECONDS),
        "again",
        "lost",
        None,
    ),
    (
        "gone, but at work",
        observation(at_work=True),
        "active",
        "at work, though SLURM does not show it",
        None,
    ),
    (
        "ended long before it was sent, but at work",
        observation("COMPLETED", queued=False, ended=0.0, at_work=True),
        "active",
        "at work, though SLURM shows it ended",
        None,
    ),
    ("gone, but it said why", observation(note=FAILED), "failed", "failed", None),
    ("running says only accounting", observation("RUNNING", queued=False), "again", "lost", None),
    ("just preempted", observation("PREEMPTED", ended=NOW - 5), "active", None, None),
    ("preempted for good", observation("PREEMPTED", queued=False), "again", "preempted", None),
    ("its node just failed", observation("NODE_FAIL", ended=NOW - 5), "active", None, None),
    ("its node failed", observation("NODE_FAIL"), "again", "node failure", None),
    ("timed out", observation("TIMEOUT"), "again", "timed out", None),
    ("out of memory", observation("OUT_OF_MEMORY", note=FAILED), "failed", OUT_OF_MEMORY, None),
    ("by slurmd's word", observation("FAILED", out_of_memory=True), "failed", OUT_OF_MEMORY, None),
    (
        "by the cgroup's, and its payload noted a kill",
        observation("FAILED", out_of_memory=True, note=FAILED | {"exit_code": -9}),
        "failed",
        OUT_OF_MEMORY,
        None,
    ),
    (
        "out of memory, and it may have more",
        observation("OUT_OF_MEMORY", more_memory=1.5),
        "again",
        "out of memory (1.5 times profile.mem_gb is next)",
        None,
    ),
    (
        "out of memory thrice",
        observation("OUT_OF_MEMORY", more_memory=1.5, attempts=3),
        "failed",
        None,
        None,
    ),
    (
        "allowed since it was",
        observation("OUT_OF_MEMORY", attempts=0),
        "again",
        "out of memory",
        None,
    ),
    ("cancelled at work", observation("CANCELLED", note=STOPPED), "again", "cancelled", None),
    ("cancelled in the queue", observation("CANCELLED", attempts=3), "again", None, None),
    ("stopped, not requeued", observation("FAILED", note=STOPPED), "again", "stopped", None),
    (
        "its input was missing",
        observation("FAILED", note={"outcome": "unready"}),
        "again",
        None,
        None,
    ),
    ("its own fault", observation("FAILED", note=FAILED), "failed", "failed", None),
    ("allowed since", observation("FAILED", note=FAILED, attempts=0), "again", "failed", None),
    ("it never began", observation("FAILED"), "failed", "never started", None),
    ("killed without a word", observation("FAILED", note={"attempt": 1}), "again", KILLED, None),
    ("killed", observation("FAILED", note=FAILED | {"exit_code": -9}), "again", KILLED, None),
    (
        "marker on its way",
        observation("COMPLETED", ended=NOW - 5, note=FAILED),
        "active",
        None,
        None,
    ),
    ("no marker", observation("COMPLETED", note={"outcome": "done"}), "failed", "failed", None),
]


@pytest.mark.parametrize(
    ("case", "one", "state", "exit_reason", "cancel"), CASES, ids=lambda v: str(v)[:30]
)
def test_every_exit_reason_has_one_consequence(
    case: str, one: StageObservation, state: str, exit_reason: str | None, cancel: str | None
) -> None:
    standing = decide_stage(one, now=NOW, max_attempts=3)
    job_id = standing.cancel.job_id if standing.cancel is not None else None
    assert (standing.state, job_id) == (state, cancel), case
    assert exit_reason in (None, standing.exit_reason)


def test_a_job_that_never_started_names_its_node_and_what_to_look_for() -> None:
    one = observation("FAILED")
    assert one.job is not None
    standing = decide_stage(replace(one, job=replace(one.job, node="n7")), now=NOW, max_attempts=3)
    assert standing.state == "failed"
    assert standing.exit_reason.startswith(
        "never started: can n7 see the run root and the interpreter"
    )


@pytest.mark.parametrize(
    ("one", "memory"),
    [
        (observation("OUT_OF_MEMORY", memory=1.5, more_memory=2.25, idle=True), 2.25),
        (observation("NODE_FAIL", memory=1.5), 1.5),
        (observation("OUT_OF_MEMORY", memory=1.5, attempts=0, more_memory=2.25), 1.0),
    ],
    ids=["out-of-memory", "for-another-reason", "given-to-run-again"],
)
def test_what_grew_stays_so_until_the_profile_is_heeded_anew(
    one: StageObservation, memory: float
) -> None:
    standing = decide_stage(one, now=NOW, max_attempts=3)
    assert (standing.state, standing.memory) == ("again", memory)


def test_what_is_to_be_fetched_is_no_job_and_nothing_is_sent_that_needs_it() -> None:
    data = observation(name="data", sent=False, attempts=0)
    data = replace(data, record=replace(data.record, kind="fetch"))
    train = observation(name="train", needs=("data",), sent=False, attempts=0)
    decision = decide([data, train], now=NOW, max_attempts=3)
    assert decision.submit == ()
    assert decision.standings["data"] == StageDecision(
        state="failed", exit_reason="its files are not here: `run` fetches them"
    )


def test_a_stage_is_submitted_with_its_need_but_not_after_one_that_was_given_up() -> None:
    need = observation(name="need", sent=False, attempts=0)
    gone = observation("FAILED", name="gone", note=FAILED)
    settling = observation(name="settling", begun=NOW - 5)
    stages = [need, gone, settling]
    stages += [
        observation(name=f"after-{each.record.name}", needs=(each.record.name,), sent=False)
        for each in (need, gone, settling)
    ]
    decision = decide(stages, now=NOW, max_attempts=3)
    assert [record.name for record in decision.submit] == ["need", "after-need"]
    held = decide(stages, now=NOW, max_attempts=3, held=True)
    assert (held.submit, held.standings) == ((), decision.standings)


@pytest.mark.parametrize(
    ("train", "sent"),
    [
        (observation("PREEMPTED", name="train", ended=NOW - 5), []),
        (observation("COMPLETED", name="train", ended=NOW - 5, at_work=True), []),
        (observation("PREEMPTED", name="train"), ["train", "eval"]),
        (observation("RUNNING", name="train"), ["eval"]),
    ],
    ids=["may-be-requeued", "ended-but-at-work", "for-good", "runs"],
)
def test_nothing_is_sent_after_a_job_that_has_ended_while_squeue_still_shows_it(
    train: StageObservation, sent: list[str]
) -> None:
    """SLURM would cancel it, as often as it is sent."""
    waits = observation("CANCELLED", name="eval", needs=("train",))
    decision = decide([train, waits], now=NOW, max_attempts=3)
    assert [record.name for record in decision.submit] == sent


def test_jobs_that_wait_in_vain_are_cancelled_before_others_are_sent() -> None:
    train = observation("TIMEOUT", name="train")
    waits = observation("PENDING", name="eval", needs=("train",), reason="DependencyNeverSatisfied")
    decision = decide([train, waits], now=NOW, max_attempts=3)
    assert [job.job_id for job in decision.cancel] == ["12"]
    assert [record.name for record in decision.submit] == ["train", "eval"]


def test_what_never_began_is_no_attempt() -> None:
    one = observation("CANCELLED", name="a", attempts=2)
    decision = decide([one], now=NOW, max_attempts=3)
    assert decision.uncount == ("a",)
    allowed_since = decide([replace(one, attempts=0)], now=NOW, max_attempts=3)
    assert allowed_since.uncount == (), "it is counted no more"
    assert decision.standings["a"] == StageDecision(
        state="again", exit_reason="cancelled before it began"
    )


@pytest.mark.parametrize(
    ("reason", "next_done", "cancelled"),
    [
        ("BeginTime", False, ()),
        ("BeginTime", True, ("12",)),
        ("launch failed requeued held", False, ("12",)),
    ],
)
def test_a_requeued_job_whose_work_is_done_is_left_to_let_the_next_one_begin(
    reason: str, next_done: bool, cancelled: tuple[str, ...]
) -> None:
    """SLURM cancels what waits for a job with it; the job finds its work done and ends well."""
    first = observation("PENDING", reason=reason, name="p", done=True)
    second = observation("PENDING", reason="Dependency", name="e", needs=("p",), done=next_done)
    second = replace(second, job=replace(second.job, job_id="13"))
    decision = decide([first, second], now=NOW, max_attempts=3)
    assert tuple(j.job_id for j in decision.cancel if j.job_id == "12") == cancelled
    held = decision.standings["p"].exit_reason
    assert held == ("" if cancelled else reason)


def test_a_done_stage_whose_job_is_held_is_told_with_its_remedy() -> None:
    reason = "job requeued in held state"
    first = observation("PENDING", reason=reason, name="p", done=True)
    second = observation("PENDING", reason="Dependency", name="e", needs=("p",))
    (line,) = stuck(decide([first, second], now=NOW, max_attempts=3))
    assert line.startswith(
        "1 stage (p): done, but what waits for the job will not begin by waiting"
    )
    assert line.endswith("`scontrol release <job>` lets them go")
