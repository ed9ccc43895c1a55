"""Advantages that depend on the number of correct rollouts of a group alone, as exact numbers.

A function takes the number of correct rollouts, the group size N and its parameters, and gives the
advantage of a right and of a wrong rollout. Rewards are 0 and 1. An advantage is what multiplies
grad log pi in a mean over the N rollouts; where a paper sums over rollouts, it is N times the
paper's. ValueError for parameters that a formula is not defined for.

`C(n, k)` are binomial coefficients; `m` is the success rate c / N of the group.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, isqrt, sqrt
from typing import Any

RightWrong = tuple[Any, Any]
"""Fractions (or whole numbers) where the formula is rational, else floats."""


def grpo(n_correct: int, group_size: int) -> RightWrong:
    """GRPO's (fgrpo_bench.objectives.by_rewards.grpo) without its epsilon: (1 - m) / s and -m / s
    with the unbiased standard deviation s = sqrt(c (N - c) / (N (N - 1))); 0 where s = 0."""
    if n_correct in (0, group_size):
        return 0, 0
    mean = Fraction(n_correct, group_size)
    spread = _root(mean * (group_size - n_correct) / (group_size - 1))
    return float(1 - mean) / spread, -float(mean) / spread


def maxrl(n_correct: int, group_size: int) -> RightWrong:
    """MaxRL (arXiv 2602.02710) as published: (1/c) sum r_i S_i, less the control variate
    (1/N) sum S_i.

    Formula: right `N / c - 1`, wrong `-1`
    Weight: `sum_{j<=N} (1 - p)^(j - 1)`, the likelihood's truncated at order N
    Uniform groups: all wrong
    """
    return (Fraction(group_size, n_correct) - 1 if n_correct else 0), -1


def pkpo(
    n_correct: int, group_size: int, *, k: int, baseline: str = "sloo_minus_one"
) -> RightWrong:
    """PKPO (arXiv 2505.15201, theorem 2 and eq. 19). `baseline`: `none`; `sloo` (eq. 29), which
    needs k <= N - 1; `sloo_minus_one` (eq. 33, the paper's choice), which for k = 1 is none.

    Formula: `k E[max S, i in S]` over subsets S of k, less k times the largest reward of k - 1 of
    the others (`sloo_minus_one`), or N k / (N - 1) times that of k of them (`sloo`)
    Weight: `k (1 - p)^(k - 1)`, whatever the baseline
    Uniform groups: none with `sloo_minus_one` and k > 1, else all right
    """
    check_pkpo(group_size, k, baseline)
    right = Fraction(k)
    wrong = k * _any_right(group_size - 1, n_correct, k - 1)
    others = n_correct - 1, n_correct  # right rollouts among the others
    if baseline == "sloo":
        scale = Fraction(group_size * k, group_size - 1)
        right -= scale * _any_right(group_size - 1, others[0], k)
        wrong -= scale * _any_right(group_size - 1, others[1], k)
    elif baseline == "sloo_minus_one" and k > 1:
        right -= k * _any_right(group_size - 1, others[0], k - 1)
        wrong -= k * _any_right(group_size - 1, others[1], k - 1)
    return right, wrong


def check_pkpo(group_size: int, k: int, baseline: str) -> None:
    """ValueError for what PKPO is not defined for."""
    most_k = {"none": group_size, "sloo": group_size - 1, "sloo_minus_one": group_size}
    if baseline not in most_k:
        raise ValueError(f"baseline={baseline!r} of pkpo: choose one of {', '.join(most_k)}")
    check_k("pkpo", k, most_k[baseline], f"with baseline {baseline} and group_size={group_size}")


def mmpo(n_correct: int, group_size: int, *, k: int = 4) -> RightWrong:
    """MMPO (arXiv 2608.02149, whose T is k), without the bias of its plug-in `w(m) (R - m)`.

    Formula: the sum of PKPO's over 1 .. k with `sloo_minus_one`, for 1 that of RLOO
    Weight: `sum_{j<=k} j (1 - p)^(j - 1)`
    Uniform groups: none
    """
    check_k("mmpo", k, group_size, f"with group_size={group_size}")
    right = Fraction(group_size - n_correct, group_size - 1)
    wrong = -Fraction(n_correct, group_size - 1)
    for j in range(2, k + 1):
        more = pkpo(n_correct, group_size, k=j)
        right, wrong = right + more[0], wrong + more[1]
    return right, wrong


def passk(n_correct: int, group_size: int, *, k: int) -> RightWrong:
    """Pass@k training (arXiv 2508.10751), analytic form.

    Formula: with `P = 1 - C(N - c, k) / C(N, k)` and `s = sqrt(P (1 - P))`, right `(1 - P) / s`,
    wrong `(1 - P - C(N - c - 1, k - 1) / C(N - 1, k - 1)) / s`, 0 where s is
    Weight: falls with p for k > 1, to 0 at p = 1; GRPO's shape for k = 1
    Uniform groups: none
    """
    check_k("passk", k, group_size, f"with group_size={group_size}")
    mean = _any_right(group_size, n_correct, k)
    if mean in (0, 1):
        return 0, 0
    spread = _root(mean * (1 - mean))
    without = Fraction(comb(max(group_size - n_correct - 1, 0), k - 1), comb(group_size - 1, k - 1))
    return float(1 - mean) / spread, float(1 - mean - without) / spread


def psr(n_correct: int, group_size: int) -> RightWrong:
    """Positive sample reinforcement (arXiv 2506.01347): right rollouts alone, without baseline.

    Formula: right `1`, wrong `0`
    Weight: 1 at every p
    Uniform groups: all right
    """
    return 1, 0


def nsr(n_correct: int, group_size: int) -> RightWrong:
    """Negative sample reinforcement (arXiv 2506.01347): wrong rollouts alone.

    Formula: right `0`, wrong `-1`
    Weight: 1 at every p
    Uniform groups: all wrong
    """
    return 0, -1


def w_reinforce(n_correct: int, group_size: int, *, weight: float = 0.1) -> RightWrong:
    """Weighted REINFORCE (arXiv 2506.01347, whose lambda is `weight`).

    Formula: right `weight`, wrong `-1`
    Weight: `1 + weight` at every p
    Uniform groups: both
    """
    if isinstance(weight, str) or not weight >= 0:
        raise ValueError(f"weight={weight} of w_reinforce: must be a number of at least 0")
    return Fraction(weight).limit_denominator(10**9), -1


def _any_right(n: int, n_correct: int, k: int) -> Fraction:
    """1 - C(n - c, k) / C(n, k): chance that k of n hold one of c; a c outside 0 .. n is that of a
    rollout that the group does not have."""
    return 1 - Fraction(comb(n - min(max(n_correct, 0), n), k), comb(n, k))


def check_k(name: str, k: int, largest: int, where: str) -> None:
    """ValueError for a k that an advantage is not defined for."""
    if not isinstance(k, int) or not 1 <= k <= largest:
        raise ValueError(f"k={k} of {name}: must be a whole number from 1 to {largest} {where}")


def _root(value: Fraction) -> float:
    """The square root, to the last digit also where numerator and denominator are huge."""
    shift = 10**40
    return isqrt(value.numerator * shift // value.denominator) / sqrt(shift)
