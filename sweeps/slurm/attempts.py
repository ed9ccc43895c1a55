"""What jobs left behind: their notes and their logs.

In: the folders of stages and batches. Out: whether a job gets anywhere, and why one failed through
no fault of its stage (its code was damaged, or the disk was full: another attempt would meet the
same wall). A job says in its notes how it ended; one that could not even begin leaves a file beside
its batch or its log. Every job imports this, so it loads little. Next: sweeps.slurm.decide.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import FULL
from fgrpo_bench.stages.attempts import Note, attempts, step, tail
from sweeps.slurm.code import damage, describe_damaged_files, manifest_path
from sweeps.slurm.packing import output_file
from sweeps.text import printable

IDLE_ATTEMPTS = 3
"""A job whose stage got no further in so many attempts is not run again: it gets nowhere, whether
it stops by itself, is killed, or takes its node down."""
UNREADY = "unready"
"""Outcome of an attempt that found its input incomplete and did not start."""
DISK_FULL_MESSAGES = tuple(os.strerror(number) for number in FULL)
PROBE_BYTES = 65_536
"""What must fit before anything is sent: more than the files of a batch of some stages."""
TAIL_BYTES, SHOWN_CHARACTERS = 16_384, 300
"""Of the end of a log, where the line is looked for that says why; of that line."""
SLURM_LINE = re.compile(r"(srun|slurmstepd[^\s:]*): ")
"""How the lines begin that SLURM itself writes into the output of a job."""
MEMORY_KILL = re.compile(
    r"exceeded .*memory limit|oom[-_ ]kill|out-of-memory handler|: Out Of Memory$", re.IGNORECASE
)
"""What SLURM says of a kill for memory: by its own count (OverMemoryKill), and by the cgroup."""


def last_note(stage: StagePaths, job_id: str | None, batch: str | None) -> Note | None:
    """What a job noted of its last attempt; None where it noted none."""
    return next(reversed(_job_notes(stage, job_id, batch)), None)


def idle(stage: StagePaths, job_id: str | None, batch: str | None) -> bool:
    """Whether the last IDLE_ATTEMPTS of a job brought the stage no further. SLURM requeues a job
    as often as its node fails, so this is what ends a stage that makes its nodes fail."""
    return no_progress(stage, _job_notes(stage, job_id, batch))


def batch_notes(stage: StagePaths, batches: Collection[str]) -> list[Note]:
    """What the jobs of some batches noted, requeues of one job each for itself."""
    return [note for note in attempts(stage) if note.batch in batches]


def no_progress(stage: StagePaths, notes: Sequence[Note]) -> bool:
    """Whether the last IDLE_ATTEMPTS of some attempts brought the stage no further; one that found
    its input incomplete did not try."""
    begun = [note.from_step for note in notes if note.outcome != UNREADY]
    reached = [-1 if at is None else at for at in [*begun, step(stage)]]
    return len(begun) >= IDLE_ATTEMPTS and reached[-1] <= max(reached[:-IDLE_ATTEMPTS])


def _job_notes(stage: StagePaths, job_id: str | None, batch: str | None) -> list[Note]:
    """Notes of a job, by its id and its batch's name, since ids are given again after a reset of
    the controller; those of workers have neither."""
    notes = [note for note in attempts(stage) if note.driver is None]
    return [note for note in notes if (note.job_id, note.batch) == (job_id, batch)]


def failure_reason(stage: StagePaths, log: Path, code: Path) -> str | None:
    """Why an attempt failed, by what it left behind; None where it was the stage's own doing.

    log: of the attempt. code: the frozen code that it ran; any other folder is passed over.
    """
    wrong = damage(code) if manifest_path(code).exists() else {}
    if wrong:
        return _damaged_code(describe_damaged_files(wrong))
    return _full_disk(log) or _no_room(stage.folder)


def start_failure(batch: Path, job_id: str) -> Note | None:
    """In place of a note of a job that failed before it could write one, which counts no attempt;
    None where it said nothing of the kind.

    batch: folder of its batch.
    """
    log = output_file(batch, job_id)
    failure = _damaged(damaged_path(batch, job_id)) or _full_disk(log)
    if failure is None and log.exists() and log.stat().st_size == 0:
        failure = f"disk full? it could not even write its log, {log}"
    if failure is None:
        return None
    return Note(attempt=0, outcome="failed", exit_code=1, why=failure)


def last_output_line(output: Path) -> str:
    """The last line of a job's own output that is not SLURM's, and the file; empty where it left
    none."""
    try:
        lines = [line for line in tail(output, TAIL_BYTES) if line.strip()]
    except OSError:
        return ""
    program_lines = [line for line in lines if SLURM_LINE.match(line) is None]
    return f"{printable(program_lines[-1], SHOWN_CHARACTERS)} ({output})" if program_lines else ""


def is_memory_kill(output: Path) -> bool:
    """Whether SLURM says in a job's output that it killed for memory, as a state OUT_OF_MEMORY does
    only where cgroups bound the job."""
    try:
        lines = tail(output, TAIL_BYTES)
    except OSError:
        return False
    return any(SLURM_LINE.match(line) and MEMORY_KILL.search(line) for line in lines)


def damaged_path(batch: Path, job_id: str) -> Path:
    """Where a job says what it found damaged of its code: the words of sha256sum or of cd."""
    return batch / f"{job_id}.damaged"


def _damaged_code(details: str) -> str:
    """The exit reason of a job whose code was not as it was frozen."""
    return f"its code was damaged: {details}"


def check_room(folder: Path) -> None:
    """Raises OSError that names the folder where nothing more can be written under it."""
    fault = _no_room(folder)
    if fault is not None:
        raise OSError(
            errno.ENOSPC,
            f"{fault}; nothing was submitted, as jobs would fail: free some space and run the same "
            "command again",
        )


def _damaged(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    failed = re.findall(r"^(.+): FAILED( open or read)?$", text, re.MULTILINE)
    wrong = {name: "is missing" if unread else "was changed" for name, unread in failed}
    return _damaged_code(
        describe_damaged_files(wrong) if wrong else text.strip()[:SHOWN_CHARACTERS]
    )


def _full_disk(log: Path) -> str | None:
    """The last line of a log that says that the disk is full."""
    try:
        lines = tail(log, TAIL_BYTES)
    except OSError:
        return None
    for line in reversed(lines):
        if any(phrase in line for phrase in DISK_FULL_MESSAGES):
            named = re.search(r"cannot .*", line)
            message = (named[0] if named else line).strip()[:SHOWN_CHARACTERS]
            return f"disk full: {message}" + ("" if "/" in message else f" (it wrote {log})")
    return None


def _no_room(folder: Path) -> str | None:
    """What is said of a folder whose disk takes no more; None where it does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            # a full disk may say so only when the bytes reach it
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in FULL:
            return f"disk full: cannot write under {folder}: {error.strerror}"
    return None
