"""Where and how wide to run. Never identity: it is not what is meant to be computed (bits may
differ with the number of threads, the device and the layout over GPUs)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, Name, Positive, PositiveFloat
from fgrpo_bench.specs.placement import Placement


@dataclass(config=STRICT, frozen=True, kw_only=True)
class LocalProfile:
    """Worker processes on this machine."""

    name: Name
    """Name in commands."""
    dispatcher: Literal["local"]
    """local: a bounded pool of worker processes on this machine."""
    max_parallel: Positive | None
    """Workers at once; null is one a processor this process may use."""
    threads_per_worker: Positive
    """Threads of a worker; results are bit-identical only for equal thread counts."""
    device: Literal["cpu", "cuda"]
    """Where a worker computes."""
    placement: Placement
    """How runs over GPUs and vLLM use this machine."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class SlurmProfile:
    """Jobs of a SLURM cluster, one a stage."""

    name: Name
    """Name in commands."""
    dispatcher: Literal["slurm"]
    """slurm: job arrays, submitted and left alone."""
    partition: str | None
    """sbatch --partition; null is the site's default, likewise below."""
    account: str | None
    """sbatch --account."""
    qos: str | None
    """sbatch --qos."""
    constraint: str | None
    """sbatch --constraint: features a node must have."""
    exclude: str | None
    """sbatch --exclude: nodes to avoid, e.g. node[3-5]."""
    nodes: Positive
    """Nodes of a training run, by an engine that uses several; every other stage takes one."""
    gpus_per_node: Positive | None
    """GPUs of a stage on each node; null asks for none."""
    cpus_per_task: Positive
    """Processors of a stage."""
    mem_gb: PositiveFloat | None
    """Memory of a stage on each node, GiB; null asks for none, as where a cluster declares none."""
    time_minutes: Positive
    """Time limit of one job; a stage that needs longer saves, is requeued and goes on."""
    signal_seconds: Positive
    """How long before the time limit a stage is told to save; SLURM may tell it up to 60 s
    earlier."""
    save_gb_per_second: PositiveFloat | None
    """GB (10^9 bytes) of a training state that all processes of a run together write in a second;
    null estimates no save."""
    additional_parameters: dict[str, str]
    """Further sbatch options by long name without dashes, e.g. {reservation: spring}."""
    setup: tuple[str, ...]
    """Shell lines before the stage, e.g. `module load cuda`."""
    python: str | None
    """Interpreter of the jobs, as its path on the nodes; null is the one that submits."""
    shared_run_root: bool
    """true: nodes see the run root although it is on a disk of this machine, which exports it."""
    max_parallel: Positive
    """Jobs at once of one kind: training runs, and likewise evaluations beside them. It becomes the
    throttle of the job arrays, which SLURM counts array by array: the arrays of a kind that are
    sent together share it, evaluations run beside training, and what is submitted again later has
    a throttle of its own. A limit over all jobs is the site's to set (GrpJobs of an account or
    qos)."""
    max_array_size: Positive | None
    """Most elements of one array; null asks the site for its MaxArraySize."""
    max_attempts: Positive
    """Submissions of a stage before it is given up; a fault of the stage itself ends it at once."""
    threads_per_worker: Positive
    """Threads of a stage; results are bit-identical only for equal thread counts."""
    device: Literal["cpu", "cuda"]
    """Where a stage computes."""
    placement: Placement
    """How runs over GPUs and vLLM use the nodes of their job."""

    def __post_init__(self) -> None:
        if self.signal_seconds >= self.time_minutes * 60:
            raise ValueError(
                f"signal_seconds={self.signal_seconds} is not less than the time limit of "
                f"{self.time_minutes * 60} s: a stage could do nothing before it is told to save; "
                "lower it, or raise time_minutes"
            )
        if self.device == "cuda" and self.gpus_per_node is None:
            raise ValueError(
                "device='cuda' with gpus_per_node=null: the jobs would see no GPU; set "
                "profile.gpus_per_node=1, or profile.device=cpu"
            )


Profile = Annotated[LocalProfile | SlurmProfile, Field(discriminator="dispatcher")]
"""Where and how wide to run."""
