"""From the rewards of groups to their advantages, with the focal weight.

Both engines read ADVANTAGES; to add one: a function of rewards [groups, group_size] that gives
advantages of that shape, exactly 0 for a group that is all right or all wrong, and a line there.
Nothing is imported to load the table: tensors bring what is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fgrpo_bench import doors
from fgrpo_bench.objectives.focal import focal_weight

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-6


def success_rate(rewards: Tensor) -> Tensor:
    """Share of correct rollouts; rewards [groups, group_size] of 0 and 1 -> [groups]."""
    return rewards.mean(1)


def grpo(rewards: Tensor) -> Tensor:
    """(R - mu) / (std + 1e-6) with the unbiased standard deviation over the group (GRPO, arXiv
    2402.03300, eq. 3)."""
    spread = rewards.std(1, correction=1, keepdim=True)
    return (rewards - rewards.mean(1, keepdim=True)) / (spread + EPSILON)


Advantage = Callable[["Tensor"], "Tensor"]
ADVANTAGES: dict[str, Advantage] = {"grpo": grpo}


def group_advantages(rewards: Tensor, focal_gamma: float, advantage: str = "grpo") -> Tensor:
    """Focal-weighted group-relative advantages; [groups, group_size] in and out.

    (1 - mu)^gamma times those of the table (weight of arXiv 2602.06717); at focal_gamma = 0 bitwise
    those. Rewards are 0 and 1.
    """
    base: Tensor = doors.entry("advantages", advantage)(rewards)
    weighted: Tensor = base * focal_weight(rewards.mean(1, keepdim=True), focal_gamma)
    return weighted


def is_active(rewards: Tensor) -> Tensor:
    """Which groups have a gradient: neither all right nor all wrong; bool [groups]."""
    return (rewards != rewards[:, :1]).any(1)


def action_mask(tokens: Tensor, *, eos: int, pad: int) -> Tensor:
    """Which positions are actions: up to and including the first end or padding token.

    tokens: [sequences, length]; bool likewise. A sampled padding token is an action like any other:
    were it masked out, a policy could put probability there unseen and collapse.
    """
    ends = ((tokens == eos) | (tokens == pad)).long()
    before: Tensor = ends.cumsum(1) - ends
    return before == 0
