"""What can be declared: frozen, strictly validated types, from a grid down to one point.

YAML becomes these types in `fgrpo_bench.config`; the plan makes `SweepPoint`s of them; nothing
downstream sees a raw dictionary. There are no default values here: each value stands once, in
conf/. The text under a field says its unit and is quoted in error messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

_STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
GroupSize = Annotated[int, Field(ge=2)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]

T = TypeVar("T")


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class TaskSpec:
    """A generated task: what a problem is, and how its problems are split."""

    name: Name
    """A key of fgrpo_bench.tasks.TASKS."""
    seed: NonNegative
    """Seed of the generator and of the split into training and held-out problems."""
    n_digits: Annotated[int, Field(ge=2, le=5)]
    """Digits a problem offers, each to be used once."""
    max_target: Annotated[int, Field(ge=1, le=99)]
    """Largest target value; targets run from 1."""
    heldout_fraction: Annotated[float, Field(gt=0, lt=1)]
    """Share of the problems that training never sees."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class ModelSpec:
    """A small transformer of the Qwen2 architecture, trained from scratch."""

    name: Name
    """Name in tables."""
    hidden_size: Positive
    """Width of the residual stream."""
    n_layers: Positive
    """Number of decoder layers."""
    n_heads: Positive
    """Attention heads; hidden_size / n_heads should be 32 or more (vLLM on CPU refuses 24)."""
    n_kv_heads: Positive
    """Key/value heads (grouped-query attention); divides n_heads."""
    intermediate_size: Positive
    """Width of the gated MLP."""
    rope_theta: PositiveFloat
    """Base of the rotary position embedding."""

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.n_heads) or self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size}, n_heads={self.n_heads}, "
                f"n_kv_heads={self.n_kv_heads}: hidden_size must be a multiple of 2 * n_heads and "
                "n_heads of n_kv_heads; choose e.g. 96, 3, 3"
            )


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class WarmupSpec:
    """Supervised warm-up on demonstrations: the base model of one training seed."""

    steps: Positive
    """Optimizer steps."""
    batch_size: Positive
    """Demonstrations a step."""
    learning_rate: PositiveFloat
    """Peak learning rate of AdamW."""
    weight_decay: NonNegativeFloat
    """AdamW weight decay."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class AlgorithmSpec:
    """A base algorithm: its surrogate objective and clip bounds (paper, section 5)."""

    name: Name
    """Name in grids and tables."""
    objective: Literal["clip", "cispo"]
    """clip: min(r A, clip(r) A). cispo: sg(clip(r)) A log pi."""
    clip_low: NonNegativeFloat
    """The ratio is clipped at 1 - clip_low from below."""
    clip_high: NonNegativeFloat
    """The ratio is clipped at 1 + clip_high from above."""
    loss_aggregation: Literal["token_mean", "sequence_mean"]
    """token_mean: all tokens of the batch weigh the same (the paper's choice)."""
    dynamic_sampling: bool
    """DAPO: draw further prompts until the batch holds active groups only."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class TrainSpec:
    """Everything of a training run that its cell (algorithm, N, gamma, seed) does not say."""

    engine: Literal["embedded"]
    """Training engine; embedded is the one-process engine of this package."""
    task: TaskSpec
    """Where the training problems come from."""
    model: ModelSpec
    """Architecture of the policy."""
    warmup: WarmupSpec
    """How the base model is made."""
    budget: Literal["constant_rollouts", "constant_prompts"]
    """What every cell of a group-size grid shares: rollouts a step, or prompts a step."""
    rollouts_per_step: Positive | None
    """Rollouts a step under constant_rollouts, else null."""
    prompts_per_step: Positive | None
    """Prompts a step under constant_prompts (the paper's convention: 256), else null."""
    steps: Positive
    """Rollout batches."""
    updates_per_batch: Positive
    """Optimizer steps a rollout batch (the paper's value: 4)."""
    learning_rate: PositiveFloat
    """AdamW learning rate, constant after the warm-up updates."""
    lr_warmup_updates: NonNegative
    """Optimizer steps of linear learning-rate warm-up."""
    beta1: Fraction
    """AdamW beta 1."""
    beta2: Fraction
    """AdamW beta 2."""
    weight_decay: NonNegativeFloat
    """AdamW weight decay."""
    grad_clip: PositiveFloat
    """Largest global gradient norm."""
    temperature: PositiveFloat
    """Sampling temperature of the rollouts."""
    save_every: Positive
    """Steps between Hugging Face checkpoints; the last step always has one."""
    eval_every: NonNegative
    """Steps between evaluations during training; 0 is never."""
    eval_n_problems: Positive
    """Held-out problems of an evaluation during training."""
    eval_n_samples: Positive
    """Draws a problem of an evaluation during training."""

    def __post_init__(self) -> None:
        wanted = {"constant_rollouts": "rollouts_per_step", "constant_prompts": "prompts_per_step"}
        for budget, field in wanted.items():
            given = getattr(self, field) is not None
            if given != (budget == self.budget):
                state = "is missing" if not given else f"= {getattr(self, field)} is set"
                raise ValueError(
                    f"budget={self.budget} but {field} {state}: constant_rollouts takes "
                    "rollouts_per_step, constant_prompts takes prompts_per_step, and the other "
                    "must be null"
                )


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class BenchmarkSpec:
    """A set of problems with a grader."""

    name: Name
    """Name in paths, tables and metrics."""
    split: Literal["heldout"]
    """Which problems of the task are drawn on."""
    n_problems: Positive
    """How many problems; the first n of the split."""
    grader: Name
    """A key of fgrpo_bench.graders.GRADERS."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class EvalSpec:
    """How checkpoints are judged: draws, sampling settings and the k of pass@k."""

    name: Name
    """Name in paths."""
    benchmarks: dict[str, BenchmarkSpec]
    """Benchmarks by name."""
    n_samples: Positive
    """n: draws a problem. A target: raising it later adds draws to those that exist."""
    ks: tuple[Positive, ...]
    """The k of pass@k; none above n_samples. n = k is a coin flip per problem: prefer n > k."""
    temperature: PositiveFloat
    """Sampling temperature."""
    top_p: Annotated[float, Field(ge=1, le=1)]
    """Nucleus sampling; 1.0 is off (the paper's setting and the only one the engine has)."""
    dtype: Literal["float32"]
    """Number type of the weights while sampling."""
    seed: NonNegative
    """Base of every draw's own seed."""

    def __post_init__(self) -> None:
        if not self.benchmarks or not self.ks:
            raise ValueError("benchmarks and ks must not be empty: name at least one of each")
        if list(self.ks) != sorted(set(self.ks)):
            raise ValueError(f"ks={list(self.ks)}: must rise without repeats")
        if self.ks[-1] > self.n_samples:
            raise ValueError(
                f"k={self.ks[-1]} is larger than n_samples={self.n_samples}: pass@k needs at "
                "least k draws a problem; raise n_samples or drop that k"
            )
        for key, benchmark in self.benchmarks.items():
            if key != benchmark.name:
                raise ValueError(f"benchmarks.{key} is named {benchmark.name!r}: use one name")


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class ExperimentSpec:
    """What is trained and how it is judged; part of every run's address."""

    name: Name
    """Name in paths, tables and MLflow."""
    train: TrainSpec
    """The training run."""
    evaluation: EvalSpec
    """The evaluation of its last checkpoint."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class Cell:
    """One setting of the method, over all seeds of the grid."""

    algorithm: Name
    """A file of conf/algorithm."""
    group_size: GroupSize
    """N: rollouts a prompt in training, at least 2 (an advantage needs a group)."""
    focal_gamma: Gamma
    """gamma >= 0; 0 is the base algorithm."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class Exclusion:
    """Leaves out the points that match every value given; null matches anything."""

    algorithm: Name | None = None
    """Algorithm to leave out."""
    group_size: GroupSize | None = None
    """Group size to leave out."""
    focal_gamma: Gamma | None = None
    """Gamma to leave out."""
    seed: NonNegative | None = None
    """Training seed to leave out."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class Grid:
    """The axes of a sweep; their product is run, then the explicit cells."""

    algorithm: tuple[Name, ...]
    """Base algorithms."""
    group_size: tuple[GroupSize, ...]
    """Group sizes N."""
    focal_gamma: tuple[Gamma, ...]
    """Focal exponents."""
    seed: tuple[NonNegative, ...]
    """Training seeds; each has its own warm-up, shared by all cells."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class SweepSpec:
    """A question as a grid."""

    name: Name
    """Name in commands and paths."""
    question: str
    """The question in words, printed above the answer."""
    grid: Grid
    """Axes whose product is run."""
    cells: tuple[Cell, ...]
    """Further cells beside the product."""
    exclude: tuple[Exclusion, ...]
    """Points to leave out."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class LocalProfile:
    """Worker processes on this machine. Never identity: no result depends on it."""

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


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class SlurmProfile:
    """Jobs of a SLURM cluster, one a stage. Never identity: no result depends on it."""

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
    """Nodes of a stage."""
    gpus_per_node: Positive | None
    """GPUs of a stage on each node; null asks for none."""
    cpus_per_task: Positive
    """Processors of a stage."""
    mem_gb: PositiveFloat | None
    """Memory of a stage on each node, GiB."""
    time_minutes: Positive
    """Time limit of one job; a stage that needs longer saves, is requeued and goes on."""
    signal_seconds: Positive
    """How long before the time limit a stage is told to save."""
    additional_parameters: dict[str, str]
    """Further sbatch options by long name without dashes, e.g. {reservation: spring}."""
    setup: tuple[str, ...]
    """Shell lines before the stage, e.g. `module load cuda`."""
    python: str | None
    """Interpreter of the jobs, as its path on the nodes; null is the one that submits."""
    shared_run_root: bool
    """true: nodes see the run root although it is on a disk of this machine, which exports it."""
    max_parallel: Positive
    """Stages of one kind at once: the throttle of the job arrays."""
    max_array_size: Positive | None
    """Most elements of one array; null asks the site for its MaxArraySize."""
    max_attempts: Positive
    """Submissions of a stage before it is given up; a fault of the stage itself ends it at once."""
    threads_per_worker: Positive
    """Threads of a stage; results are bit-identical only for equal thread counts."""
    device: Literal["cpu", "cuda"]
    """Where a stage computes."""

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


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class Declaration:
    """A whole composed configuration: what `python -m sweeps` was asked to run."""

    sweep: SweepSpec
    experiment: ExperimentSpec
    profile: Profile
    algorithms: dict[str, AlgorithmSpec]
    """All algorithms by name; the grid picks from them."""
    version: Name
    """Part of the address: a new version starts beside the old one."""
    run_root: str
    """Folder of all runs."""


@dataclass(config=_STRICT, frozen=True, kw_only=True)
class SweepPoint:
    """One training run: a cell with a seed, complete in itself."""

    sweep: Name
    experiment: Name
    version: Name
    algorithm: AlgorithmSpec
    group_size: GroupSize
    focal_gamma: Gamma
    seed: NonNegative
    train: TrainSpec
    evaluation: EvalSpec

    @property
    def point_id(self) -> str:
        """Readable name within the sweep, e.g. `grpo-n8-g0.5-s11`."""
        gamma = str(self.focal_gamma).removesuffix(".0")
        return f"{self.algorithm.name}-n{self.group_size}-g{gamma}-s{self.seed}"

    @property
    def method(self) -> str:
        """Name in tables: GRPO, or F-GRPO where focal_gamma > 0."""
        return method_name(self.algorithm.name, self.focal_gamma)

    @property
    def prompts_per_step(self) -> int:
        """Prompts of a rollout batch under the point's budget convention."""
        if self.train.prompts_per_step is not None:
            return self.train.prompts_per_step
        assert self.train.rollouts_per_step is not None
        return self.train.rollouts_per_step // self.group_size


def method_name(algorithm: str, focal_gamma: float) -> str:
    """`GRPO`, or `F-GRPO` where focal_gamma > 0."""
    return ("F-" if focal_gamma > 0 else "") + algorithm.upper()


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_dict(value: Any) -> dict[str, Any]:
    """A spec as plain JSON types, every field present."""
    dumped = _adapter(type(value)).dump_python(value, mode="json")
    assert isinstance(dumped, dict)
    return dumped


def from_dict(cls: type[T], data: Any) -> T:
    """Strictly validated inverse of `to_dict`; raises pydantic.ValidationError."""
    value: T = _adapter(cls).validate_json(json.dumps(data))
    return value
