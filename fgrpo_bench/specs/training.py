"""What is trained, and by which algorithm: all that does not belong to one engine or task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import (
    STRICT,
    Beta,
    Gamma,
    GraderName,
    Name,
    NonNegative,
    NonNegativeFloat,
    OneOf,
    Parameter,
    Positive,
    PositiveFloat,
    Temperature,
    registered,
)


@dataclass(config=STRICT, frozen=True, kw_only=True)
class TaskSpec(OneOf, table="tasks", key="name", member="spec"):
    """A generated task, with the fields of its own kind (fgrpo_bench.tasks)."""

    name: Name
    """A key of fgrpo_bench.tasks.TASKS."""

    def notes(self, prompts: int) -> list[str]:
        """What a plan is to say of the task where a training run draws so many prompts."""
        return []


WIDEST, DEEPEST = 65_536, 1_000
"""Of a model: several times the largest published ones (16,384 and 126 of Llama 3.1 405B). What of
these together fits no memory is for fgrpo_bench.kinds.warmup.check_fits."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ModelSpec:
    """A small transformer of the Qwen2 architecture, trained from scratch."""

    name: Name
    """Name in tables."""
    hidden_size: Annotated[int, Field(ge=1, le=WIDEST)]
    """Width of the residual stream."""
    n_layers: Annotated[int, Field(ge=1, le=DEEPEST)]
    """Number of decoder layers."""
    n_heads: Positive
    """Attention heads; hidden_size / n_heads should be 32 or more (vLLM on CPU refuses 24)."""
    n_kv_heads: Positive
    """Key/value heads (grouped-query attention); divides n_heads."""
    intermediate_size: Annotated[int, Field(ge=1, le=4 * WIDEST)]
    """Width of the gated MLP."""
    rope_theta: PositiveFloat
    """Base of the rotary position embedding."""
    vocabulary_size: Positive | None = None
    """Tokens of the embedding; those that the task has no symbol for are reserved, and no answer
    with one is correct. Null is as many as the task has, with the padding and the end token."""
    n_positions: Positive | None = None
    """Most tokens of a prompt and its response. Null is what the task needs, and 64 at least."""
    autocast: Literal["bfloat16"] | None = None
    """Type of the matrix products in training and its rollouts on a GPU; null is float32, as
    everything is on a processor."""

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.n_heads) or self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size}, n_heads={self.n_heads}, "
                f"n_kv_heads={self.n_kv_heads}: hidden_size must be a multiple of 2 * n_heads and "
                "n_heads of n_kv_heads; choose e.g. 96, 3, 3"
            )


