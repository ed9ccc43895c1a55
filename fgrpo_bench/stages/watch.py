"""The metrics of a training step, what of them a person watches while a run goes on, and what to
warn of at step 1.

Both engines write METRICS by step and put NUMBERS of their last step into progress.json; status,
the report and the dashboard take the words for them from here. Imports stay light: `status` reads
thousands of stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fgrpo_bench.files.records import NAMES, Record, SchemaError

TRUNCATED_BOUND = 0.5
"""Share of rollouts cut off at the longest response, above which somebody should look."""
UNSCORED_BOUND = 0.1
"""Share of rollouts that the grader could not judge, likewise."""
ROLLOUT_GAP_BOUND = 0.01
"""Nats per token by which rollout engine and policy may differ. Usual are 1e-3 (Liu, Li et al.
2025, "When Speed Kills Stability", their vllm-kl), and NeMo RL's guide to GRPO (gen_kl_error, the
same KL(rollout engine || policy)) wants less than 1e-3 and has anything above looked into; ten
times that is no noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """What a number of a training step is, and how it is shown."""

    title: str
    """In words, for a figure or an axis."""
    unit: str = ""
    """In words; empty for shares and counts, whose title says it."""
    whole: bool = False
    """Whether it is a whole number."""
    better: Literal["more", "less"] | None = None
    """None where neither is better by itself."""
    column: str = ""
    """Head of a narrow column; given where a person watches it (NUMBERS), like `form`."""
    form: str = ""
    """For str.format."""

    @property
    def label(self) -> str:
        """The title with the unit, e.g. `entropy, nats per token`."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


METRICS = {
    "step": Metric(title="training step", whole=True),  # a rollout batch, from 1
    "time_ms": Metric(title="end of the step", unit="milliseconds since 1970", whole=True),
    "seconds": Metric(title="wall time of the step, evaluation apart", unit="seconds"),
    # Of these seconds:
    "seconds_generation": Metric(title="drawing rollouts and judging them", unit="seconds"),
    # null: within training
    "seconds_experience": Metric(title="log-probabilities and advantages", unit="seconds"),
    "seconds_training": Metric(title="the updates", unit="seconds"),
    # null where they are the same
    "seconds_sync": Metric(title="weights to the rollout engines", unit="seconds"),
    # Beside them; null at steps without evaluation
    "seconds_evaluation": Metric(title="evaluation during training", unit="seconds"),
    "gpus": Metric(title="GPUs that the run holds", whole=True),  # 0 on a CPU
    # What is trained on, partial credit and length penalty included
    "reward": Metric(title="mean reward", better="more", column="reward", form="{:.3f}"),
    # Over all rollouts sampled
    "success_rate": Metric(title="success rate of rollouts", better="more"),
    # Active: with an advantage other than 0
    "active_fraction": Metric(
        title="share of groups that are active", column="active", form="{:.0%}"
    ),
    # Of all groups, whether or not partial credit gives them an advantage; the others have right
    # and wrong rollouts
    "wrong_repeated_fraction": Metric(title="share of groups all wrong, one response repeated"),
    "wrong_different_fraction": Metric(title="share of groups all wrong, responses different"),
    "right_repeated_fraction": Metric(title="share of groups all right, one response repeated"),
    "right_different_fraction": Metric(title="share of groups all right, responses different"),
    # Of the shares that they are in a group; null where no group has one, and where right answers
    # are all one solution
    "solution_entropy": Metric(
        title="entropy of right rollouts over solutions, mean over groups with one", unit="nats"
    ),
    # null where no group is active
    "focal_weight": Metric(title="focal weight, mean over active groups"),
    # Mean over sampled tokens
    "entropy": Metric(title="entropy", unit="nats per token", column="entropy", form="{:.3f}"),
    # Of the tokens of active groups
    "clip_fraction": Metric(
        title="share of active tokens whose ratio is clipped", column="clipped", form="{:.2%}"
    ),
    # Before the updates
    "rollout_kl": Metric(
        title="KL(rollout engine || policy)",
        unit="nats per token",
        better="less",
        column="gap",
        form="{:.1e}",
    ),
    # Of the sampled tokens, k3; null where no loss has a KL term
    "reference_kl": Metric(title="KL(policy || base model)", unit="nats per token", better="less"),
    # Without an entropy bonus and a KL term
    "loss": Metric(title="loss, mean over the updates"),
    "grad_norm": Metric(title="gradient norm before clipping, mean over the updates"),
    "learning_rate": Metric(title="learning rate of the last update"),
    "response_tokens": Metric(title="mean length of rollouts", unit="tokens"),  # with the end token
    # At the longest response
    "truncated_fraction": Metric(
        title="share of rollouts that are cut off",
        better="less",
        column="truncated",
        form="{:.0%}",
    ),
    "unscored_fraction": Metric(
        title="share of rollouts that the grader could not judge",
        better="less",
        column="unscored",
        form="{:.0%}",
    ),
    "rollouts": Metric(title="rollouts sampled so far", whole=True),
    "tokens": Metric(title="tokens sampled so far", whole=True),
    "optimizer_steps": Metric(title="optimizer steps so far", whole=True),
    # null at steps without evaluation, both
    "eval_pass_at_1": Metric(title="pass@1 of evaluations during training", better="more"),
    "eval_pass_at_n": Metric(title="pass@n of evaluations during training", better="more"),
}
"""By name, in the order of the stored columns (tables.METRICS)."""
TOKENS_PER_SECOND = "tokens_per_second"
_WATCHED = (
    *("reward", "active_fraction", "clip_fraction"),
    *("entropy", "rollout_kl", "truncated_fraction", "unscored_fraction"),
)
NUMBERS = {name: METRICS[name] for name in _WATCHED} | {
    TOKENS_PER_SECOND: Metric(
        title="sampled tokens per second", better="more", column="tokens/s", form="{:,.0f}"
    )
}
"""What a person watches, in the order of its columns; tokens_per_second is not stored: `tokens` of
the step over `seconds`."""


@dataclass(frozen=True, kw_only=True)
class Progress(Record):
    """progress.json: how far a stage says it is. Numbers of its last step, which are its own, stand
    under further keys."""

    step: int
    of: int
    eta_seconds: float | None
    """None before a first step tells how long one takes."""
    time: str | None = None
    pid: int | None = None
    host: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.numbers.items():
            if not isinstance(value, int | float):
                raise SchemaError(value, NAMES[float]).within(f".{name}")

    @property
    def numbers(self) -> dict[str, float]:
        """Those of NUMBERS that it tells."""
        return {name: self.further[name] for name in NUMBERS if name in self.further}


def step_numbers(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """NUMBERS of the last step that there is; those that it does not have are left out.

    rows: METRICS of the steps so far, by rising step; the last two are looked at.
    """
    last = rows[-1]
    before = rows[-2]["tokens"] if len(rows) > 1 else 0
    values = {name: last.get(name) for name in NUMBERS}
    values["unscored_fraction"] = values["unscored_fraction"] or None  # a column where some are
    if last["seconds"] > 0:
        values[TOKENS_PER_SECOND] = (last["tokens"] - before) / last["seconds"]
    return {
        name: float(value)
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }


def shown(name: str, numbers: Mapping[str, float]) -> str:
    """One of NUMBERS as text; empty where it is not there.

    >>> shown("active_fraction", {"active_fraction": 0.75})
    '75%'
    """
    return NUMBERS[name].form.format(numbers[name]) if name in numbers else ""


def warnings(numbers: Mapping[str, float], *, step: int | None) -> list[str]:
    """What a person would want to know at once, with what can be done; empty where all is well.

    numbers: of the last step (NUMBERS). step: which one that is; None where that is not known.
    """
    at = "" if step is None else f" at step {step}"
    truncated = numbers.get("truncated_fraction", 0.0)
    unscored = numbers.get("unscored_fraction", 0.0)
    gap = numbers.get("rollout_kl", 0.0)
    messages = []
    if truncated > TRUNCATED_BOUND:
        messages.append(
            f"truncated_fraction is {truncated:.2f}{at} (over {TRUNCATED_BOUND}): most rollouts "
            "are cut off at the longest response and count as wrong; allow longer ones, or see "
            "whether the model ends its responses under this prompt"
        )
    if unscored > UNSCORED_BOUND:
        messages.append(
            f"unscored_fraction is {unscored:.2f}{at} (over {UNSCORED_BOUND}): the grader could "
            "not judge these rollouts, which earn 0; a reward of your own raised, hung or returned "
            "what is no judgement, and the run's log says why"
        )
    if numbers.get("active_fraction") == 0:
        messages.append(
            f"active_fraction is 0{at}: no group has an advantage, mostly because each is all "
            "right or all wrong, so nothing is learned; train on problems that the model solves "
            "sometimes, or with a larger group_size"
        )
    if abs(gap) > ROLLOUT_GAP_BOUND:
        messages.append(
            f"rollout_kl is {gap:.2g} nats per token{at} (beyond {ROLLOUT_GAP_BOUND}): the rollout "
            "engine samples from another policy than the one that is trained; compare precision, "
            "temperature and weights of the two before the run goes on"
        )
    return messages
