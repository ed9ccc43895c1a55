"""Advantages of rollouts in any order, whose groups may differ in size; what the trainers share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from fgrpo_bench.engines.diverged import named_groups
from fgrpo_bench.objectives.advantages import (
    carries_state,
    check_parameters,
    group_advantages,
    restricted,
)


def check_settings(
    advantage: str, group_size: int, focal_gamma: float, parameters: Mapping[str, Any]
) -> None:
    """ValueError for settings that are not defined for groups of this size, and for an advantage
    whose state no checkpoint of another trainer holds."""
    if carries_state(advantage):
        raise ValueError(
            f"advantage {advantage!r} carries a state from step to step, which the checkpoints of "
            "this trainer do not hold: choose another one"
        )
    if not isinstance(focal_gamma, int | float) or not 0 <= focal_gamma < inf:
        raise ValueError(f"focal_gamma={focal_gamma!r}: must be a number from 0 (no weight) on")
    if group_size < 2:
        raise ValueError(f"group size {group_size}: must be at least 2, to compare within a group")
    check_parameters(advantage, group_size, parameters)


def rollout_advantages(
    rewards: Tensor,
    groups: Sequence[Hashable],
    advantage: str,
    focal_gamma: float,
    parameters: Mapping[str, Any],
    read: Mapping[str, Tensor],
) -> Tensor:
    """Advantages [rollouts] of `group_advantages`, group by group.

    rewards: [rollouts]; groups: the name of each rollout's group, None for one of no group, whose
    advantage is 0; read: `rollout_statistics`, or nothing for an advantage that reads the rewards
    alone. ValueError for settings that `check_settings` refuses for a group, and for rewards that
    the advantage or the focal weight is not defined for; FloatingPointError for advantages that
    are not finite. All name the groups.
    """
    members: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        if group is not None:
            members[group].append(row)
    by_size: dict[int, list[Hashable]] = defaultdict(list)
    for group, rows in members.items():
        by_size[len(rows)].append(group)
    advantages = torch.zeros_like(rewards)
    for size, names in by_size.items():
        try:
            check_settings(advantage, size, focal_gamma, parameters)
        except ValueError as error:
            raise ValueError(f"{_named(names)}: {error}") from error
        index = torch.tensor([members[name] for name in names], device=rewards.device)
        _check_rewards(rewards[index], names, advantage, focal_gamma)
        mine = {name: values[index] for name, values in read.items()}
        size_advantages = group_advantages(
            rewards[index], focal_gamma, advantage, parameters, **mine
        )
        if not size_advantages.isfinite().all():
            bad = [
                n
                for n, ok in zip(names, size_advantages.isfinite().all(1).tolist(), strict=True)
                if not ok
            ]
            raise FloatingPointError(
                f"the advantages {advantage} of {_named(bad)} are not finite: look at the rewards "
                "and log-probabilities of these rollouts"
            )
        advantages[index] = size_advantages
    return advantages


def token_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uids: Sequence[Hashable],
    advantage: str,
    focal_gamma: float,
    parameters: Mapping[str, Any],
    log_probs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns [rollouts, tokens], alike: 0 where the response mask is.

    uids: of each rollout's prompt; rollouts of one are a group, in any order and number. None, or
    one without any response token, is what fills a batch and gets 0. log_probs: [rollouts, tokens],
    for an advantage that reads them. Raises as `rollout_advantages`.
    """
    mask = response_mask.to(token_level_rewards.dtype)
    answered = {
        uid for uid, has_tokens in zip(uids, mask.any(-1).tolist(), strict=True) if has_tokens
    }
    names = [uid if uid in answered else None for uid in uids]
    read = {} if log_probs is None else rollout_statistics(log_probs, mask)
    rewards = token_level_rewards.sum(-1)
    by_rollout = rollout_advantages(rewards, names, advantage, focal_gamma, parameters, read)
    advantages = by_rollout[:, None] * mask
    return advantages, advantages


def rollout_statistics(log_probs: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """`advantages.ROLLOUT_STATISTICS`, [rollouts] each, from what is [rollouts, tokens]; the mask
    says which tokens are the rollout's own."""
    return {"log_probs": (log_probs * mask).sum(1), "n_tokens": mask.sum(1).clamp(min=1)}


def _check_rewards(
    rewards: Tensor, names: Sequence[Hashable], advantage: str, focal_gamma: float
) -> None:
    """rewards: [groups, group_size], of the groups `names`."""
    rules = []
    if (restriction := restricted(advantage)) is not None:
        rule = f"rewards of {advantage} {restriction.rule}: take another advantage or reward"
        rules.append((restriction.allowed(rewards), rule))
    if focal_gamma > 0:
        rule = f"focal_gamma={focal_gamma} needs rewards from 0 to 1: scale them, or set it to 0"
        rules.append((((rewards >= 0) & (rewards <= 1)).all(1), rule))
    for allowed, rule in rules:
        if not allowed.all():
            bad = [name for name, ok in zip(names, allowed.tolist(), strict=True) if not ok]
            shown = ", ".join(f"{reward:g}" for reward in rewards[~allowed][0].tolist())
            raise ValueError(f"rewards {shown} in {_named(bad)}: {rule}")


def _named(names: Sequence[Hashable]) -> str:
    return named_groups(map(str, names))
