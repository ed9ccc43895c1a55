"""SLURM's programs as a driver calls them, and what they print, read.

One squeue call answers for all batches of a sweep; sacct is asked only about batches of which
squeue no longer shows a job. Both are asked by batch name: names are unique for ever, job ids are
used again after a reset of the controller. So a row is somebody's only by its id and its name, and
nothing is cancelled by its id alone. Sites and administrators rename jobs: where squeue shows none
of a name, all jobs of the user are looked through for the batch's folder, in which the file lies
that sbatch was given.

A program may answer with exit code 0 and print the page of a proxy, half a line, or a state that
does not exist. Such lines are told apart from rows and decide nothing: of a job that such an answer
does not show nobody may say that it is gone.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from sweeps.text import duration

CALL_SECONDS = 60.0
"""How long one call of a SLURM program may take."""
PATIENCE_SECONDS = 5.0
"""After so long without an answer the user is told what is waited for."""
SQUEUE_FORMAT = "%i|%j|%T|%N|%M|%e|%r|%o"
"""The last one is the file that sbatch was given, the Command of `scontrol show job`."""
SQUEUE = ["squeue", "-h", "-r", "-t", "all", f"--format={SQUEUE_FORMAT}"]
SACCT_FORMAT = "JobID,JobName,State,NodeList,Elapsed,End,Reason"
FIRST_DAYS = "now-90days"
"""How far back sacct looks; without it, only to midnight."""
SACCT = ["sacct", "-X", "-n", "-P", "-S", FIRST_DAYS, "-o", SACCT_FORMAT]
MOST_NAMES = 1000
"""Batches that one call asks for: Linux bounds the length of an argument (128 KiB)."""

NO_CLUSTER = "Could not establish a configuration source"
"""Words of SLURM's programs where they are installed and nothing says of which cluster."""

UNREACHABLE = ("Unable to contact slurm controller", "Socket timed out on send/recv operation")
"""Words of SLURM's programs where they get no answer, as opposed to a refusal."""

INVALID_ID = "Invalid job id"
"""Words of SLURM's programs for a job that the controller does not know."""

ASKING = ("SBATCH_", "SRUN_", "SLURM_")
"""Beginnings of variables with which a shell changes what jobs ask for, past the profile; sbatch
heeds them more than its file. A surrounding job has SLURM_* of its own, which an inner srun would
take for its: SLURM_MEM_PER_CPU beside the SLURM_MEM_PER_NODE of the profile ends it."""
HIDING = (*ASKING, "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_")
"""The same, and those with which users set filters and columns of SLURM's programs."""
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""What SLURM's programs find their cluster by: its configuration, the host that hands that out, the
cluster's name where a site has several, and the token that stands for the user."""
SET_BY_SWEEP = {
    *("ARRAY_INX", "DEBUG", "ERROR", "EXPORT", "INPUT", "JOB_NAME", "NO_REQUEUE", "OPEN_MODE"),
    *("OUTPUT", "REQUEUE", "WAIT"),
}
"""SBATCH_* of what every sweep sets itself."""
KEYS = {
    **{key.upper(): key for key in ("account", "constraint", "gpus_per_node", "partition", "qos")},
    **dict.fromkeys(("GPUS", "GRES"), "gpus_per_node"),
    **dict.fromkeys(("MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE"), "mem_gb"),
    **{"SIGNAL": "signal_seconds", "TIMELIMIT": "time_minutes"},
}
"""Keys of the profile by SBATCH_*, where they are not additional_parameters of the same name."""

Call = Callable[[list[str]], str]
SINFO_FORMAT = "%P|%N|%n|%o|%c|%m|%G|%l|%T"
IN_SERVICE = {"idle", "allocated", "mixed", "completing", "planned", "reserved"}
NOT_RESPONDING = "*"
"""Follows the state of a node that gets no work until the controller hears from it again."""


def call(command: list[str]) -> str:
    """Standard output of one of SLURM's programs.

    Raises ValueError with the program's own words where it fails, or says what to do where SLURM
    is not on this machine; ConnectionError where SLURM is, but gives no answer.
    """
    if shutil.which(command[0]) is None:
        raise ValueError(missing(command[0]))
    exit_code, output, errors = _answer(command)
    if exit_code and any(item in errors for item in UNREACHABLE):
        raise ConnectionError(f"`{command[0]}` cannot reach SLURM: {errors}")
    if exit_code and NO_CLUSTER in errors:
        raise ValueError(
            f"SLURM is installed here, but `{command[0]}` finds no configuration of a cluster: log "
            "in to a machine that submits to one, or use profile=local"
        )
    if exit_code:
        raise ValueError(f"`{command[0]}` was refused by SLURM: {errors}")
    return output


