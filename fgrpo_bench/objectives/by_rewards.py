"""Advantages as functions of the rewards of groups, and how those by number of correct rollouts
(fgrpo_bench.objectives.by_count) become such functions.

Rewards are [groups, group_size], and so is what comes back; tensors and NumPy arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fgrpo_bench.objectives import by_count

EPSILON = 1e-6
"""Beside the standard deviation."""
Key = tuple[tuple[str, type, Any], ...]
"""Parameters with their types, so that what takes k=4 and refuses k=4.0 keeps them apart."""


def cache_key(parameters: Mapping[str, Any]) -> Key:
    """Parameters as what a cache can look up."""
    return tuple((name, type(value), value) for name, value in sorted(parameters.items()))


def grpo(rewards: Any) -> Any:
    """GRPO (arXiv 2402.03300, eq. 3).

    Formula: `(R - m) / (std + 1e-6)`, with the unbiased standard deviation over the group
    Weight: lowest at p = 1/2, as high at p as at 1 - p; the same at every p for N = 2 and 3
    Uniform groups: none
    """
    # torch and NumPy call it by another name
    unbiased = {"ddof": 1} if hasattr(rewards, "astype") else {"correction": 1}
    return dr_grpo(rewards) / (rewards.std(1, **unbiased)[:, None] + EPSILON)


def dr_grpo(rewards: Any) -> Any:
    """Dr. GRPO (arXiv 2503.20783), whose file also divides token losses by a constant length.

    Formula: `R - m`
    Weight: `1 - 1 / N` at every p
    Uniform groups: none
    """
    rewards = exactly_equal_to_0(rewards)
    return rewards - rewards.mean(1)[:, None]


def exactly_equal_to_0(rewards: Any) -> Any:
    """Rewards less that of their group where all of it earned the same; others bit for bit.

    The mean of eight rewards of 0.95 is off by a rounding, and that divided by a deviation of its
    size is no small advantage. Rewards that differ by a rounding of their own are different ones.
    """
    first = rewards[:, :1]
    alike = (rewards == first).all(1)[:, None]
    alike = alike.to(rewards.dtype) if hasattr(alike, "to") else alike.astype(rewards.dtype)
    return rewards - first * alike


def rloo(rewards: Any) -> Any:
    """RLOO (arXiv 2402.14740): each rollout against the mean of the others.

    Formula: `N / (N - 1) (R - m)`
    Weight: 1 at every p
    Uniform groups: none
    """
    group_size = rewards.shape[1]
    return group_size * dr_grpo(rewards) / (group_size - 1)


def maxrl_coded(rewards: Any) -> Any:
    """MaxRL (arXiv 2602.02710) as its authors' code has it, without its control variate in groups
    without a right rollout.

    Formula: `(R - m) / m`, 0 where all rewards are 0; m must be above 0
    Weight: `sum_{j<=N-1} (1 - p)^(j - 1)`
    Uniform groups: none
    """
    mean = rewards.mean(1)[:, None]
    return dr_grpo(rewards) / (mean + (mean == 0))


def rs_grpo(rewards: Any, *, beta: float = 2.0) -> Any:
    """RS-GRPO (arXiv 2509.24261), risk-sensitive. SoftmaxGRPO (arXiv 2608.09271) at temperature tau
    is this with beta = 1 / tau, times 1 / tau.

    Formula: `(e^(beta R) / mean(e^(beta R)) - 1) / beta`
    Weight: falls with p; RLOO's shape for a small beta, that of MaxRL as coded for a large one
    Uniform groups: none
    """
    check_positive("rs_grpo", beta)
    raised = math.e ** (beta * exactly_equal_to_0(rewards))  # a shift divides out
    return (raised / raised.mean(1)[:, None] - 1) / beta


def ds_grpo(rewards: Any, *, log_probs: Any, n_tokens: Any, beta: float = 0.05) -> Any:
    """DS-GRPO, differential smoothing (arXiv 2511.19942, eq. 6, as another project's code cites it;
    the equation itself was not read).

    Formula: GRPO's, less `beta log pi` if right, plus it if wrong; log pi of the whole response
    Weight: by the log-probabilities
    Uniform groups: both
    """
    check_positive("ds_grpo", beta)
    return grpo(rewards) + beta * log_probs * (1 - 2 * rewards)


def unlikeliness(rewards: Any, *, log_probs: Any, n_tokens: Any, beta: float = 0.25) -> Any:
    """Unlikeliness reward (arXiv 2506.02355, after its authors' code): likely answers earn less.

    Formula: GRPO's of `R (1 - beta rank / N)`, rank 0 the lowest log pi a token; equal ones keep
    their order
    Weight: by the log-probabilities
    Uniform groups: all right
    """
    check_positive("unlikeliness", beta)
    rank = like(rewards, _ranks(log_probs / n_tokens))
    return grpo(rewards * (1 - beta * rank / rewards.shape[1]))


def _ranks(log_probs: Any) -> Any:
    """Places of log-probabilities, [groups, group_size], in their groups, 0 the lowest.

    NumPy sorts whole numbers many times faster than torch sorts floats. The bits of a float32 of at
    least 0 rise with it; below them stands the place in the group, so that no two keys are alike.
    """
    import numpy as np

    if hasattr(log_probs, "cpu"):
        log_probs = log_probs.cpu()
    places = np.arange(log_probs.shape[1])
    width = len(places).bit_length()
    keys = (0 - np.asarray(log_probs, np.float32)).view(np.int32).astype(np.int64)
    np.negative(keys, out=keys)
    for _ in range(2):  # by log-probability with the place below it, by place with the rank below
        keys <<= width
        keys |= places
        keys.sort(1)
        keys &= (1 << width) - 1
    return keys


@dataclass(frozen=True)
class Restricted:
    """An advantage whose formula is not for all rewards."""

    function: Callable[..., Any]

    def __call__(self, rewards: Any, **keywords: Any) -> Any:
        """ValueError for rewards, [groups, group_size], that it is not defined for."""
        allowed = self.allowed(rewards)
        if not allowed.all():
            group = next(i for i, is_allowed in enumerate(allowed.tolist()) if not is_allowed)
            raise ValueError(
                f"rewards of {self.function.__name__} {self.rule}, and in group {group} of this "
                f"batch they are {', '.join(f'{r:g}' for r in rewards[group].tolist())}: take "
                "another advantage, or leave out what changes rewards (a reward of your own, a "
                "length penalty)"
            )
        return self._values(rewards, **keywords)

    @property
    def rule(self) -> str:
        """What the rewards must be, behind "rewards of maxrl"."""
        raise NotImplementedError

    def allowed(self, rewards: Any) -> Any:
        """Which groups keep the rule; bool [groups]."""
        raise NotImplementedError

    def _values(self, rewards: Any, **keywords: Any) -> Any:
        return self.function(rewards, **keywords)


@dataclass(frozen=True)
class OfBinary(Restricted):
    """An advantage whose formula is for rewards of 0 and 1 alone."""

    @property
    def rule(self) -> str:
        return "must be 0 and 1"

    def allowed(self, rewards: Any) -> Any:
        return ((rewards == 0) | (rewards == 1)).all(1)


@dataclass(frozen=True)
class OfPositiveMean(Restricted):
    """An advantage that divides by the mean of a group: below 0 right and wrong change places."""

    @property
    def rule(self) -> str:
        return "must have a mean above 0 or be all 0"

    def allowed(self, rewards: Any) -> Any:
        return (rewards.mean(1) > 0) | (rewards == 0).all(1)


@dataclass(frozen=True)
class ByCount(OfBinary):
    """An advantage of fgrpo_bench.objectives.by_count for groups of rewards, by table lookup."""

    function: Callable[..., by_count.RightWrong]

    def _values(self, rewards: Any, **keywords: Any) -> Any:
        values = _table(self.function, rewards.shape[1], cache_key(keywords))
        table = like(rewards, values)
        both = table[rewards.sum(1).round().astype(int) if hasattr(rewards, "astype")
                     else rewards.sum(1).round().long()]  # fmt: skip
        return rewards * both[:, :1] + (1 - rewards) * both[:, 1:]


@dataclass(frozen=True)
class ByCountOrOrder:
    """An advantage with a formula for rewards of 0 and 1 and one for all others."""

    by_count: ByCount
    by_order: Callable[..., Any]

    @property
    def function(self) -> Callable[..., Any]:
        """Of 0 and 1; its parameters are those of the other one too."""
        return self.by_count.function

    def __call__(self, rewards: Any, **keywords: Any) -> Any:
        is_binary = self.by_count.allowed(rewards).all()
        return (self.by_count if is_binary else self.by_order)(rewards, **keywords)


@lru_cache(maxsize=64)
def _table(
    function: Callable[..., by_count.RightWrong], group_size: int, key: Key
) -> list[list[float]]:
    """[N + 1, 2], the advantages of right and wrong rollouts by number of correct ones."""
    parameters = {name: value for name, _, value in key}
    rows = (function(c, group_size, **parameters) for c in range(group_size + 1))
    return [[float(right), float(wrong)] for right, wrong in rows]


def like(rewards: Any, values: Any) -> Any:
    """Values as the kind of array that the rewards are."""
    import numpy as np

    return rewards.new_tensor(values) if hasattr(rewards, "new_tensor") else np.asarray(values)


def is_number(value: Any) -> bool:
    """Whether a parameter is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def check_positive(name: str, beta: Any) -> None:
    """ValueError for a beta of that advantage that is none."""
    if not is_number(beta) or not beta > 0:
        raise ValueError(f"beta={beta} of {name}: must be a number above 0")
