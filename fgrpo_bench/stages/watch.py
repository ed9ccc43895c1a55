"""What of a training step a person watches while a run goes on, and what to warn of at step 1.

Both engines put these numbers of their last step into progress.json; status, the dashboard and
MLflow name them alike. Imports stay light: `status` reads thousands of stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TRUNCATED_BOUND = 0.5
"""Share of rollouts cut off at the longest response, above which somebody should look."""
ROLLOUT_GAP_BOUND = 0.01
"""Nats a token by which rollout engine and policy may differ. Usual are 1e-3 (Liu, Li et al. 2025,
"When Speed Kills Stability", their vllm-kl), and NeMo RL's guide to GRPO (gen_kl_error, the same
KL(rollout engine || policy)) wants less than 1e-3 and has anything above looked into; ten times
that is no noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """How a number is shown."""

    title: str
    """Head of a column."""
    unit: str
    """In words, for an axis."""
    form: str
    """For str.format."""


TOKENS_PER_SECOND = "tokens_per_second"
NUMBERS = {
    "reward": Number(title="reward", unit="mean reward", form="{:.3f}"),
    "active_fraction": Number(title="active", unit="share of groups", form="{:.0%}"),
    "clip_fraction": Number(title="clipped", unit="share of active tokens", form="{:.2%}"),
    "entropy": Number(title="entropy", unit="nats a token", form="{:.3f}"),
    "rollout_kl": Number(title="gap", unit="nats a token", form="{:.1e}"),
    "truncated_fraction": Number(title="truncated", unit="share of rollouts", form="{:.0%}"),
    TOKENS_PER_SECOND: Number(title="tokens/s", unit="tokens a second", form="{:,.0f}"),
}
"""By their names in tables.METRICS; tokens_per_second is `tokens` of the step over `seconds`."""


def step_numbers(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """NUMBERS of the last step that there is; those that it does not have are left out.

    rows: metrics of the steps so far (keys of tables.METRICS), by rising step; the last two are
    looked at.
    """
    last = rows[-1]
    before = rows[-2]["tokens"] if len(rows) > 1 else 0
    values = {name: last.get(name) for name in NUMBERS}
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
    gap = numbers.get("rollout_kl", 0.0)
    messages = []
    if truncated > TRUNCATED_BOUND:
        messages.append(
            f"truncated_fraction is {truncated:.2f}{at} (over {TRUNCATED_BOUND}): most rollouts "
            "are cut off at the longest response and count as wrong; allow longer ones, or see "
            "whether the model ends its responses under this prompt"
        )
    if numbers.get("active_fraction") == 0:
        messages.append(
            f"active_fraction is 0{at}: no group has an advantage, mostly because each is all "
            "right or all wrong, so nothing is learned; train on problems that the model solves "
            "sometimes, or with a larger group_size"
        )
    if abs(gap) > ROLLOUT_GAP_BOUND:
        messages.append(
            f"rollout_kl is {gap:.2g} nats a token{at} (beyond {ROLLOUT_GAP_BOUND}): the rollout "
            "engine samples from another policy than the one that is trained; compare precision, "
            "temperature and weights of the two before the run goes on"
        )
    return messages
