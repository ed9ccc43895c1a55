"""Other readings of the draws that pass@k is computed from: pass^k, maj@k, best@k, distinct@k, and
how success is spread over problems.

In: counts or rewards of a problem's n draws. Out: the exact mean over all k-subsets of these, which
is unbiased for k fresh draws, for every k up to n; nan where n < k, as then no such estimator is.
Staged draws have these for k up to their first stage alone: a later one depends on what was seen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import binomial, integers, log_choose, pass_at_k

ALPHA = 0.05
"""Of the bounds of Cover@tau: the chance that a problem on the other side of tau is counted."""
LEAST_EXPECTED = 5.0
"""Fewest right draws, n tau, that a problem at tau is expected to have."""


def distinct_at_k(*, n_samples: int, n_by_solution: ArrayLike, k: int) -> float:
    """Expected number of different right solutions among k of a problem's n draws.

    The sum over solutions m of 1 - C(n - c_m, k) / C(n, k), c_m of the draws being solution m.
    n_by_solution: the c_m, [solutions]; wrong draws are in none. nan where n_samples < k. Raises
    TypeError and ValueError as `pass_at_k`, and where the c_m are together more than n_samples.

    >>> distinct_at_k(n_samples=4, n_by_solution=[2, 1], k=1)
    0.75
    """
    given = np.atleast_1d(np.asarray(n_by_solution))
    counts = integers("n_by_solution", given if given.size else np.zeros(0, dtype=int))
    if counts.sum() > n_samples:
        raise ValueError(
            f"n_by_solution={counts.tolist()} of n_samples={n_samples}: together they are more "
            "than the draws; count each draw once"
        )
    return float(np.sum(pass_at_k(n_samples=n_samples, n_correct=counts, k=k)))


def pass_hat_k(*, n_samples: Any, n_correct: Any, k: Any) -> Any:
    """pass^k: probability that all of k draws are correct, C(c, k) / C(n, k).

    It is one minus the chance that some of k draws is wrong, so that arguments, shapes, nan and
    errors are those of `pass_at_k` (tau-bench, arXiv 2406.12045, section 3).

    >>> pass_hat_k(n_samples=4, n_correct=2, k=1)
    0.5
    """
    pass_at_k(n_samples=n_samples, n_correct=n_correct, k=k)  # its checks, with the right names
    wrong = np.asarray(n_samples) - np.asarray(n_correct)
    return 1.0 - pass_at_k(n_samples=n_samples, n_correct=wrong, k=k)


def best_at_k(*, rewards: ArrayLike, k: int) -> float:
    """Expected largest reward of k of a problem's n draws.

    The sum over the i-th smallest reward of C(i - 1, k - 1) / C(n, k) times it. rewards: finite,
    [n_samples]. nan where n < k. ValueError for k < 1 and rewards that are not finite.

    >>> best_at_k(rewards=[0.0, 0.25, 1.0], k=3)
    1.0
    """
    given = np.asarray(rewards, dtype=float).tolist()
    return float(best_at_ks(n_by_reward=[Counter(given)], ks=[k])[0, 0])


def best_at_ks(
    *, n_by_reward: Sequence[Mapping[float, int]], ks: Sequence[int]
) -> NDArray[np.float64]:
    """`best_at_k` of many problems at several k, [problems, ks], in one pass.

    n_by_reward: of each problem its draws by reward. The same sum, arranged by different rewards:
    the least one, and every larger one adds what it is more than the one before, times pass@k of
    the draws that earn at least as much. Of rewards 0 and 1 it is pass@k to the last bit.
    """
    if min(ks) < 1 or not all(map(math.isfinite, chain.from_iterable(n_by_reward))):
        raise ValueError(f"k={min(ks)} of rewards: k must be at least 1, rewards finite")
    rising = [np.array(sorted(of.items())).reshape(-1, 2) for of in n_by_reward]
    n_samples = np.array([int(of[:, 1].sum()) for of in rising])
    least = [of[0, 0] if len(of) else math.nan for of in rising]
    best = np.repeat(np.array(least)[:, None], len(ks), axis=1)
    places = np.repeat(np.arange(len(rising)), [max(len(of) - 1, 0) for of in rising])
    if places.size:
        gains = np.concatenate([np.diff(of[:, 0]) for of in rising])
        at_least = np.concatenate([of[::-1, 1].cumsum()[-2::-1] for of in rising]).astype(int)
        chances = pass_at_k(
            n_samples=n_samples[places][:, None], n_correct=at_least[:, None], k=np.array(ks)
        )
        np.add.at(best, places, gains[:, None] * chances)
    best[n_samples[:, None] < np.array(ks)] = math.nan
    return best


def maj_at_k(*, n_by_answer: Sequence[int], is_right: Sequence[bool], n_none: int, k: int) -> float:
    """Probability that the most frequent answer of k of a problem's n draws is right.

    The exact mean over all k-subsets; of answers that are equally frequent each is taken with equal
    chance. n_by_answer: draws by different answers, [answers]; is_right: which of these are right,
    [answers]; n_none: draws without an answer, which vote for none. A subset without any vote is
    wrong. nan where there are fewer than k draws. ValueError for negative counts and k < 1.

    >>> maj_at_k(n_by_answer=[2, 1], is_right=[True, False], n_none=0, k=3)
    1.0
    """
    values = maj_at_ks(n_by_answer=[n_by_answer], is_right=[is_right], n_none=[n_none], ks=[k])
    return float(values[0, 0])


def maj_at_ks(
    *,
    n_by_answer: Sequence[Sequence[int]],
    is_right: Sequence[Sequence[bool]],
    n_none: Sequence[int],
    ks: Sequence[int],
) -> NDArray[np.float64]:
    """`maj_at_k` of many problems at several k, [problems, ks], in one pass; its arguments, each by
    problem."""
    width, most = max(map(len, n_by_answer), default=0), max(ks)
    counts = np.zeros((len(n_by_answer), width), dtype=int)
    right = np.zeros(counts.shape, dtype=bool)
    for row, (of_problem, of_right) in enumerate(zip(n_by_answer, is_right, strict=True)):
        counts[row, : len(of_problem)], right[row, : len(of_problem)] = of_problem, of_right
    none = np.asarray(n_none, dtype=int)
    if min(ks) < 1 or (none < 0).any() or (counts < 0).any():
        raise ValueError(
            f"k={min(ks)}, n_by_answer={[list(map(int, of)) for of in n_by_answer]}, "
            f"n_none={none.tolist()}: k must be at least 1 and no count negative"
        )
    n_samples = counts.sum(axis=1) + none
    # Of m draws all numbers are kept times 2^(m scale), so that those of `most` draws are near 1:
    # a float holds no C(16000, 256). Powers of 2 cost no digit.
    largest = comb(max([most, *n_samples.tolist()]), most)
    scale = -round(largest.bit_length() / most)
    order = np.argsort(-counts, axis=1, kind="stable")
    votes = _votes(
        np.take_along_axis(counts, order, 1), np.take_along_axis(right, order, 1), none, most, scale
    )
    subsets = np.array([_choices(n, most, scale) for n in n_samples.tolist()])
    shares = np.full(votes.shape, np.nan)
    np.divide(votes, subsets, out=shares, where=subsets > 0)
    return shares[:, list(ks)]


def _votes(
    counts: NDArray[np.int64],
    right: NDArray[np.bool_],
    none: NDArray[np.int64],
    most: int,
    scale: int,
) -> NDArray[np.float64]:
    """Subsets of m = 0 .. most draws by problem, each by the share of right answers among those
    that are most frequent in it, times 2^(m scale): [problems, most + 1].

    counts: by answer, falling, [problems, answers], likewise right; none: [problems]. For every
    number j of draws of the most frequent answers, ways[0, t, m] counts the choices of m draws in
    which no answer has more than j and t of them have just j, and ways[1, t, m] the same times the
    right ones among these t. Answers of fewer than j draws are bound by nothing, so that they and
    the draws without an answer are chosen as one. All terms are positive, so that no digit is lost.
    """
    votes = np.zeros((len(counts), most + 1))
    for j in range(1, min(most, int(counts.max(initial=0))) + 1):
        n_bound = (counts >= j).sum(axis=1)
        rows = np.flatnonzero((right & (counts >= j)).any(axis=1))
        if not rows.size:
            break
        rows = rows[np.argsort(-n_bound[rows], kind="stable")]  # of most answers first
        unbound = none[rows] + np.where(counts[rows] < j, counts[rows], 0).sum(axis=1)
        ways = np.zeros((2, len(rows), most // j + 1, most + 1))
        ways[0, :, 0] = [_choices(n, most, scale) for n in unbound.tolist()]
        for answer in range(n_bound[rows].max(initial=0)):
            n_rows = np.count_nonzero(n_bound[rows] > answer)  # that have so many answers
            at = rows[:n_rows], answer
            of_answer = np.array([_choices(n, most, scale) for n in counts[at].tolist()])
            ways[:, :n_rows] = _with_answer(ways[:, :n_rows], of_answer, right[at], j)
        ties = np.arange(1, most // j + 1)
        votes[rows] += (ways[1, :, 1:] / ties[:, None]).sum(axis=1)
    return votes


def _with_answer(
    ways: NDArray[np.float64], choices: NDArray[np.float64], right: NDArray[np.bool_], j: int
) -> NDArray[np.float64]:
    """`_votes`' ways with one more answer of each problem, of which at most j draws are chosen.

    choices: of its draws, [problems, most + 1]; right: whether it is, [problems].
    """
    width = ways.shape[-1]
    ways_with = np.zeros_like(ways)
    for i in range(min(j, width - 1) + 1):
        chosen = ways[..., : width - i] * choices[:, None, i, None]
        if i < j:
            ways_with[..., i:] += chosen
        else:
            ways_with[:, :, 1:, i:] += chosen[:, :, :-1]
            ways_with[1, :, 1:, i:] += chosen[0, :, :-1] * right[:, None, None]
    return ways_with


@lru_cache(maxsize=100_000)
def _choices(n: int, most: int, scale: int) -> NDArray[np.float64]:
    """C(n, m) 2^(m scale) for m = 0 .. most."""
    out = np.zeros(most + 1)
    for m in range(min(n, most) + 1):
        number = comb(n, m)
        bits = number.bit_length()
        out[m] = math.ldexp(number / (1 << bits), bits + m * scale)
    return out


def solution_mass(old: Mapping[str, float], new: Mapping[str, float]) -> tuple[float, float, float]:
    """What became of one model's mass on the right solutions of a problem under another: kept,
    moved to other solutions, lost. Together they are all of the old mass.

    old, new: share of the draws by solution. Kept is the sum of the smaller share of each solution,
    lost what the new model has less of in all. Noise of few draws makes the kept part smaller and
    the moved part larger than they are.
    """
    kept = sum(min(share, new.get(solution, 0.0)) for solution, share in old.items())
    mass = sum(old.values())
    lost = max(0.0, mass - sum(new.values()))
    return kept, mass - kept - lost, lost


def gini(*, n_samples: int, n_correct: ArrayLike) -> tuple[float, float]:
    """Bounds of the Gini coefficient of the success rates of problems.

    The coefficient, the mean absolute difference of rates over twice their mean, of c / n is on
    average too large (|x - y| is convex), so it is the upper bound. What noise adds falls as
    1 / sqrt(n) where rates are equal and as 1 / n where they are spread out; the lower bound takes
    out the first, G(n) - (G(n / 2) - G(n)) / (sqrt(2) - 1), with G(n / 2) the exact mean over all
    halves of the draws. Within 0 and 1; nan where nothing is solved. n_correct: of each problem,
    [problems]. ValueError for fewer than 2 draws.
    """
    counts = integers("n_correct", n_correct)
    if n_samples < 2 or counts.size == 0 or counts.min() < 0 or counts.max() > n_samples:
        raise ValueError(
            f"n_samples={n_samples}, n_correct={counts.tolist()}: give at least 2 draws of each "
            "problem and counts from 0 to n_samples"
        )
    if not counts.any():
        return float("nan"), float("nan")
    mean, half = counts.mean() / n_samples, n_samples // 2
    whole = _gini(np.eye(n_samples + 1)[counts], mean)
    distinct, places = np.unique(counts, return_inverse=True)
    halves = _hypergeometric(n_samples, distinct, half)
    of_half = _gini(halves[places], mean)
    low = whole - (of_half - whole) / (math.sqrt(2) - 1)
    return float(np.clip(low, 0.0, 1.0)), whole


def _hypergeometric(n: int, n_correct: NDArray[np.int64], half: int) -> NDArray[np.float64]:
    """Chance of i correct ones in half of the draws, [problems, half + 1]."""
    right = np.arange(half + 1)
    correct = n_correct[:, None]
    ways = log_choose(correct, right) + log_choose(n - correct, half - right)
    return np.asarray(np.exp(ways - log_choose(n, half)))


def _gini(chances: NDArray[np.float64], mean: float) -> float:
    """E|x - y| / (2 mean) for two problems drawn with replacement; of one problem with itself 0.

    chances: of each problem's number of correct ones, [problems, n + 1]. With F the share at or
    below a value, E|x - y| of independent x and y is the sum of F_x (1 - F_y) + F_y (1 - F_x).
    """
    problems, width = chances.shape
    at_most = chances.cumsum(axis=1)[:, :-1]
    spread = at_most.mean(axis=0) * (1 - at_most.mean(axis=0))
    with_itself = (at_most * (1 - at_most)).sum() / problems**2
    return float(2 * (spread.sum() - with_itself) / (width - 1) / (2 * mean))


def cover_at(*, n_samples: int, n_correct: ArrayLike, tau: float) -> tuple[float, float]:
    """Bounds of Cover@tau, the share of problems with a success rate of at least tau, for which no
    unbiased estimator exists.

    With m the least count of P(Bin(n, tau) >= m) <= 5%, a problem below tau has m right draws in at
    most 5% of cases, so that (share(c >= m) - 0.05) / 0.95 is on average at most the truth;
    likewise with m' the largest count of P(Bin(n, tau) <= m') <= 5%, (1 - share(c <= m')) / 0.95 is
    at least the truth. Returned within 0 and 1. Raises ValueError for tau outside (0, 1) and where
    n tau < 5, as then a problem at tau may have no right draw at all.
    """
    counts = integers("n_correct", n_correct)
    if not 0 < tau < 1:
        raise ValueError(f"tau={tau}: a success rate between 0 and 1")
    if n_samples * tau < LEAST_EXPECTED:
        least = int(np.ceil(LEAST_EXPECTED / tau))
        raise ValueError(
            f"tau={tau} of {n_samples} draws: a problem at tau has {n_samples * tau:g} right draws "
            f"on average, and fewer than {LEAST_EXPECTED:g} tell nothing; draw {least}, or take a "
            "larger tau"
        )
    chances = binomial(np.arange(n_samples + 1), n_samples, np.asarray(tau))
    at_least = chances[::-1].cumsum()[::-1]
    above = np.searchsorted(-at_least, -ALPHA)  # the least m; n + 1 where there is none
    below = np.searchsorted(chances.cumsum(), ALPHA, side="right") - 1
    low = ((counts >= above).mean() - ALPHA) / (1 - ALPHA)
    high = (1 - (counts <= below).mean()) / (1 - ALPHA)
    return float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))