def _answer(command: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors; ConnectionError where it does not end in CALL_SECONDS."""
    pipe, patience = subprocess.PIPE, min(PATIENCE_SECONDS, CALL_SECONDS)
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, errors="replace", env=slurm_environment()
    ) as program:
        try:
            output, errors = program.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            waiting = f"waiting for `{command[0]}`, {CALL_SECONDS:.0f} s at most"
            print(waiting, file=sys.stderr, flush=True)
            try:
                output, errors = program.communicate(timeout=CALL_SECONDS - patience)
            except subprocess.TimeoutExpired as error:
                program.kill()
                raise ConnectionError(
                    f"`{command[0]}` gave no answer in {CALL_SECONDS:.0f} s: is the controller up? "
                    "`scontrol ping` tells; run the same command again"
                ) from error
    return program.returncode, output, errors.strip()


def slurm_environment() -> dict[str, str]:
    """This process's, without what would change what jobs ask for, hide rows from these programs
    (SQUEUE_PARTITION and the like) or print times in another form."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or not k.startswith(HIDING)}
    return kept | {"SLURM_TIME_FORMAT": "standard"}


def ignored(variables: Mapping[str, str]) -> list[str]:
    """A note on what a shell sets for jobs and they do not get, with what does the same; empty
    where it sets nothing."""
    # a job in which the sweep was started has SLURM_* that nobody set
    asking = ASKING[:2] if "SLURM_JOB_ID" in variables else ASKING
    names = sorted(variables.keys() - {*KEPT, "SLURM_TIME_FORMAT"})
    shown = [f"{name} ({_instead(name)})" for name in names if name.startswith(asking)]
    if not shown:
        return []
    return [f"note: jobs ask for what the profile says, so this is ignored: {', '.join(shown)}"]


def _instead(variable: str) -> str:
    program, _, name = variable.partition("_")
    if program != "SBATCH":
        return f"profile.setup: 'export {variable}=...'"
    if name in SET_BY_SWEEP:
        return "a sweep sets that itself"
    if name == "CLUSTERS":
        return "SLURM_CLUSTERS names a cluster to all programs"
    return f"profile.{KEYS.get(name, f'additional_parameters.{name.lower()}')}"


def missing(program: str) -> str | None:
    """What to say where one of SLURM's programs is not on this machine; None where it is."""
    if shutil.which(program) is not None:
        return None
    return (
        f"no SLURM on this machine: there is no `{program}` in PATH; log in to a machine that "
        "submits to the cluster, or use profile=local"
    )


def squeue(names: Iterable[str], call: Call = call) -> Answer:
    """The jobs of these names that the controller knows, ended ones for some minutes included."""
    return _query_by_names(SQUEUE, names, call)


def squeue_by_user(call: Call = call) -> Answer:
    """All jobs of whoever asks, each of a renamed batch under the batch's name."""
    return _by_folder(call([*SQUEUE, f"--user={os.getuid()}"]))


def squeue_by_id(job_id: str, call: Call = call) -> Answer:
    """The same of one job or element."""
    return _by_folder(call([*SQUEUE, f"--jobs={job_id}"]))


def _by_folder(output: str) -> Answer:
    jobs = parse(output)
    for job_id, job in jobs.items():
        folder = Path(job.command).parent.name
        # a name as sweeps.slurm.packing gives its scripts
        if re.fullmatch(r"[0-9a-f]{32}\.sh", Path(job.command).name) and folder != job.name:
            jobs[job_id] = replace(job, name=folder, shown_name=job.name)
    return jobs


def sacct(names: Iterable[str], call: Call = call) -> Answer:
    """The jobs of these names in the accounting database, each as it ended last."""
    return _query_by_names(SACCT, names, call)


def _query_by_names(command: list[str], names: Iterable[str], call: Call) -> Answer:
    answer, ordered = Answer(), sorted(names)
    for first in range(0, len(ordered), MOST_NAMES):
        part = parse(call([*command, f"--name={','.join(ordered[first : first + MOST_NAMES])}"]))
        answer.update(part)
        answer.nonsense = answer.nonsense or part.nonsense
    return answer


def scancel(jobs: Iterable[Job], call: Call = call) -> None:
    """Cancel jobs or elements that squeue has shown, where it still shows them under the same
    names; one that is gone is no error.

    scancel's own --name would not do: with an element that waits it ends the whole array (22.05).
    """
    targets = {(job.job_id, job.shown_name or job.name) for job in jobs}
    # asked again: after a reset of the controller the same id may be somebody else's job
    queue = [job for job in squeue({name for _, name in targets}, call).values() if job.active]
    ids = {job.job_id for job in queue if (job.job_id, job.name) in targets}
    spared = {_array(job.job_id) for job in queue if job.job_id not in ids}
    # an array that goes whole is one id: a line of thousands of elements would be too long
    ids = {_array(job_id) if _array(job_id) not in spared else job_id for job_id in ids}
    if not ids:
        return
    try:
        call(["scancel", *sorted(ids)])
    except ValueError as error:
        if INVALID_ID not in str(error):  # it ended since it was shown
            raise


def _array(job_id: str) -> str:
    """e.g. 12_3 -> 12"""
    return job_id.partition("_")[0]


def show_config(call: Call = call) -> str:
    """What the controller says of its configuration and of its clock."""
    return call(["scontrol", "show", "config"])


def max_array_size(config: str) -> int:
    """Most elements of one array, by `show_config`: MaxArraySize is one above the largest index."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.MULTILINE)
    if match is None:
        raise ValueError(
            "`scontrol show config` names no MaxArraySize: set profile.max_array_size=<elements>"
        )
    return max(int(match[1]), 1)


def cluster_name(config: str) -> str | None:
    """The cluster that answers, by `show_config`; None where that does not say."""
    match = re.search(r"^ClusterName\s*=\s*(\S+)", config, re.MULTILINE)
    return None if match is None else match[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node in one of its partitions."""

    partition: str
    name: str
    host: str
    """The machine's own name."""
    address: str
    """Where the controller reaches it."""
    cpus: int
    memory_mb: int
    gpus: int
    max_minutes: float
    """The partition's time limit; inf where it has none."""
    in_service: bool


def list_nodes(partition: str | None, call: Call) -> list[Node]:
    """Nodes of the partitions, named with commas as for sbatch; None is the site's default.

    Empty where there is no such partition.
    """
    chosen = [] if partition is None else [f"--partition={partition}"]
    rows = (
        line.split("|")
        for line in call(["sinfo", "-h", "-N", *chosen, f"--format={SINFO_FORMAT}"]).splitlines()
    )
    return [
        _node(row)
        for row in rows
        if len(row) == 9 and (partition is not None or row[0].endswith("*"))
    ]


def _node(row: Sequence[str]) -> Node:
    partition, name, host, address, cpus, memory, gres, limit, state = row
    if not (cpus.isdecimal() and memory.isdecimal()):
        raise ValueError(
            f"`sinfo` printed what makes no sense, so nothing is sent: {'|'.join(row)!r}"
        )
    return Node(
        partition=partition.rstrip("*"),
        name=name,
        host=host,
        address=address,
        cpus=int(cpus),
        memory_mb=int(memory),
        gpus=sum(map(int, re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", gres))),
        max_minutes=_minutes(limit),
        in_service=NOT_RESPONDING not in state and re.sub(r"\W+$", "", state) in IN_SERVICE,
    )


def _minutes(limit: str) -> float:
    """e.g. 1-12:00:00, 4:00:00, 30:00 or infinite."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts):
        return math.inf
    hours, minutes, seconds = [0] * (3 - len(parts)) + list(map(int, parts))
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60


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

COLUMNS, SHOWN_CHARACTERS = 7, 80
"""Of SACCT_FORMAT, and the least of squeue's; of a line that has others, in an error."""
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
    command: str = ""
    """The file that sbatch was given; empty where that is not told."""
    shown_name: str = ""
    """What SLURM calls it, where somebody has given it another name than its batch's."""

    @property
    def active(self) -> bool:
        """Whether SLURM may still run it."""
        return self.state in ACTIVE


class Answer(dict[str, Job]):
    """Jobs by id, and the first line that makes no sense; None where all of it does."""

    nonsense: str | None = None


def parse(output: str) -> Answer:
    """An answer of squeue or sacct: the same seven columns, a bar between them, then a path of
    squeue's. Reasons may hold bars (`n[1|2]`).

    A row that stands for many elements (`12_[0-3,7%2]`) gives a job for each.
    """
    jobs = Answer()
    for line in filter(str.strip, output.splitlines()):
        columns = [column.strip() for column in line.split("|", COLUMNS - 1)]
        state = (columns[2].split() or [""])[0] if len(columns) == COLUMNS else ""
        # a state of a newer SLURM, or half a line, must not read as a job that is gone
        ids, is_complete = elements(columns[0])
        if not is_complete or state not in ACTIVE | FAILURES.keys():
            jobs.nonsense = jobs.nonsense or line.strip()[:SHOWN_CHARACTERS]
        if state not in ACTIVE | FAILURES.keys():
            continue
        _, name, _, node, elapsed, ended, last = columns
        reason, bar, path = last.partition("|/")
        if not bar:  # a job of no file: (null)
            reason = reason.removesuffix("|(null)")
        for job_id in ids:
            jobs[job_id] = Job(
                job_id=job_id,
                name=name,
                state=state,
                node="" if node in ("None assigned", "(null)") else node,
                elapsed=elapsed,
                ended=None if state in ACTIVE else _time(ended),
                reason="" if reason in ("None", "(null)") else reason,
                command=bar[1:] + path,
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
        elements = range(int(first), int(last or first) + 1, int(step or 1))
        # damaged digits could ask for a list that fills the memory
        yield elements if elements.stop <= MOST_ELEMENTS else None


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
