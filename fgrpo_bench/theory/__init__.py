"""The paper's theory (F-GRPO, arXiv 2602.06717, sections 3 and appendices F to I) as functions.

A policy is right on a prompt with probability `success_rate` (mu). A group of `group_size` (N)
rollouts teaches something only where it is active: some right, some wrong. Of the right answers a
rare subset has the mass `tail_mass` (tau); an active group that holds none of it pushes probability
away from it. How often that happens is not monotone in N: small groups are seldom active, large
ones cover the tail, and the ones between are dangerous.

Every function takes scalars and arrays that broadcast together, and returns a float or an array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.specs.training import low_lr_multiplier as low_lr_multiplier
from fgrpo_bench.theory.expected import epsilon_effect as epsilon_effect
from fgrpo_bench.theory.expected import expected_weight as expected_weight

Floats = NDArray[np.float64]
LARGEST_GROUP = 2**20
"""Group sizes that `most_dangerous_group_size` looks at."""


def active_probability(group_size: ArrayLike, success_rate: ArrayLike) -> Any:
    """Probability that a group has right and wrong rollouts: 1 - mu^N - (1 - mu)^N.

    group_size: at least 1 (a group of 1 is never active). success_rate: in [0, 1]. Raises
    ValueError outside.
    """
    n, mu = _checked(group_size, success_rate)
    # 1 - (1 - mu)^N without cancellation where mu is tiny, less mu^N without it where mu is near 1
    return _out(_some(n, mu) - _power(n, mu))


def tail_miss_probability(
    group_size: ArrayLike, success_rate: ArrayLike, tail_mass: ArrayLike
) -> Any:
    """Probability that a group is active and holds nothing of the tail (lemma 3.1):
    (1 - tau)^N - (mu - tau)^N - (1 - mu)^N.

    tail_mass: in [0, success_rate]. Computed as mass (1 - tau)^N times the chance that a group
    drawn outside the tail is active, so that nothing cancels.
    """
    n, mu, tau = _checked_tail(group_size, success_rate, tail_mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(tau < 1, (mu - tau) / (1 - tau), 0.0)  # success rate outside the tail
    missed = _power(n, 1 - tau, log=np.log1p(-np.minimum(tau, 1 - 1e-16)))
    return _out(missed * np.maximum(_some(n, inside) - _power(n, inside), 0.0))


def most_dangerous_group_size(
    success_rate: float, tail_mass: float, *, largest: int = LARGEST_GROUP
) -> int:
    """The N between 2 and `largest` at which the tail is missed most often.

    The probability rises to one peak and falls (lemma 3.1), so the peak is bracketed by doubling
    and then found exactly. Raises ValueError for tail_mass = 0 or = success_rate: with no tail the
    probability never falls, and where the tail is all that is right no active group misses it.
    """
    if not 0 < tail_mass < success_rate < 1:
        raise ValueError(
            f"tail_mass={tail_mass}, success_rate={success_rate}: a peak needs "
            "0 < tail_mass < success_rate < 1"
        )
    low, high = 2, largest
    while high - low > 2:
        left, right = low + (high - low) // 2, low + (high - low) // 2 + 1
        rises = _slope(left, success_rate, tail_mass) > 0
        low, high = (right, high) if rises else (low, left)
    return max(
        range(low, high + 1), key=lambda n: float(tail_miss_probability(n, success_rate, tail_mass))
    )


def _slope(n: int, mu: float, tau: float) -> float:
    """Sign of P(N + 1) - P(N) = (1-mu)^N mu + (mu-tau)^N (1 - mu + tau) - (1-tau)^N tau, scaled by
    (1-tau)^-N so that it does not vanish for large N."""
    base = math.log1p(-tau)
    gain = math.exp(n * (math.log1p(-mu) - base)) * mu
    gain += math.exp(n * (math.log(mu - tau) - base)) * (1 - mu + tau)
    return gain - tau


def _some(n: Floats, p: Floats) -> Floats:
    """1 - (1 - p)^n, exact for tiny p."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(n * np.log1p(-p)))


def _power(n: Floats, p: Floats, log: Floats | None = None) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(n * (np.log(p) if log is None else log)))


def _checked(group_size: ArrayLike, success_rate: ArrayLike) -> tuple[Floats, Floats]:
    n, mu = np.asarray(group_size), np.asarray(success_rate, dtype=float)
    if n.dtype.kind not in "iu" or np.any(n < 1):
        raise ValueError(f"group_size={group_size!r}: whole numbers, at least 1")
    if not np.all((mu >= 0) & (mu <= 1)):
        raise ValueError(f"success_rate={success_rate!r}: must be between 0 and 1")
    return n.astype(float), mu


def _checked_tail(
    group_size: ArrayLike, success_rate: ArrayLike, tail_mass: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    n, mu = _checked(group_size, success_rate)
    tau = np.asarray(tail_mass, dtype=float)
    if not np.all((tau >= 0) & (tau <= mu)):
        raise ValueError(
            f"tail_mass={tail_mass!r} with success_rate={success_rate!r}: must be between 0 and "
            "the success rate, whose part it is"
        )
    return n, mu, tau


def _out(values: Floats) -> Any:
    return float(values) if np.ndim(values) == 0 else values
