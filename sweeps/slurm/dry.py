"""`run --dry-run` on SLURM: the sbatch files that would be sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from fgrpo_bench.specs import Declaration, SlurmProfile
from fgrpo_bench.stages.paths import RunPaths
from sweeps.plan import Plan, plan_record
from sweeps.slurm import scheduler
from sweeps.slurm.arrays import arrange, is_job
from sweeps.slurm.code import code_folder
from sweeps.slurm.decide import decide
from sweeps.slurm.observe import in_queue, observe
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submit import Sender
from sweeps.text import echo

SLURM_DEFAULT_ARRAY = 1001
"""MaxArraySize where a site sets none; for a dry run where there is no SLURM to ask."""
FOR_READING = (
    "# For reading: sent by hand it fails, because `run` also hands over what the jobs do and\n"
    "# makes their folders; names of batches and ids of jobs are numbered here."
)
"""Follows the first line of each file of a dry run."""


def largest_array(
    declaration: Declaration, *, say: Callable[[str], None] = echo, call: Call = scheduler.call
) -> int:
    """Most elements of an array: the profile's word, or else the site's. Where no SLURM answers,
    that is said, and SLURM's own default stands in: a dry run needs no cluster."""
    profile = declaration.profile
    assert isinstance(profile, SlurmProfile)
    try:
        site = scheduler.max_array_size(scheduler.show_config(call))
    except (ValueError, ConnectionError) as error:
        say(f"note: no cluster was asked about what follows, and `run` needs one: {error}\n")
        site = SLURM_DEFAULT_ARRAY
    return profile.max_array_size or site


def dry_run(plan: Plan, paths: RunPaths, *, limit: int, call: Call = scheduler.call) -> list[str]:
    """The sbatch file of every batch that `run` would send, in order; writes and sends nothing.

    Each says that it is for reading: sbatch alone hands over nothing for the jobs to do.

    Names of batches are unique only when they are sent, and job ids are SLURM's: here both are
    numbered. What `run` would fetch before it sends anything counts as done. limit: most elements
    of an array.
    """
    profile = plan.declaration.profile
    assert isinstance(profile, SlurmProfile)
    records = plan_record(plan)["stages"]
    observed = observe(paths, records, call, warn=echo)
    seen = [replace(s, done=s.done or not is_job(s.record["kind"])) for s in observed.seen]
    decision = decide(seen, now=time.time(), max_attempts=profile.max_attempts)
    numbers: dict[str, int] = {}

    def name(kind: str) -> str:
        numbers[kind] = numbers.get(kind, 0) + 1
        return f"{paths.sweep}-{kind}-{numbers[kind]}"

    sendings = arrange(
        decision.submit,
        done={each.record["name"] for each in seen if each.done},
        places=in_queue(observed, decision),
        limit=limit,
        at_once=profile.max_parallel,
        name=name,
        now=time.time(),
    )
    by_name = {record["name"]: record for record in records}
    code = code_folder(paths.code)
    sender = Sender(paths=paths, profile=profile, code=code, records=by_name)
    texts = []
    for sending in sendings:
        sending.batch.job_id = f"JOB-OF-{sending.batch.name}"
        texts.append(sender.text(sending).replace("\n", f"\n{FOR_READING}\n", 1))
    return texts
