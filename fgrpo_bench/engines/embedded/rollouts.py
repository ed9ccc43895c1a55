"""A batch of groups as it was sampled and graded, and the metrics that follow from it alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fgrpo_bench.engines.embedded.sampling import groups_at_once
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD
from fgrpo_bench.objectives.advantages import action_mask, success_rate, teaches
from fgrpo_bench.objectives.focal import focal_weight

WIDTH = 16
"""Tokens by whose multiples batches are shortened: what a GPU's products like. Batches of up to as
many are taken as they are."""
PER_TOKEN = ("tokens", "log_probs", "entropies")


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """A batch of groups; G groups of N completions of length L over prompts of length S."""

    prompts: Tensor
    """int64 [G, S]."""
    tokens: Tensor
    """int64 [G, N, L]."""
    log_probs: Tensor
    """float32 [G, N, L]; under the policy that sampled them."""
    entropies: Tensor
    """float32 [G, N, L]."""
    rewards: Tensor
    """float32 [G, N]; 1 is correct."""
    unscored: Tensor
    """bool [G, N]; what the grader could not judge (its reward is 0)."""

    def take(self, groups: Tensor) -> Rollouts:
        """Some of the groups, by index or bool mask."""
        return Rollouts(**{name: value[groups] for name, value in vars(self).items()})

    def followed_by(self, more: Rollouts) -> Rollouts:
        """These groups, then those."""
        both = zip(vars(self).items(), vars(more).values(), strict=True)
        return Rollouts(**{name: torch.cat([a, b]) for (name, a), b in both})

    def split(self, max_tokens: int | None) -> Iterator[Rollouts]:
        """The groups in parts of at most so many tokens each, but of one group at least; None is
        one part of all."""
        at_once = groups_at_once(max_tokens, self.prompts.shape[1], *self.tokens.shape[1:])
        groups = torch.arange(len(self.tokens), device=self.tokens.device)
        yield from (self.take(each) for each in groups.split(at_once or max(1, len(groups))))

    def shortened(self) -> Rollouts:
        """Without the last positions, where every rollout has ended; a multiple of WIDTH is left,
        or all."""
        longest = int(self.mask.sum(-1).amax()) if self.mask.numel() else 0
        width = min(self.tokens.shape[-1], -(-longest // WIDTH) * WIDTH)
        cut = {name: getattr(self, name)[..., :width] for name in PER_TOKEN}
        return replace(self, **cut)

    @property
    def mask(self) -> Tensor:
        """Which positions are actions; bool [G, N, L]."""
        return action_mask(self.tokens.flatten(0, 1), eos=EOS, pad=PAD).view(self.tokens.shape)

    @property
    def truncated(self) -> Tensor:
        """Which rollouts never ended; bool [G, N]."""
        return ~((self.tokens == EOS) | (self.tokens == PAD)).any(-1)


def measure(rollouts: Rollouts, advantages: Tensor, focal_gamma: float) -> dict[str, float | None]:
    """Metrics of a batch as sampled (tables.METRICS). advantages: [G, N]."""
    active, mask = teaches(advantages), rollouts.mask
    weights = focal_weight(success_rate(rollouts.rewards[active]), focal_gamma)
    return {
        "success_rate": float(rollouts.rewards.mean()),
        "active_fraction": float(active.float().mean()),
        "focal_weight": float(weights.mean()) if len(weights) else None,
        "entropy": float((rollouts.entropies * mask).sum() / mask.sum()),
        "response_tokens": float(mask.sum() / rollouts.rewards.numel()),
        "truncated_fraction": float(rollouts.truncated.float().mean()),
        "unscored_fraction": float(rollouts.unscored.float().mean()),
    }


def distinct_responses(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different responses of every group, each once: their tokens int64 [D, L] and groups [D],
    rising; and which of them each rollout is, [G * N]. tokens: [G, N, L]."""
    rows = tokens.flatten(0, 1).cpu().numpy()
    groups = np.arange(len(tokens)).repeat(tokens.shape[1])
    order = np.lexsort((*rows.T[::-1], groups))
    rows, groups = rows[order], groups[order]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[1:] != rows[:-1]).any(1) | (groups[1:] != groups[:-1])
    which = np.empty(len(rows), np.int64)
    which[order] = is_first.cumsum() - 1
    parts = (rows[is_first], groups[is_first], which)
    own, owner, places = (torch.from_numpy(part).to(tokens.device) for part in parts)
    return own, owner, places
