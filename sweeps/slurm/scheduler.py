"""The only place that calls SLURM's programs, and the parsers of what they print.

One squeue call answers for all batches of a sweep; sacct is asked only about batches of which
squeue no longer shows a job. Both are asked by batch name: names are unique for ever, job ids are
used again after a reset of the controller. So a row is somebody's only by its id and its name, and
nothing is cancelled by its id alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

CALL_SECONDS = 60.0
SQUEUE_FORMAT = "%i|%j|%T|%N|%M|%e|%r"
SQUEUE = ["squeue", "-h", "-r", "-t", "all", f"--format={SQUEUE_FORMAT}"]
SACCT_FORMAT = "JobID,JobName,State,NodeList,Elapsed,End,Reason"
FIRST_DAYS = "now-90days"
"""How far back sacct looks; without it, only to midnight."""

ACTIVE = {
    *("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING"),
    *("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    *("SIGNALING", "STAGE_OUT"),
}
"""States in which SLURM may still run the job, by itself or when released."""
NEVER = {
    "DependencyNeverSatisfied": "its input failed",
    "launch failed requeued held": "SLURM could not launch it and holds it",
    "BadConstraints": "no node can ever fit what it asks for",
}
"""Reasons of a pending job that it cannot get over by waiting, in words."""

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

UNREACHABLE = ("Unable to contact slurm controller", "Socket timed out on send/recv operation")
"""Words of SLURM's programs where they get no answer, as opposed to a refusal."""

HIDING = ("SQUEUE_", "SACCT_", "SCANCEL_")
"""Beginnings of variables with which users set filters and columns of SLURM's programs."""

Call = Callable[[list[str]], str]


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


def call(command: list[str]) -> str:
    """Standard output of one of SLURM's programs.

    Raises ValueError with the program's own words where it fails, or says what to do where SLURM
    is not on this machine; ConnectionError where SLURM is, but gives no answer.
    """
    if shutil.which(command[0]) is None:
        raise ValueError(missing(command[0]))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CALL_SECONDS, env=environment()
        )
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(
            f"`{command[0]}` gave no answer in {CALL_SECONDS:.0f} s: is the controller up? "
            "`scontrol ping` tells; run the same command again"
        ) from error
    words = done.stderr.strip()
    if done.returncode and any(each in words for each in UNREACHABLE):
        raise ConnectionError(f"`{command[0]}` cannot reach SLURM: {words}")
    if done.returncode:
        raise ValueError(f"`{command[0]}` was refused by SLURM: {words}")
    return done.stdout


def environment() -> dict[str, str]:
    """This process's, without what would hide rows from these programs (SQUEUE_PARTITION and the
    like) or print times in another form."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(HIDING)}
    return own | {"SLURM_TIME_FORMAT": "standard"}


def missing(program: str) -> str | None:
    """What to say where one of SLURM's programs is not on this machine; None where it is."""
    if shutil.which(program) is not None:
        return None
    return (
        f"no SLURM on this machine: there is no `{program}` in PATH; log in to a machine that "
        "submits to the cluster, or use profile=local"
    )


def squeue(names: Iterable[str], call: Call = call) -> dict[str, Job]:
    """The jobs of these names that the controller knows, ended ones for some minutes included."""
    wanted = ",".join(sorted(names))
    if not wanted:
        return {}
    return parse(call([*SQUEUE, f"--name={wanted}"]))


def squeue_of_user(call: Call = call) -> dict[str, Job]:
    """All jobs of whoever asks, of whatever name."""
    return parse(call([*SQUEUE, f"--user={os.getuid()}"]))


def sacct(names: Iterable[str], call: Call = call) -> dict[str, Job]:
    """The jobs of these names in the accounting database, each as it ended last."""
    wanted = ",".join(sorted(names))
    if not wanted:
        return {}
    asked = ["sacct", "-X", "-n", "-P", "-S", FIRST_DAYS, f"--name={wanted}", "-o", SACCT_FORMAT]
    return parse(call(asked))


def scancel(jobs: Iterable[Job], call: Call = call) -> None:
    """Cancel jobs or elements that squeue has shown, where it still shows them under their names;
    one that is gone is no error.

    scancel's own --name would not do: with an element that waits it ends the whole array (22.05).
    """
    wanted = {(job.job_id, job.name) for job in jobs}
    queue = [job for job in squeue({name for _, name in wanted}, call).values() if job.active]
    ids = {job.job_id for job in queue if (job.job_id, job.name) in wanted}
    spared = {_array(job.job_id) for job in queue if job.job_id not in ids}
    ids = {_array(job_id) if _array(job_id) not in spared else job_id for job_id in ids}
    if not ids:
        return
    try:
        call(["scancel", *sorted(ids)])
    except ValueError as error:
        if "Invalid job id" not in str(error):
            raise


def _array(job_id: str) -> str:
    """e.g. 12_3 -> 12"""
    return job_id.partition("_")[0]


def max_array_size(call: Call = call) -> int:
    """Most elements of one array: the site's MaxArraySize is one above the largest index."""
    said = call(["scontrol", "show", "config"])
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", said, re.MULTILINE)
    if found is None:
        raise ValueError(
            "`scontrol show config` names no MaxArraySize: set profile.max_array_size=<elements>"
        )
    return max(int(found[1]), 1)


def parse(said: str) -> dict[str, Job]:
    """Jobs by id from squeue or sacct: the same seven columns, a bar between them.

    A row that stands for many elements (`12_[0-3,7%2]`) gives a job for each.
    """
    jobs = {}
    for line in said.splitlines():
        columns = line.split("|", 6)
        if len(columns) < 7:
            continue
        job_id, name, state, node, elapsed, ended, reason = (column.strip() for column in columns)
        for one in elements(job_id):
            jobs[one] = Job(
                job_id=one,
                name=name,
                state=state.split()[0] if state else "",
                node="" if node in ("None assigned", "(null)") else node,
                elapsed=elapsed,
                ended=None if state.split()[0] in ACTIVE else _time(ended),
                reason="" if reason in ("None", "(null)") else reason,
            )
    return jobs


def elements(job_id: str) -> Iterator[str]:
    """e.g. 12_[0-2,7%4] -> 12_0 12_1 12_2 12_7; a plain id is itself."""
    found = re.fullmatch(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]", job_id)
    if found is None:
        yield job_id
        return
    for part in found[2].split(","):
        first, _, rest = part.partition("-")
        last, _, step = rest.partition(":")
        for index in range(int(first), int(last or first) + 1, int(step or 1)):
            yield f"{found[1]}_{index}"


def _time(text: str) -> float | None:
    """SLURM prints times in the local zone of whoever asks."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
