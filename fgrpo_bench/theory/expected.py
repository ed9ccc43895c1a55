"""What an advantage weighs a prompt of each success rate, exactly and before anything is trained.

A policy that is right on a prompt with probability p is a Bernoulli policy, and every number of
right rollouts of a group can be enumerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, lcm, sqrt
from typing import Any

import numpy as np

from fgrpo_bench.objectives.advantages import right_wrong
from fgrpo_bench.objectives.by_rewards import EPSILON
from fgrpo_bench.objectives.focal import focal_weight


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
