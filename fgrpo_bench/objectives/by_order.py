"""Advantages that depend on the order of the rewards of a group: for graded rewards, any numbers.

Each is linear in the rewards of a group once these are sorted: a matrix of exact fractions that
depends on the group size alone. Rewards are [groups, group_size], and so is what comes back;
tensors and NumPy arrays alike (of Fractions too). Equal rewards get equal advantages, and a group
of equal ones exactly 0, but for `sloo` and `none` of PKPO.

E[max S | i in S] is over the subsets S of k rollouts that hold rollout i, of C(N - 1, k - 1);
E[max S | i not in S] over those of k of the others, of C(N - 1, k).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any

from fgrpo_bench.objectives.by_count import check_k, check_pkpo
from fgrpo_bench.objectives.by_rewards import exactly_equal_to_0, like

Matrix = tuple[tuple[Fraction, ...], ...]
"""[N, N]: advantages by rank, of rewards by rank, the smallest first."""


def tailrl(rewards: Any) -> Any:
    """TailRL (arXiv 2609.02987): MaxRL for partial credit, `maxrl_coded` with rewards of 0 and 1.

    Formula: `w - mean w`, `w_(i) = N sum_{j<=i} (r_(j) - r_(j-1)) / (N - j + 1)` for the i-th
    smallest reward
    Weight: `sum_{j<=N-1} (1 - p)^(j - 1)`
    Uniform groups: none
    """
    return _by_rank(exactly_equal_to_0(rewards), _tailrl(rewards.shape[1]))


def max_at_k(rewards: Any, *, k: int) -> Any:
    """OrderGrad's max@K (arXiv 2606.06096), k < N; k = 1 is `rloo`.

    Formula: `E[max S, i in S] - E[max S, i not in S]` over subsets S of k
    Weight: `(1 - p)^(k - 1)`, the k-th part of PKPO's
    Uniform groups: none
    """
    group_size = rewards.shape[1]
    check_k("max_at_k", k, group_size - 1, f"with group_size={group_size}")
    return _by_rank(exactly_equal_to_0(rewards), _max_at_k(group_size, k))


def pkpo(rewards: Any, *, k: int, baseline: str = "sloo_minus_one") -> Any:
    """PKPO for graded rewards (arXiv 2505.15201, eq. 19): k E[max S | i in S], less k times the
    largest reward of k - 1 of the others (`sloo_minus_one`, eq. 33, for k > 1) or N k / (N - 1)
    times that of k of the others (`sloo`, eq. 29). With rewards of 0 and 1 it is by_count.pkpo."""
    group_size = rewards.shape[1]
    check_pkpo(group_size, k, baseline)
    if baseline == "sloo_minus_one" and k > 1:
        rewards = exactly_equal_to_0(rewards)
    return _by_rank(rewards, _pkpo(group_size, k, baseline))


def mmpo(rewards: Any, *, k: int = 4) -> Any:
    """The sum of PKPO's over 1 .. k (by_count.mmpo), for graded rewards."""
    rewards = exactly_equal_to_0(rewards)
    return _by_rank(rewards, _sum(_pkpo(rewards.shape[1], j, "mmpo") for j in range(1, k + 1)))


def _by_rank(rewards: Any, matrix: Matrix) -> Any:
    """The matrix times the sorted rewards of each group, back in the order of these."""
    if hasattr(rewards, "gather"):
        rising, order = rewards.sort(dim=1, stable=True)
        values = rising @ like(rewards, [[float(x) for x in row] for row in matrix]).T
        return values.gather(1, order.argsort(dim=1))
    import numpy as np

    order = np.argsort(rewards, axis=1, kind="stable")
    exact = np.array(matrix, dtype=object)
    by_rank = exact if rewards.dtype == object else exact.astype(float)
    values = np.take_along_axis(rewards, order, axis=1) @ by_rank.T
    return np.take_along_axis(values, order.argsort(axis=1), axis=1)


@lru_cache(maxsize=64)
def _tailrl(n: int) -> Matrix:
    # The share of the step r_(j) - r_(j-1) in w_(i); r_(0) is in every w and drops out.
    steps = [Fraction(n, n - j + 1) for j in range(1, n + 1)]
    gains = []
    for i in range(n):
        # w_(i) has the steps up to its own; r_(j) ends one of them and begins the next.
        ends = [steps[j] if j <= i else Fraction(0) for j in range(n)]
        begins = [steps[j + 1] if j < i else Fraction(0) for j in range(n)]
        gains.append([end - begin for end, begin in zip(ends, begins, strict=True)])
    means = [sum(column) / Fraction(n) for column in zip(*gains, strict=True)]
    return tuple(
        tuple(Fraction(gain - mean) for gain, mean in zip(row, means, strict=True)) for row in gains
    )


@lru_cache(maxsize=64)
def _max_at_k(n: int, k: int) -> Matrix:
    return _difference(_largest_with(n, k), _largest_without(n, k))


@lru_cache(maxsize=64)
def _pkpo(n: int, k: int, baseline: str) -> Matrix:
    """baseline `mmpo`: as `sloo_minus_one`, and for k = 1 that of RLOO, the mean of the others."""
    reward = _times(k, _largest_with(n, k))
    if baseline == "sloo":
        return _difference(reward, _times(Fraction(n * k, n - 1), _largest_without(n, k)))
    if baseline == "mmpo" and k == 1:
        return _difference(reward, _largest_without(n, 1))
    if baseline == "none" or k == 1:
        return reward
    return _difference(reward, _times(k, _largest_without(n, k - 1)))


def _largest_with(n: int, k: int) -> Matrix:
    """E[max S | i in S] by rank of i and j, from 0: the j-th smallest is the largest of S."""

    def chance(i: int, j: int) -> Fraction:
        if j < i:
            return Fraction(0)
        # Of those below j, k - 1 are chosen; where j is not i itself, i is one of them.
        if j == i:
            ways = comb(j, k - 1)
        elif k > 1:
            ways = comb(j - 1, k - 2)
        else:
            ways = 0
        return Fraction(ways, comb(n - 1, k - 1))

    return tuple(tuple(chance(i, j) for j in range(n)) for i in range(n))


def _largest_without(n: int, k: int) -> Matrix:
    """E[max S | i not in S], likewise."""

    def chance(i: int, j: int) -> Fraction:
        below = j if j < i else j - 1  # of the others
        return Fraction(0 if j == i else comb(below, k - 1), comb(n - 1, k))

    return tuple(tuple(chance(i, j) for j in range(n)) for i in range(n))


def _times(factor: Fraction | int, matrix: Matrix) -> Matrix:
    return tuple(tuple(Fraction(factor * value) for value in row) for row in matrix)


def _difference(first: Matrix, second: Matrix) -> Matrix:
    return _sum((first, _times(-1, second)))


def _sum(matrices: Any) -> Matrix:
    return tuple(
        tuple(sum(values, Fraction(0)) for values in zip(*rows, strict=True))
        for rows in zip(*matrices, strict=True)
    )
