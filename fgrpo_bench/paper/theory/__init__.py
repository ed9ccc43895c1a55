"""The paper's theory (F-GRPO, arXiv 2602.06717, sections 3 and appendices F to I) as functions.

A policy is right on a prompt with probability `success_rate` (mu). A group of `group_size` (N)
rollouts teaches something only where it is active: some right, some wrong. Of the right answers a
rare subset has the mass `tail_mass` (tau); an active group that holds none of it pushes probability
away from it. How often that happens is not monotone in N: small groups are seldom active, large
ones cover the tail, and the ones between are dangerous.

Every function takes scalars and arrays that broadcast together, and returns a float or an array.

`expected_weight` is what an advantage gives a prompt of each success rate, exactly and before
anything is trained: right or wrong with probability p is a Bernoulli policy, and every number of
right rollouts of a group can be enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import comb, lcm, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.objectives.advantages import right_wrong
from fgrpo_bench.objectives.by_rewards import EPSILON
from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.objectives.focal import low_lr_multiplier as low_lr_multiplier


def expected_weight(
    advantage: str,
    *,
    group_size: int,
    success_rate: Any,
    focal_gamma: float = 0.0,
    **parameters: Any,
) -> Any:
    """Expected weight of a group's gradient on grad p, for a policy that is right with probability
    p on a prompt: E[(1/N) sum_i A_i d log pi(R_i) / dp], over all numbers of right rollouts.

    With the focal-weighted advantages R_c of a right and W_c of a wrong rollout in a group with c
    right ones it is the mean of R_{j+1} - W_j over the number j of right ones among N - 1 others.

    advantage: a name of fgrpo_bench.objectives.advantages.ADVANTAGES that is a function of rewards
    alone, with its parameters. success_rate: p in [0, 1], a number or an array; a Fraction gives a
    Fraction where formula and focal weight are rational. Computed in rationals from the advantages
    on, GRPO's without its epsilon (`epsilon_effect`). Raises ValueError for an advantage that reads
    log-probabilities and for parameters that it is not defined for.
    """
    rates = np.asarray(success_rate, dtype=object)
    if not all(0 <= p <= 1 for p in rates.flat):
        raise ValueError(f"success_rate={success_rate}: must be between 0 and 1")
    weighted = [
        [
            Fraction(focal_weight(Fraction(c, group_size), focal_gamma)) * Fraction(value)
            for value in pair
        ]
        for c, pair in enumerate(right_wrong(advantage, group_size, **parameters))
    ]
    gains = [right - wrong for (right, _), (_, wrong) in zip(weighted[1:], weighted, strict=False)]
    common = lcm(*(value.denominator for value in gains))
    terms = [comb(len(gains) - 1, j) * int(gain * common) for j, gain in enumerate(gains)]
    weights = [_mean(terms, Fraction(p)) / common for p in rates.flat]
    if isinstance(success_rate, Fraction):
        return weights[0]
    values = np.array(weights, dtype=float).reshape(rates.shape)
    return values if rates.shape else float(values)


def _mean(terms: Sequence[int], p: Fraction) -> Fraction:
    """Sum of terms[j] p^j (1 - p)^(J - j), j to J, by Horner's scheme in whole numbers: a sum of
    fractions would be reduced at every term."""
    right, wrong = p.numerator, p.denominator - p.numerator
    total, power = 0, 1
    for term in reversed(terms):
        total = total * right + term * power
        power *= wrong
    return Fraction(total, p.denominator ** (len(terms) - 1))


def epsilon_effect(group_size: int) -> float:
    """The largest share by which the epsilon e in GRPO's (R - m) / (s + e) lowers its expected
    weight, at any success rate and any focal gamma: e sqrt(N) / (1 + e sqrt(N)).

    Where c of N are right, 0 < c < N, c (N - c) >= N - 1 and so s >= 1 / sqrt(N). The epsilon
    multiplies both advantages of such a group by s / (s + e), which lies between
    1 / (1 + e sqrt(N)) and 1, and no term R_{j+1} - W_j of the expected weight is negative: the
    weight is multiplied by something between these too. It comes as near to the lower end as p to 0
    or 1, where groups with c = 1 or N - 1 are all that teach. The other advantages that are
    functions of the rewards have no epsilon: where they would divide by 0 they are 0.
    """
    return EPSILON * sqrt(group_size) / (1 + EPSILON * sqrt(group_size))


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
