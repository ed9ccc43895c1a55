"""What SLURM's programs print, read: jobs by id, and what of it makes no sense.

A program may answer with exit code 0 and print the page of a proxy, half a line, or a state that
does not exist. Such lines are told apart from rows and decide nothing: of a job that such an answer
does not show nobody may say that it is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sweeps.text import duration

ACTIVE = {
    *("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING"),
    *("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    *("SIGNALING", "STAGE_OUT"),
}
"""States in which SLURM may still run the job, by itself or when released."""

Failure = Literal[
    "preempted", "timed out", "node failure", "out of memory", "cancelled", "lost", "failed"
]
FAILURES: dict[str, Failure] = {
    "PREEMPTED": "preempted",
    "TIMEOUT": "timed out",
    "DEADLINE": "timed out",
    "NODE_FAIL": "node failure",
    "BOOT_FAIL": "node failure",
    "OUT_OF_MEMORY": "out of memory",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "FAILED": "failed",
    "COMPLETED": "failed",
}
"""What an ended job without a completion marker suffered, by its state."""

COLUMNS = 7
SHOWN_CHARACTERS = 80
MOST_ELEMENTS = 4_000_001
"""SLURM's own limit of MaxArraySize."""
CLOCK_SECONDS = 60.0
"""What clocks of a cluster may differ by; waiting times here are twice that and more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One job or array element as the scheduler sees it."""

    job_id: str
    """e.g. `12`, or `12_3` for an array element."""
    name: str
    state: str
    """e.g. PENDING; one word."""
    node: str = ""
    elapsed: str = ""
    """As SLURM prints it, e.g. 1-02:03:04."""
    ended: float | None = None
    """Unix time; None while it has not ended."""
    reason: str = ""
    """Why it waits or how it ended, in SLURM's words; empty where there is none."""

    @property
    def active(self) -> bool:
        """Whether SLURM may still run it."""
        return self.state in ACTIVE


class Answer(dict[str, Job]):
    """Jobs by id, and the first line that makes no sense; None where all of it does."""

    nonsense: str | None = None


def parse(output: str) -> Answer:
    """An answer of squeue or sacct: the same seven columns, a bar between them.

    A row that stands for many elements (`12_[0-3,7%2]`) gives a job for each.
    """
    jobs = Answer()
    for line in filter(str.strip, output.splitlines()):
        columns = [column.strip() for column in line.split("|", COLUMNS - 1)]
        state = (columns[2].split() or [""])[0] if len(columns) == COLUMNS else ""
        ids, is_complete = elements(columns[0])
        if not is_complete or state not in ACTIVE | FAILURES.keys():
            jobs.nonsense = jobs.nonsense or line.strip()[:SHOWN_CHARACTERS]
        if state not in ACTIVE | FAILURES.keys():
            continue
        _, name, _, node, elapsed, ended, reason = columns
        for job_id in ids:
            jobs[job_id] = Job(
                job_id=job_id,
                name=name,
                state=state,
                node="" if node in ("None assigned", "(null)") else node,
                elapsed=elapsed,
                ended=None if state in ACTIVE else _time(ended),
                reason="" if reason in ("None", "(null)") else reason,
            )
    return jobs


def elements(job_id: str) -> tuple[list[str], bool]:
    """The elements that an id stands for, and whether those are all: SLURM cuts long ranges.

    e.g. 12_[0-2,7%4] -> 12_0 12_1 12_2 12_7, and 12_[0-1,...] -> 12_0 12_1 and False; a plain id is
    itself.
    """
    if re.fullmatch(r"\d+(_\d+)?", job_id):
        return [job_id], True
    spelled = re.fullmatch(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]", job_id)
    if spelled is None:
        return [], False
    parts = [*_ranges(spelled[2])]
    ids = [f"{spelled[1]}_{index}" for part in parts if part is not None for index in part]
    return ids, None not in parts


def _ranges(text: str) -> Iterator[range | None]:
    """None for a part that is no range."""
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?(?::([1-9]\d*))?", part)
        if bounds is None:
            yield None
            continue
        first, last, step = bounds.groups()
        part_of = range(int(first), int(last or first) + 1, int(step or 1))
        yield part_of if part_of.stop <= MOST_ELEMENTS else None


def _time(text: str) -> float | None:
    """SLURM prints times in the local zone of whoever asks."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def nonsense(program: str, answer: Answer) -> list[str]:
    """A warning where an answer holds lines that make no sense."""
    if answer.nonsense is None:
        return []
    return [
        f"warning: `{program}` printed what makes no sense, which decides nothing: "
        f"{answer.nonsense!r}"
    ]


def controllers_clock(config: str, now: float) -> list[str]:
    """A warning where the time on top of `scontrol show config` is not this machine's."""
    printed = re.match(r"Configuration data as of (\S+)", config)
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
