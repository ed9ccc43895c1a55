"""From the rewards of a group to its advantages, with the focal weight."""

from __future__ import annotations

import torch
from torch import Tensor

from fgrpo_bench.objectives.focal import focal_weight

EPSILON = 1e-6


def success_rate(rewards: Tensor) -> Tensor:
    """Share of correct rollouts; rewards [groups, group_size] of 0 and 1 -> [groups]."""
    return rewards.mean(1)


def group_advantages(rewards: Tensor, focal_gamma: float) -> Tensor:
    """Focal-weighted group-relative advantages; [groups, group_size] in and out.

    (1 - mu)^gamma (R - mu) / (std + 1e-6) with the unbiased standard deviation over the group
    (GRPO, arXiv 2402.03300, eq. 3; weight of arXiv 2602.06717). Exactly 0 for a group that is all
    right or all wrong, and bitwise the unweighted advantage at focal_gamma = 0.
    """
    mean = rewards.mean(1, keepdim=True)
    base = (rewards - mean) / (rewards.std(1, correction=1, keepdim=True) + EPSILON)
    weighted: Tensor = base * focal_weight(mean, focal_gamma)
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
    return torch.cumsum(ends, 1) - ends == 0
