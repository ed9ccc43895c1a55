"""What was sent, even where the journal does not know it: batches' own cards and SLURM's queue.

In: the journal, the folders of batches, and the queue. Out: `history`, the journal with what was
lost of it, and whether the cluster that answers here is the one that has the jobs.

Each batch has a folder of its own with what submitit packed, and beside it batch.json, which says
again what the journal said before the batch was sent. Where that is gone too, its name in the queue
tells whose it is: it carries a tag of the run folder, so that a sweep of the same name under
another run root is never taken for this one. What waits or runs on another cluster than the one
that answers here is left to that one. Next: sweeps.slurm.tick, which puts it together.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from fgrpo_bench.files import journal
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import noop, write_json
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.plan import StageRecord
from sweeps.slurm import scheduler, submissions
from sweeps.slurm.attempts import last_note
from sweeps.slurm.packing import output_file
from sweeps.slurm.scheduler import Answer, Call, Job
from sweeps.slurm.submissions import History, Intent, JobBatch, Place, batch_kind, from_row
from sweeps.text import counted

CARD = "batch.json"


def batch_name(paths: RunPaths, kind: str) -> str:
    """A job name that no other batch ever had, e.g. smoke-train-5d41c01f0c66a2b9: the run folder's
    mark and a random number."""
    return f"{paths.sweep}-{kind}-{_run_tag(paths)}{uuid.uuid4().hex[:10]}"


def _run_tag(paths: RunPaths) -> str:
    """Six digits that stand for the run folder, wherever on this machine it is reached from."""
    return hashlib.sha256(str(paths.folder.resolve()).encode()).hexdigest()[:6]


def has_run_tag(paths: RunPaths, name: str) -> bool:
    """Whether a job name carries the run folder's mark."""
    form = rf"{re.escape(paths.sweep)}-[a-z]+-{_run_tag(paths)}[0-9a-f]{{10}}"
    return re.fullmatch(form, name) is not None


def write_card(paths: RunPaths, batch: JobBatch, code: str | None) -> None:
    """Say in the batch's own folder what it runs."""
    card = journal.with_crc(submissions.as_row(batch.intent(code)))
    write_json(paths.batch(batch.name) / CARD, card)


def read_history(paths: RunPaths, warn: Callable[[str], None]) -> History:
    """What the journal says, and what the folders of batches say of which it does not."""
    history = submissions.read(paths.submissions)
    if history.damaged:
        message = journal.passed_over(paths.submissions, history.damaged)
        warn(f"warning: {message}; what SLURM has is found by its jobs' names")
    folder = paths.batch("")
    names = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
    lost = [name for name in names if name.startswith(f"{paths.sweep}-")]
    lost = [n for n in lost if n not in history.batches or not history.batches[n].is_described]
    codes = {}
    for name in lost:
        former = history.batches.get(name)
        batch, code = _read_card(paths, name)
        if former is None:
            history.insert(batch)
        # the journal lost the intent and has a later line: the card says what the intent said
        elif not former.void:
            former.stages, former.begun, former.recovered = batch.stages, batch.begun, True
            former.cluster, former.memory = batch.cluster, batch.memory
        codes[batch.begun] = code
    # of the batch that was begun last, as `retry` may have frozen the code anew
    history.code = history.code or (codes[max(codes)] if codes else None)
    return history


def _read_card(paths: RunPaths, name: str) -> tuple[JobBatch, str | None]:
    """The batch of a folder and the code that it runs; one of which nothing is known where the
    card is missing or damaged."""
    batch = JobBatch(name=name, kind=batch_kind(name), recovered=True)
    try:
        card = from_row(journal.opened((paths.batch(name) / CARD).read_bytes()))
    except OSError:
        return batch, None
    # a folder that was copied has the card of another batch
    if not isinstance(card, Intent) or card.batch != name:
        return batch, None
    batch.stages, batch.begun, batch.cluster = card.stages, card.time, card.cluster
    batch.memory = card.memory
    return batch, card.code


def outputs(paths: RunPaths) -> dict[str, Path]:
    """By stage, the output of the job that it was sent with last, where that wrote any."""
    files = {
        stage: output_file(paths.batch(places[-1].batch.name), places[-1].job_id)
        for stage, places in submissions.read(paths.submissions).places().items()
        if places[-1].job_id is not None
    }
    return {stage: file for stage, file in files.items() if file.exists()}


def sweep_jobs(paths: RunPaths, history: History, call: Call) -> Answer:
    """All jobs of the sweep in the queue: of its batches, renamed ones too, and those under its
    names of which neither journal nor folder tells."""
    answer = Answer()
    user_jobs = scheduler.squeue_by_user(call)
    answer.nonsense = user_jobs.nonsense
    for job_id, job in user_jobs.items():
        if job.name in history.batches or has_run_tag(paths, job.name):
            answer[job_id] = job
    return answer


def queued_jobs(history: History, undone: Iterable[str], call: Call) -> Answer:
    """What squeue shows of a sweep's batches; where none is under the name of one that has stages
    undone, also what was renamed."""
    shown = scheduler.squeue(history.batches, call)
    places = history.places()
    awaited = {places[stage][-1].batch.name for stage in undone if places[stage]}
    # `scontrol update name=` takes a job out of the query by name; that of all jobs is slower.
    if awaited.issubset(job.name for job in shown.values()):
        return shown
    user_jobs = scheduler.squeue_by_user(call)
    shown.nonsense = shown.nonsense or user_jobs.nonsense
    for job_id, job in user_jobs.items():
        if job.shown_name and job.name in history.batches:
            shown[job_id] = job
    return shown


def history_and_queue(
    paths: RunPaths,
    records: Sequence[StageRecord],
    call: Call,
    warn: Callable[[str], None] = noop,
) -> tuple[History, Answer]:
    """What was sent and what squeue shows of it; raises as `check_cluster`.

    records: the stages as plan.json lists them.
    """
    history = read_history(paths, warn)
    unfinished = undone(paths, records)
    queue = queued_jobs(history, unfinished, call)
    check_cluster(paths, history, unfinished, queue, call)
    return history, queue


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
    paths: RunPaths, history: History, undone: Iterable[str], shown: Mapping[str, Job], call: Call
) -> None:
    """ValueError where stages wait or run on another cluster than the one that answers here, which
    would take them for lost.

    undone: names of stages without a marker. shown: what squeue shows of the sweep's batches; where
    it shows any of theirs, this is their cluster and it is not asked for its name.
    """
    places = history.places()
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
    answering = scheduler.cluster_name(scheduler.show_config(call))
    for home, count in homes.items():
        # a controller that names no cluster is believed to be the right one
        if answering not in (None, home):
            raise ValueError(
                f"this is cluster {answering}, and {counted(count, 'stage')} of {paths.folder} "
                f"that {'is' if count == 1 else 'are'} not done went to cluster {home}, which "
                "alone knows what became of the jobs; nothing was done here: give this command on "
                f"a machine that submits to {home}, or `cancel` there first to resume here"
            )


def _has_ended(paths: RunPaths, stage: str, place: Place) -> bool:
    """Whether its job itself noted that no requeue will resume it."""
    note = last_note(StagePaths(paths.folder / stage), place.job_id, place.batch.name)
    return note is not None and note.outcome not in (None, "stopped")
