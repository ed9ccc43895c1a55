"""What jobs left behind: their notes, their logs, and batches that the journal does not know.

In: the folders of stages and batches, and the queue. Out: whether a job gets anywhere; why one
failed through no fault of its stage (its code was damaged, or the disk was full: another attempt
would meet the same wall); and `history`, the journal with what was lost of it. A job says in its
notes how it ended; one that could not even begin leaves a file beside its batch or its log.

Each batch has a folder of its own with what submitit packed, and beside it batch.json, which says
again what the journal said before the batch was sent. Where that is gone too, its name in the queue
tells whose it is: it carries a tag of the run folder, so that a sweep of the same name under
another run root is never taken for this one. What waits or runs on another cluster than the one
that answers here is left to that one. Next: sweeps.slurm.tick, which puts it together.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from fgrpo_bench.files import journal
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import FULL, noop, write_json
from fgrpo_bench.stages.attempts import Note, attempts, step, tail
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.plan import StageRecord
from sweeps.slurm import scheduler, submissions
from sweeps.slurm.code import damage, in_words, manifest_path
from sweeps.slurm.packing import output_file
from sweeps.slurm.scheduler import Answer, Call, Job
from sweeps.slurm.submissions import History, Intent, JobBatch, Place, from_row, kind_of
from sweeps.text import counted, printable

IDLE_ATTEMPTS = 3
"""A job whose stage got no further in so many attempts is not run again: it gets nowhere, whether
it stops by itself, is killed, or takes its node down."""
UNREADY = "unready"
"""Outcome of an attempt that found its input incomplete and did not start."""
FULL_WORDS = tuple(os.strerror(number) for number in FULL)
PROBE_BYTES = 65_536
"""What must fit before anything is sent: more than the files of a batch of some stages."""
TAIL_BYTES, SHOWN_CHARACTERS = 16_384, 300
"""Of the end of a log, where the line is looked for that says why; of that line."""
OF_SLURM = ("srun: ", "slurmstepd: ")
"""How the lines begin that SLURM itself writes into the output of a job."""


def last_note(stage: StagePaths, job_id: str | None, batch: str | None) -> Note | None:
    """What a job noted of its last attempt; None where it noted none."""
    return next(reversed(_of_job(stage, job_id, batch)), None)


def idle(stage: StagePaths, job_id: str | None, batch: str | None) -> bool:
    """Whether the last IDLE_ATTEMPTS of a job brought the stage no further. SLURM requeues a job
    as often as its node fails, so this is what ends a stage that makes its nodes fail."""
    return no_progress(stage, _of_job(stage, job_id, batch))


def of_batches(stage: StagePaths, batches: Collection[str]) -> list[Note]:
    """What the jobs of some batches noted, requeues of one job each for itself."""
    return [note for note in attempts(stage) if note.batch in batches]


def no_progress(stage: StagePaths, notes: Sequence[Note]) -> bool:
    """Whether the last IDLE_ATTEMPTS of some attempts brought the stage no further; one that found
    its input incomplete did not try."""
    begun = [note.from_step for note in notes if note.outcome != UNREADY]
    reached = [-1 if at is None else at for at in [*begun, step(stage)]]
    return len(begun) >= IDLE_ATTEMPTS and reached[-1] <= max(reached[:-IDLE_ATTEMPTS])


def _of_job(stage: StagePaths, job_id: str | None, batch: str | None) -> list[Note]:
    """Notes of a job, by its id and its batch's name, since ids are given again after a reset of
    the controller; those of workers have neither."""
    notes = [note for note in attempts(stage) if note.driver is None]
    return [note for note in notes if (note.job_id, note.batch) == (job_id, batch)]


def of_failure(stage: StagePaths, log: Path, code: Path) -> str | None:
    """Why an attempt failed, by what it left behind; None where it was the stage's own doing.

    log: of the attempt. code: the frozen code that it ran; any other folder is passed over.
    """
    wrong = damage(code) if manifest_path(code).exists() else {}
    if wrong:
        return damaged_code(in_words(wrong))
    return _full_disk(log) or _no_room(stage.folder)


def of_start(batch: Path, job_id: str) -> Note | None:
    """In place of a note of a job that failed before it could write one, which counts no attempt;
    None where it said nothing of the kind.

    batch: folder of its batch.
    """
    log = output_file(batch, job_id)
    words = _damaged(damaged_path(batch, job_id)) or _full_disk(log)
    if words is None and log.exists() and log.stat().st_size == 0:
        words = f"disk full? it could not even write its log, {log}"
    if words is None:
        return None
    return Note(attempt=0, outcome="failed", exit_code=1, why=words)


def last_words(output: Path) -> str:
    """The last line of a job's own output that is not SLURM's, and the file; empty where it left
    none."""
    try:
        lines = [line for line in tail(output, TAIL_BYTES) if line.strip()]
    except OSError:
        return ""
    program_lines = [line for line in lines if not line.startswith(OF_SLURM)]
    return f"{printable(program_lines[-1], SHOWN_CHARACTERS)} ({output})" if program_lines else ""


def outputs(paths: RunPaths) -> dict[str, Path]:
    """By stage, the output of the job that it was sent with last, where that wrote any."""
    files = {
        stage: output_file(paths.batch(places[-1].batch.name), places[-1].job_id)
        for stage, places in submissions.read(paths.submissions).places().items()
        if places[-1].job_id is not None
    }
    return {stage: file for stage, file in files.items() if file.exists()}


def damaged_path(batch: Path, job_id: str) -> Path:
    """Where a job says what it found damaged of its code: the words of sha256sum or of cd."""
    return batch / f"{job_id}.damaged"


def damaged_code(words: str) -> str:
    """The exit reason of a job whose code was not as it was frozen."""
    return f"its code was damaged: {words}"


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
    return damaged_code(in_words(wrong) if wrong else text.strip()[:SHOWN_CHARACTERS])


def _full_disk(log: Path) -> str | None:
    """The last line of a log that says that the disk is full."""
    try:
        lines = tail(log, TAIL_BYTES)
    except OSError:
        return None
    for line in reversed(lines):
        if any(words in line for words in FULL_WORDS):
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


CARD = "batch.json"


def batch_name(paths: RunPaths, kind: str) -> str:
    """A job name that no other batch ever had, e.g. smoke-train-5d41c01f0c66a2b9: the run folder's
    mark and a random number."""
    return f"{paths.sweep}-{kind}-{run_tag(paths)}{uuid.uuid4().hex[:10]}"


def run_tag(paths: RunPaths) -> str:
    """Six digits that stand for the run folder, wherever on this machine it is reached from."""
    return hashlib.sha256(str(paths.folder.resolve()).encode()).hexdigest()[:6]


def is_own(paths: RunPaths, name: str) -> bool:
    """Whether a job name carries the run folder's mark."""
    form = rf"{re.escape(paths.sweep)}-[a-z]+-{run_tag(paths)}[0-9a-f]{{10}}"
    return re.fullmatch(form, name) is not None


