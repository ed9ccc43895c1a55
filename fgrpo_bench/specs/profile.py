"""Where and how wide to run, and how training and evaluations are laid out over GPUs.

Never identity: it is not what is meant to be computed (bits may differ with the number of threads,
the device and the layout over GPUs).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, Fraction, Name, NonNegative, Positive, PositiveFloat


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Placement:
    """How training over GPUs and vLLM use the machines of a profile. Changes speed and memory,
    never what is meant to be computed."""

    python: str | None
    """Interpreter of the environment that has them, as its path on the nodes; null is the one that
    the Makefile's target for it made in this checkout."""
    gpu_memory_gb: PositiveFloat | None
    """Memory of one GPU, GiB, for the check that everything fits; null checks nothing."""
    colocate: bool
    """Whether policy and vLLM engines share the same GPUs and take turns (sleep mode)."""
    actor_gpus_per_node: Positive
    """GPUs of the policy on each node."""
    vllm_engines: Positive
    """vLLM engines of training, over all nodes."""
    vllm_tensor_parallel: Positive
    """GPUs of one of them."""
    vllm_gpu_memory: Fraction
    """Share of a GPU's memory that one of them may take."""
    evaluation_engines: Positive
    """vLLM engines of one evaluation, each on GPUs of its own, drawing different problems."""
    evaluation_tensor_parallel: Positive
    """GPUs of one of them."""
    evaluation_gpu_memory: Fraction
    """Share of a GPU's memory that one of them may take."""
    vllm_max_num_seqs: Positive
    """Sequences that an engine draws at once, in training and in evaluation; more wait."""
    vllm_max_num_batched_tokens: Positive
    """Tokens of a forward pass of an engine, in training and in evaluation."""
    vllm_enforce_eager: bool
    """Whether vLLM runs without CUDA graphs: slower, starts sooner, needs less memory."""
    zero_stage: Annotated[int, Field(ge=0, le=3)]
    """DeepSpeed ZeRO: 2 shards optimizer and gradients, 3 the weights too."""
    adam_offload: bool
    """Whether the optimizer lives in the memory of the host."""
    gradient_checkpointing: bool
    """Whether activations are computed again in the backward pass."""
    attention: Literal["flash_attention_2", "sdpa", "eager"]
    """Attention of the policy."""
    packing: bool
    """Whether samples are packed without padding; needs flash attention."""
    train_micro_batch: Positive
    """Samples of a forward and backward pass on one GPU."""
    rollout_micro_batch: Positive
    """Samples of a forward pass on one GPU for the policy's log-probabilities."""
    max_tokens_per_gpu: Positive | None
    """Packs passes up to so many tokens instead of counting samples; null counts samples."""
    state_every: Positive
    """Steps between whole training states, from which a run continues after a crash."""
    states_kept: Positive
    """Whole training states that are kept, at least 2."""
    start_seconds: NonNegative
    """How long Ray may take to see all nodes before the job fails with what is missing."""

    def __post_init__(self) -> None:
        if self.states_kept < 2:
            raise ValueError(
                f"states_kept={self.states_kept}: the oldest state is deleted before the next is "
                "written, so a job killed while it saves would leave none to continue from; keep "
                "2 or more"
            )
        if self.vllm_max_num_batched_tokens < self.vllm_max_num_seqs:
            raise ValueError(
                f"vllm_max_num_batched_tokens={self.vllm_max_num_batched_tokens} is less than "
                f"vllm_max_num_seqs={self.vllm_max_num_seqs}: every sequence takes a token or more "
                "of a forward pass; raise the one or lower the other"
            )


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
    memory_growth: bool
    """Whether a stage that was out of memory is sent again with half as much again, as often as
    max_attempts allows and a node has it; false gives it up, as the same memory would not do."""
    time_minutes: Positive
    """Time limit of one job; a stage that needs longer saves, is requeued and resumes."""
    signal_seconds: Positive
    """How long before the time limit a stage is told to save; SLURM may tell it up to 60 s
    earlier."""
    save_gb_per_second: PositiveFloat | None
    """GB (10^9 bytes) of a training state that all processes of a run together write in a second;
    null estimates no save."""
    additional_parameters: dict[str, str]
    """Further sbatch options by long name without dashes, e.g. {reservation: spring}."""
    setup: tuple[str, ...]
    """Shell lines before the stage, e.g. `module load cuda`, each a whole command; one that fails
    ends the job."""
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
        if self.memory_growth and self.mem_gb is None:
            raise ValueError(
                "memory_growth=true with mem_gb=null: jobs ask for no memory that could grow; set "
                "profile.mem_gb, or profile.memory_growth=false"
            )


Profile = Annotated[LocalProfile | SlurmProfile, Field(discriminator="dispatcher")]
"""Where and how wide to run."""
