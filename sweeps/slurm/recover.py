"""What a sweep has in SLURM's hands where its journal does not tell: by folders and by names.

Each batch has a folder of its own with what submitit packed, and beside it batch.json, which says
again what the journal said before the batch was sent. So a batch whose lines are lost is known by
its folder. Where that is gone too, its name in the queue tells whose it is: it carries a mark of
the run folder, so that a sweep of the same name under another run root is never taken for this one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable

from fgrpo_bench.stages import journal
from fgrpo_bench.stages.files import write_json
from fgrpo_bench.stages.paths import RunPaths
from sweeps.slurm import scheduler, submissions
from sweeps.slurm.answers import Job
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import Batch, History, is_event, kind_of

CARD = "batch.json"


def batch_name(paths: RunPaths, kind: str) -> str:
    """A job name that no other batch ever had, e.g. smoke-train-5d41c01f0c66a2b9: the run folder's
    mark and a random number."""
    return f"{paths.sweep}-{kind}-{mark(paths)}{uuid.uuid4().hex[:10]}"


def mark(paths: RunPaths) -> str:
    """Six digits that stand for the run folder, wherever on this machine it is reached from."""
    return hashlib.sha256(str(paths.folder.resolve()).encode()).hexdigest()[:6]


def is_own(paths: RunPaths, name: str) -> bool:
    """Whether a job name carries the run folder's mark."""
    form = rf"{re.escape(paths.sweep)}-[a-z]+-{mark(paths)}[0-9a-f]{{10}}"
    return re.fullmatch(form, name) is not None


def write_card(paths: RunPaths, batch: Batch, code: str | None) -> None:
    """Say in the batch's own folder what it runs."""
    card = journal.sealed({"event": "intent"} | batch.intent(code))
    write_json(paths.batch(batch.name) / CARD, card)


def history(paths: RunPaths, warn: Callable[[str], None]) -> History:
    """What the journal says, and what the folders of batches say of which it does not."""
    known = submissions.read(paths.submissions)
    if known.damaged:
        message = journal.passed_over(paths.submissions, known.damaged)
        warn(f"warning: {message}; what SLURM has is found by its jobs' names")
    folder = paths.batch("")
    names = sorted(each.name for each in folder.iterdir()) if folder.exists() else []
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
        codes[batch.begun] = code
    known.code = known.code or (codes[max(codes)] if codes else None)
    return known


def _read_card(paths: RunPaths, name: str) -> tuple[Batch, str | None]:
    """The batch of a folder and the code that it runs; one of which nothing is known where the
    card is missing or damaged."""
    batch = Batch(name=name, kind=kind_of(name), recovered=True)
    try:
        card = journal.opened((paths.batch(name) / CARD).read_bytes())
    except OSError:
        return batch, None
    if card is None or not is_event(card) or (card["event"], card.get("batch")) != ("intent", name):
        return batch, None
    batch.stages, batch.begun = tuple(card["stages"]), card["time"]
    return batch, card.get("code")


def strays(paths: RunPaths, known: History, call: Call) -> list[Job]:
    """Active jobs under names of this sweep of which neither journal nor folder tells."""
    queue = scheduler.squeue_of_user(call).values()
    own = [job for job in queue if job.active and job.name not in known.batches]
    return [job for job in own if is_own(paths, job.name)]