def write_card(paths: RunPaths, batch: JobBatch, code: str | None) -> None:
    """Say in the batch's own folder what it runs."""
    card = journal.with_checksum(submissions.as_row(batch.intent(code)))
    write_json(paths.batch(batch.name) / CARD, card)


def history(paths: RunPaths, warn: Callable[[str], None]) -> History:
    """What the journal says, and what the folders of batches say of which it does not."""
    known = submissions.read(paths.submissions)
    if known.damaged:
        message = journal.passed_over(paths.submissions, known.damaged)
        warn(f"warning: {message}; what SLURM has is found by its jobs' names")
    folder = paths.batch("")
    names = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    lost = [name for name in names if name.startswith(f"{paths.sweep}-")]
    lost = [n for n in lost if n not in known.batches or not known.batches[n].known]
    codes = {}
    for name in lost:
        former = known.batches.get(name)
        batch, code = _read_card(paths, name)
        if former is None:
            known.insert(batch)
        elif not former.void:
            former.stages, former.begun, former.recovered = batch.stages, batch.begun, True
            former.cluster = batch.cluster
        codes[batch.begun] = code
    known.code = known.code or (codes[max(codes)] if codes else None)
    return known


def _read_card(paths: RunPaths, name: str) -> tuple[JobBatch, str | None]:
    """The batch of a folder and the code that it runs; one of which nothing is known where the
    card is missing or damaged."""
    batch = JobBatch(name=name, kind=kind_of(name), recovered=True)
    try:
        card = from_row(journal.opened((paths.batch(name) / CARD).read_bytes()))
    except OSError:
        return batch, None
    if not isinstance(card, Intent) or card.batch != name:
        return batch, None
    batch.stages, batch.begun, batch.cluster = card.stages, card.time, card.cluster
    return batch, card.code


def orphan_jobs(paths: RunPaths, known: History, call: Call) -> list[Job]:
    """Active jobs under names of this sweep of which neither journal nor folder tells."""
    queue = scheduler.squeue_of_user(call).values()
    unknown = [job for job in queue if job.active and job.name not in known.batches]
    return [job for job in unknown if is_own(paths, job.name)]


def at_home(
    paths: RunPaths,
    records: Sequence[StageRecord],
    call: Call,
    warn: Callable[[str], None] = noop,
) -> tuple[History, Answer]:
    """What was sent and what squeue shows of it; raises as `check_cluster`.

    records: the stages as plan.json lists them.
    """
    known = history(paths, warn)
    queue = scheduler.squeue(known.batches, call)
    check_cluster(paths, known, undone(paths, records), queue, call)
    return known, queue


def undone(paths: RunPaths, records: Sequence[StageRecord]) -> set[str]:
    """Names of the stages, listed as in plan.json, that have no marker of what is asked for."""
    return {
        record.name
        for record in records
        if not is_done(
            StagePaths(paths.folder / record.name),
            fingerprint=record.fingerprint,
            target=record.target,
        )
    }


def check_cluster(
    paths: RunPaths, known: History, undone: Iterable[str], shown: Mapping[str, Job], call: Call
) -> None:
    """ValueError where stages wait or run on another cluster than the one that answers here, which
    would take them for lost.

    undone: names of stages without a marker. shown: what squeue shows of the sweep's batches; where
    it shows any of theirs, this is their cluster and it is not asked for its name.
    """
    places = known.places()
    sent = {stage: places[stage][-1] for stage in undone if places[stage]}
    names = {place.batch.name for place in sent.values()}
    if any(job.name in names for job in shown.values()):
        return
    homes = Counter(
        place.batch.cluster
        for stage, place in sent.items()
        if place.batch.cluster is not None and not _has_ended(paths, stage, place)
    )
    if not homes:
        return
    here = scheduler.cluster_name(scheduler.show_config(call))
    for home, count in homes.items():
        if here not in (None, home):
            raise ValueError(
                f"this is cluster {here}, and {counted(count, 'stage')} of {paths.folder} that "
                f"{'is' if count == 1 else 'are'} not done went to cluster {home}, which alone "
                "knows what became of the jobs; nothing was done here: give this command on a "
                f"machine that submits to {home}, or `cancel` there first to go on here"
            )


def _has_ended(paths: RunPaths, stage: str, place: Place) -> bool:
    """Whether its job itself noted that no requeue will go on with it."""
    note = last_note(StagePaths(paths.folder / stage), place.job_id, place.batch.name)
    return note is not None and note.outcome not in (None, "stopped")
