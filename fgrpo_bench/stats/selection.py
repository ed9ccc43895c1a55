"""Which checkpoint stands for a training run: the rules, on scores and costs alone.

The paper's protocol (its section 5): one checkpoint an epoch; of the baseline the one with the best
pass@1 averaged over the in-domain benchmarks; of a focal run the best one of equal or less compute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A checkpoint that may be chosen."""

    step: int
    """Rollout batches behind it."""
    cost: float
    """Compute behind it, in any one unit; the report takes rollouts."""
    score: float
    """What is to be large: mean pass@1, a fraction."""


def best(candidates: Sequence[Candidate], *, budget: float | None = None) -> Candidate | None:
    """The highest score among those that cost no more than the budget; of equals the earliest.

    budget: None is no limit. None where no candidate is within it.
    """
    within = [candidate for candidate in candidates if budget is None or candidate.cost <= budget]
    return max(within, key=lambda candidate: (candidate.score, -candidate.step), default=None)


def within_budget(candidates: Sequence[Candidate], budget: float) -> Candidate | None:
    """The latest checkpoint that costs no more than the budget; None where there is none."""
    within = [candidate for candidate in candidates if candidate.cost <= budget]
    return max(within, key=lambda candidate: candidate.step, default=None)


def is_for_selection(problem_id: str) -> bool:
    """Whether a problem belongs to the half that selects, where the other half is reported.

    The lowest bit of sha256(problem_id): the same half for every model, sweep and machine.
    """
    return hashlib.sha256(problem_id.encode()).digest()[-1] % 2 == 0


def saved_steps(*, steps: int, save_every: int) -> list[int]:
    """The steps of a training run that leave a checkpoint, rising."""
    return [*range(save_every, steps, save_every), steps]
