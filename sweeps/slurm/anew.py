"""Jobs that wait with other demands than `run` makes now: they are sent again with the new ones.

A time limit, a partition or memory that is given to `run` would else reach only what is sent later.
What a batch asked for is read from the very file that was sent; SLURM's own word is not compared,
as a site may have changed what was asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from submitit.core.utils import JobPaths

from sweeps.slurm.arrays import Sending
from sweeps.slurm.judge import Seen
from sweeps.slurm.submissions import Batch
from sweeps.slurm.submit import Sender

OPTION = "#SBATCH --"
OF_BATCH = ("array", "dependency", "error", "job-name", "output")
"""Options that are a batch's own, whatever the profile says."""


def asked_anew(seen: Iterable[Seen], sender: Sender) -> list[Seen]:
    """With `anew` at every stage whose job waits and asked otherwise than it would now."""
    changes: dict[str, str] = {}
    renewed = []
    for one in seen:
        waits = one.queued and one.job is not None and one.job.state == "PENDING"
        if one.place is None or one.done or not waits:
            renewed.append(one)
            continue
        batch = one.place.batch
        if batch.name not in changes:
            changes[batch.name] = changed(sender, batch)
        renewed.append(replace(one, anew=changes[batch.name]))
    return renewed


def changed(sender: Sender, batch: Batch) -> str:
    """e.g. `--time=2 in place of --time=5`; empty where a batch would ask for the same now, or what
    was sent is not there any more."""
    path = JobPaths(sender.paths.batch(batch.name), job_id=batch.job_id).submission_file
    if not path.exists():
        return ""
    sent = options(path.read_text(encoding="utf-8", errors="replace"))
    now = options(sender.text(Sending(batch=batch)))
    return ", ".join(
        f"{_shown(key, now)} in place of {_shown(key, sent)}"
        for key in sorted(now.keys() | sent.keys())
        if now.get(key) != sent.get(key)
    )


def options(text: str) -> dict[str, str]:
    """What an sbatch file asks of SLURM, by option; empty for one without a value."""
    lines = (line.removeprefix(OPTION) for line in text.splitlines() if line.startswith(OPTION))
    pairs = (line.partition("=") for line in lines)
    return {key: value for key, _, value in pairs if key not in OF_BATCH}


def _shown(key: str, of: dict[str, str]) -> str:
    if key not in of:
        return f"no --{key}"
    return f"--{key}={of[key]}" if of[key] else f"--{key}"
