"""What is not believed of SLURM's answers: nonsense, impossible dates, a job that is gone for one
program and known to another.

Whatever makes no sense is said with the name of the program that printed it, and decides nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sweeps.slurm import scheduler
from sweeps.slurm.answers import Answer, elements
from sweeps.slurm.judge import Seen
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import Batch
from sweeps.text import duration

CLOCK_SECONDS = 60.0
"""What clocks of a cluster may differ by; waiting times here are twice that and more."""

Warn = Callable[[str], None]


def nonsense(program: str, answer: Answer) -> list[str]:
    """A warning where an answer holds lines that make no sense."""
    if answer.nonsense is None:
        return []
    return [
        f"warning: `{program}` printed what makes no sense, which decides nothing: "
        f"{answer.nonsense!r}"
    ]


def dated(accounts: Answer, batches: Mapping[str, Batch]) -> list[str]:
    """Drop the rows of jobs that ended before they were sent, with a warning of each batch."""
    early: dict[str, list[str]] = defaultdict(list)
    for job_id, job in [*accounts.items()]:
        batch = batches.get(job.name)
        if batch is None or job.ended is None or job.ended >= batch.begun - CLOCK_SECONDS:
            continue
        early[f"{duration(batch.begun - job.ended)} before {job.name} was sent"].append(job_id)
        del accounts[job_id]
    return [
        f"warning: `sacct` says that job {ids[0]} ended {when}, which decides nothing: the row is "
        "of another job, or the clocks of this machine and the cluster disagree"
        for when, ids in early.items()
    ]


def clocks(batches: Iterable[Batch], answers: Iterable[Answer], now: float) -> list[str]:
    """A warning where something lies in the future of this machine's clock."""
    sent = max((batch.begun for batch in batches), default=now)
    ended = max((job.ended or now for rows in answers for job in rows.values()), default=now)
    said = {"a batch was sent": sent - now, "a job ended": ended - now}
    return [
        f"warning: {what} {duration(ahead)} from now by this machine's clock, which disagrees with "
        "that of the cluster or of the machine that sent it: set them right, as waiting times are "
        "told by them"
        for what, ahead in said.items()
        if ahead > CLOCK_SECONDS
    ]


def controllers_clock(said: str, now: float) -> list[str]:
    """A warning where the time on top of `scontrol show config` is not this machine's."""
    printed = re.match(r"Configuration data as of (\S+)", said)
    try:
        ahead = now - datetime.fromisoformat(printed[1] if printed else "").timestamp()
    except ValueError:
        return []
    if abs(ahead) <= CLOCK_SECONDS:
        return []
    return [
        f"warning: this machine's clock is {duration(abs(ahead))} "
        f"{'ahead of' if ahead > 0 else 'behind'} that of SLURM's controller: set it right, as "
        "what became of jobs is told by times"
    ]


def confirmed(seen: Sequence[Seen], queue: Answer, call: Call) -> list[Seen]:
    """With `doubt` where a job is not shown by squeue and yet may be there.

    Before a job can be called lost the controller is asked for it by another program.
    """
    known: dict[str, set[str] | str] = {}
    return [_doubted(one, queue, known, call) for one in seen]


def _doubted(seen: Seen, queue: Answer, known: dict[str, set[str] | str], call: Call) -> Seen:
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
        said = call(["scontrol", "show", "job", "-o", batch.job_id])
    except (ValueError, ConnectionError) as error:
        return set() if scheduler.INVALID_ID in str(error) else str(error)
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in said.splitlines() if line.strip()]
    if not rows or not all({"JobId", "JobName", "JobState"} <= row.keys() for row in rows):
        return f"`scontrol` printed what makes no sense: {said[:80]!r}"
    ids: set[str] = set()
    for row in rows:
        if row["JobName"] != batch.name:
            continue
        array = row.get("ArrayTaskId")
        spelled, whole = elements(f"{batch.job_id}_[{array}]" if array else row["JobId"])
        ids |= {*spelled} if whole else {batch.element(index) for index in range(batch.size)}
    return ids
