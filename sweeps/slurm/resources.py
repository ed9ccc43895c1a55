"""What a job asks of SLURM: a training run takes what the profile says, everything else its share.

A profile is written for training. An evaluation is a vLLM engine or some, likelihoods are one's, a
report needs no GPU at all: each asks for the GPUs that it uses and for as large a part of a node's
processors and memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from fgrpo_bench.kinds import KINDS
from fgrpo_bench.specs import SlurmProfile
from sweeps.slurm.submissions import REPORT


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Of one job."""

    nodes: int
    gpus_per_node: int | None
    """None asks for none."""
    cpus_per_task: int
    mem_mb: int | None
    """On each node; None leaves it to the site."""


def resources(profile: SlurmProfile, kind: str, *, openrlhf: bool) -> Resources:
    """Those of a job of a kind of stage, or of the report.

    openrlhf: whether it runs in that environment, with several GPUs where the placement says so.
    """
    gpus = profile.gpus_per_node
    used, takes = gpus, KINDS[kind].takes if kind in KINDS else "engines"
    if gpus is not None and takes != "profile":
        placement = profile.openrlhf
        engines = 1 if takes == "engine" else placement.evaluation_engines
        used = engines * placement.evaluation_tensor_parallel if openrlhf else 1
    share = 1.0 if gpus is None or used is None else used / gpus
    return Resources(
        nodes=profile.nodes if takes == "profile" else 1,
        gpus_per_node=None if kind == REPORT else used,
        cpus_per_task=ceil(profile.cpus_per_task * share),
        mem_mb=None if profile.mem_gb is None else ceil(profile.mem_gb * 1024 * share),
    )