@dataclass(config=STRICT, frozen=True, kw_only=True)
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
    schedule: Literal["constant"] | None = None
    """constant: every step has the peak. Null: it rises over the first fifth of the steps, and
    falls over the last three tenths."""
    beta2: Beta | None = None
    """AdamW beta 2; null is that of the training run."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class AlgorithmSpec:
    """A base algorithm: its surrogate objective and clip bounds (paper, section 5)."""

    name: Name
    """Name in grids and tables."""
    objective: Annotated[Name, registered("objectives")]
    """A key of fgrpo_bench.objectives.losses.OBJECTIVES."""
    advantage: Annotated[Name, registered("advantages")] = "grpo"
    """A key of fgrpo_bench.objectives.advantages.ADVANTAGES."""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """Parameters of the advantage by name (k, baseline, weight, beta); what is not named has the
    default of its function."""
    clip_low: NonNegativeFloat
    """The ratio is clipped at 1 - clip_low from below."""
    clip_high: NonNegativeFloat
    """The ratio is clipped at 1 + clip_high from above."""
    loss_aggregation: Literal["token_mean", "sequence_mean", "constant_length"]
    """token_mean: all tokens of the batch weigh the same (the paper's choice). constant_length:
    the sum over tokens by the length of the longest response that there can be (Dr. GRPO)."""
    dynamic_sampling: bool
    """DAPO: draw further prompts until the batch holds active groups only."""
    low_lr_gamma: Gamma | None
    """Control of the scale: the learning rate times the mean focal weight of this gamma
    (low_lr_multiplier); null leaves it as it is."""
    entropy_coef: NonNegativeFloat
    """Weight of an entropy bonus, of the policy's entropy a token; 0 is none."""
    kl_coef: NonNegativeFloat
    """Weight of the KL divergence from the base model in the loss (k3 estimate); 0 is none."""
    random_rewards: bool = False
    """Control of the rewards: advantages learn from rewards of 0 and 1 that are drawn at random, at
    each group's own share of correct rollouts, in the place of all that the task gave."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class TrainSpec(OneOf, table="engines", key="engine", member="train"):
    """A training run apart from its cell (algorithm, N, gamma, seed): what every engine does, with
    the fields of its own engine (fgrpo_bench.engines)."""

    engine: Name
    """A key of fgrpo_bench.engines.table.ENGINES."""
    budget: Literal["constant_rollouts", "constant_prompts"]
    """What every cell of a group-size grid shares: rollouts per step, or prompts per step."""
    rollouts_per_step: Positive | None
    """Rollouts per step under constant_rollouts, else null."""
    prompts_per_step: Positive | None
    """Prompts per step under constant_prompts (the paper's convention: 256), else null."""
    steps: Positive
    """Rollout batches."""
    updates_per_batch: Positive
    """Optimizer steps a rollout batch (the paper's value: 4)."""
    learning_rate: PositiveFloat
    """AdamW learning rate, constant after the warm-up."""
    lr_warmup_updates: NonNegative | None
    """Linear learning-rate warm-up counted in optimizer steps, or null where lr_warmup_steps counts
    it."""
    lr_warmup_steps: NonNegative | None = None
    """Linear learning-rate warm-up counted in rollout batches of updates_per_batch optimizer steps
    each (how 15 warm-up steps of the paper are read), else null."""
    beta1: Beta
    """AdamW beta 1."""
    beta2: Beta
    """AdamW beta 2."""
    weight_decay: NonNegativeFloat
    """AdamW weight decay."""
    grad_clip: PositiveFloat
    """Largest global gradient norm."""
    temperature: Temperature
    """Sampling temperature of the rollouts."""
    reward: GraderName | None = None
    """What judges rollouts of training: a key of fgrpo_bench.graders.GRADERS, or a function of
    one's own (fgrpo_bench.graders.function), whose number is learned from. Null is the grader of
    each problem. Evaluations, those during training too, go by the graders of their benchmarks."""
    overlong_buffer_tokens: Positive | None = None
    """DAPO's soft penalty over the last tokens of the longest response, up to -1, added to the
    reward and no matter of correctness (arXiv 2503.14476, eq. 13); null is none."""
    save_every: Positive
    """Steps between Hugging Face checkpoints; the last step always has one."""
    eval_every: NonNegative
    """Steps between evaluations during training; 0 is never."""
    eval_n_problems: Positive
    """Problems of an evaluation during training: the first held-out ones, or of eval_dataset."""
    eval_n_samples: Positive
    """Draws a problem of an evaluation during training."""

    def __post_init__(self) -> None:
        fields = {"constant_rollouts": "rollouts_per_step", "constant_prompts": "prompts_per_step"}
        for budget, field in fields.items():
            given = getattr(self, field) is not None
            if given != (budget == self.budget):
                state = "is missing" if not given else f"= {getattr(self, field)} is set"
                raise ValueError(
                    f"budget={self.budget} but {field} {state}: constant_rollouts takes "
                    "rollouts_per_step, constant_prompts takes prompts_per_step, and the other "
                    "must be null"
                )
        if (self.lr_warmup_updates is None) == (self.lr_warmup_steps is None):
            raise ValueError(
                f"lr_warmup_updates={self.lr_warmup_updates} and lr_warmup_steps="
                f"{self.lr_warmup_steps}: the warm-up is counted in one of them; set the other to "
                "null (0 is no warm-up)"
            )

    @property
    def warmup_updates(self) -> int:
        """Optimizer steps of the learning-rate warm-up, whichever way it is counted."""
        if self.lr_warmup_updates is not None:
            return self.lr_warmup_updates
        assert self.lr_warmup_steps is not None
        return self.lr_warmup_steps * self.updates_per_batch
