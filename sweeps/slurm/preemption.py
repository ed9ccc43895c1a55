"""Whether jobs that are preempted can save first: partitions, as `scontrol` shows them.

Preemption by quality of service has graces of its own, which no partition tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgrpo_bench import engines
from fgrpo_bench.specs import SlurmProfile
from sweeps.plan import Plan
from sweeps.slurm.scheduler import Call

SHOW = ["scontrol", "show", "partition", "--oneliner"]


def short_graces(plan: Plan, call: Call) -> Iterator[str]:
    """A warning for each partition that may end a run of the plan before it has saved, or one that
    SLURM did not tell; where no save is estimated it is not asked."""
    profile = plan.declaration.profile
    assert isinstance(profile, SlurmProfile)
    saving = engines.of(plan.points[0].train).save(plan.points[0], profile)
    if saving is None:
        return
    try:
        found = graces(profile.partition, call)
    except (ValueError, ConnectionError) as error:
        yield f"whether a run that is preempted can save is not known: {error}"
        return
    for name, grace in found.items():
        if grace < saving.seconds:
            yield (
                f"{saving}, and partition {name} gives jobs that it preempts {grace} s "
                "(GraceTime): such a run goes on from its last state; lower "
                "profile.placement.state_every, have GraceTime raised, or name another "
                "profile.partition"
            )


def graces(partition: str | None, call: Call) -> dict[str, int]:
    """GraceTime in seconds of those partitions whose jobs preemption may end.

    partition: names with commas, as for sbatch; None is the site's default. Raises as `call` does.
    """
    found = {}
    for line in call(SHOW).splitlines():
        facts = dict(re.findall(r"(\w+)=(\S*)", line))
        name, mode = facts.get("PartitionName", ""), facts.get("PreemptMode", "OFF")
        asked = facts.get("Default") == "YES" if partition is None else name in partition.split(",")
        if asked and {"REQUEUE", "CANCEL"} & set(mode.split(",")):
            found[name] = int(facts["GraceTime"]) if facts.get("GraceTime", "").isdecimal() else 0
    return found
