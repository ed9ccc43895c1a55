"""Each reading against the mean over all k-subsets, by enumeration in rationals; bounds and bias
against planted truths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from math import isnan

import numpy as np
import pytest

from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.readings import (
    best_at_k,
    best_at_ks,
    cover_at,
    distinct_at_k,
    gini,
    maj_at_k,
    pass_hat_k,
    solution_mass,
)

DRAWS = [["a", "a", "b", "c", "c", None], ["a", "b"], ["c"] * 5, [None, None, "b", "a"]]
"""Answers of the draws of a problem, None: no answer; `a` and `b` are right."""
RIGHT = "ab"


def mean_over_subsets(draws: Sequence[object], k: int, of: Callable[..., Fraction]) -> Fraction:
    subsets = list(combinations(draws, k))
    return sum((of(subset) for subset in subsets), Fraction(0)) / len(subsets)


def distinct(subset: Sequence[str | None]) -> Fraction:
    return Fraction(len({answer for answer in subset if answer and answer in RIGHT}))


def majority(subset: Sequence[str | None]) -> Fraction:
    votes = Counter(answer for answer in subset if answer)
    first = [answer for answer in votes if votes[answer] == max(votes.values())]
    return Fraction(sum(answer in RIGHT for answer in first), max(len(first), 1))


def all_right(subset: Sequence[str | None]) -> Fraction:
    return Fraction(all(answer and answer in RIGHT for answer in subset))


@pytest.mark.parametrize("draws", DRAWS)
def test_each_is_the_mean_over_all_subsets_of_k_draws(draws: list[str | None]) -> None:
    n, votes = len(draws), Counter(answer for answer in draws if answer)
    n_correct = sum(votes[answer] for answer in RIGHT)
    for k in range(1, n + 1):
        by_solution = [votes[answer] for answer in RIGHT]
        assert distinct_at_k(n_samples=n, n_by_solution=by_solution, k=k) == pytest.approx(
            float(mean_over_subsets(draws, k, distinct)), abs=1e-15
        )
        assert maj_at_k(
            n_by_answer=list(votes.values()),
            is_right=[answer in RIGHT for answer in votes],
            n_none=n - votes.total(),
            k=k,
        ) == pytest.approx(float(mean_over_subsets(draws, k, majority)), abs=1e-15)
        assert pass_hat_k(n_samples=n, n_correct=n_correct, k=k) == pytest.approx(
            float(mean_over_subsets(draws, k, all_right)), abs=1e-15
        )


def test_best_at_k_is_the_mean_largest_reward_of_all_subsets() -> None:
    problems = [
        [0.25, 1.0, 0.0, 0.25, 0.5, -1.0],
        [0.5] * 4,
        [1.5, -2.0],
        [0.0, 1.0, 1.0, 0.1, 0.1],
    ]
    ks = range(1, 7)
    together = best_at_ks(n_by_reward=[Counter(rewards) for rewards in problems], ks=ks)
    for rewards, of_problem in zip(problems, together, strict=True):
        for k, value in zip(ks, of_problem, strict=True):
            assert best_at_k(rewards=rewards, k=k) == pytest.approx(value, nan_ok=True, abs=0)
            if k > len(rewards):
                assert isnan(value)
                continue
            expected = mean_over_subsets([Fraction(r) for r in rewards], k, max)
            assert value == pytest.approx(float(expected), abs=1e-15)
    n_correct = np.array([0, 12, 511, 512])
    binary = [{0.0: int(512 - c), 1.0: int(c)} for c in n_correct]
    passed = pass_at_k(n_samples=512, n_correct=n_correct[:, None], k=np.array([1, 64]))
    assert (best_at_ks(n_by_reward=binary, ks=[1, 64]) == passed).all(), "of 0 and 1 it is pass@k"


@pytest.mark.slow
def test_large_counts_keep_their_digits() -> None:
    """Of two answers the more frequent one wins: the hypergeometric tail, in rationals."""
    from math import comb

    n, right, k = 512, 300, 256
    wins = sum(Fraction(comb(right, j) * comb(n - right, k - j)) for j in range(k // 2 + 1, k + 1))
    wins += Fraction(comb(right, k // 2) * comb(n - right, k // 2), 2)
    value = maj_at_k(n_by_answer=[right, n - right], is_right=[True, False], n_none=0, k=k)
    assert value == pytest.approx(float(wins / comb(n, k)), abs=1e-14)
    every = [8] * 64
    assert distinct_at_k(n_samples=n, n_by_solution=every, k=n) == 64


def test_of_fewer_draws_than_k_there_is_no_estimate() -> None:
    assert isnan(distinct_at_k(n_samples=3, n_by_solution=[1], k=4))
    assert isnan(maj_at_k(n_by_answer=[3], is_right=[True], n_none=0, k=4))
    assert isnan(best_at_k(rewards=[1.0], k=2))
    assert isnan(pass_hat_k(n_samples=3, n_correct=3, k=4))
    assert distinct_at_k(n_samples=3, n_by_solution=[], k=2) == 0


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: distinct_at_k(n_samples=3, n_by_solution=[2, 2], k=1), "more than the draws"),
        (lambda: distinct_at_k(n_samples=3, n_by_solution=[0.5], k=1), "must be an integer"),
        (lambda: pass_hat_k(n_samples=3, n_correct=4, k=1), "n_correct=4 of n_samples=3"),
        (lambda: best_at_k(rewards=[1.0, float("nan")], k=1), "rewards finite"),
        (lambda: maj_at_k(n_by_answer=[-1], is_right=[True], n_none=0, k=1), "no count negative"),
        (lambda: gini(n_samples=1, n_correct=[1]), "at least 2 draws"),
        (lambda: cover_at(n_samples=16, n_correct=[1], tau=0.1), "draw 50, or take a larger tau"),
        (lambda: cover_at(n_samples=16, n_correct=[1], tau=1.0), "between 0 and 1"),
    ],
)
def test_what_no_estimate_can_be_of_is_refused(refused: Callable[[], object], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words.replace("(", "\\(")):
        refused()


def _gini_of_rates(rates: np.ndarray) -> float:
    return float(np.abs(rates[:, None] - rates[None, :]).mean() / (2 * rates.mean()))


def test_the_bounds_of_the_gini_coefficient_hold_that_of_planted_rates_on_average() -> None:
    random = np.random.default_rng(3)
    for rates in (np.full(200, 0.3), random.beta(0.4, 1.2, 200), random.beta(2, 2, 200)):
        low, high = np.mean(
            [gini(n_samples=64, n_correct=random.binomial(64, rates)) for _ in range(20)], axis=0
        )
        assert low - 0.015 <= _gini_of_rates(rates) <= high
        assert high - low < 0.13
    assert gini(n_samples=8, n_correct=[8, 0])[1] == 0.5


def test_the_bounds_of_cover_hold_the_planted_share_on_average() -> None:
    random = np.random.default_rng(4)
    for rates in (random.beta(0.5, 1.0, 300), np.full(300, 0.24), np.full(300, 0.26)):
        bounds = [
            cover_at(n_samples=64, n_correct=random.binomial(64, rates), tau=0.25)
            for _ in range(40)
        ]
        low, high = np.mean(bounds, axis=0)
        assert low <= np.mean(rates >= 0.25) + 0.01
        assert high >= np.mean(rates >= 0.25) - 0.01
    assert cover_at(n_samples=512, n_correct=[512, 0], tau=0.5) == pytest.approx(
        (0.45 / 0.95, 0.5 / 0.95)
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 0.5, "b": 0.25}, {"a": 0.5, "b": 0.25}, (0.75, 0.0, 0.0)),
        ({"a": 0.5, "b": 0.25}, {"a": 0.75}, (0.5, 0.25, 0.0)),
        ({"a": 0.5, "b": 0.25}, {"c": 0.25}, (0.0, 0.25, 0.5)),
        ({"a": 0.5, "b": 0.25}, {"a": 0.25}, (0.25, 0.0, 0.5)),
        ({"a": 0.25}, {"a": 0.5, "b": 0.5}, (0.25, 0.0, 0.0)),
        ({}, {"a": 1.0}, (0.0, 0.0, 0.0)),
    ],
)
def test_the_old_mass_on_solutions_is_kept_moved_or_lost(
    old: dict[str, float], new: dict[str, float], expected: tuple[float, float, float]
) -> None:
    assert solution_mass(old, new) == pytest.approx(expected)
