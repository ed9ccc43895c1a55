"""The formulas of docs/reference/methods.md in rationals, subset by subset: no code of the library.

An advantage is a fraction, or where a formula has a root (value, square of what it is divided by),
or a float where it has a power of e.
"""

from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb, exp


def grpo(rewards):
    n, m = len(rewards), mean(rewards)
    variance = sum((r - m) ** 2 for r in rewards) / (n - 1)
    return [(r - m, variance) for r in rewards]


def dr_grpo(rewards):
    return [r - mean(rewards) for r in rewards]


def rloo(rewards):
    """Each against the mean of the others."""
    n = len(rewards)
    return [r - (sum(rewards) - r) / (n - 1) for r in rewards]


def maxrl(rewards):
    n, c = len(rewards), sum(rewards)
    return [n / c - 1 if r else Fraction(-1) for r in rewards]


def maxrl_coded(rewards):
    m = mean(rewards)
    return [(r - m) / m if m else Fraction(0) for r in rewards]


def pkpo(rewards, *, k, baseline):
    n = len(rewards)
    values = []
    for i, r in enumerate(rewards):
        others = tuple(sorted(rewards[:i] + rewards[i + 1 :]))
        value = k * largest_with(r, others, k)
        if baseline == "sloo":
            value -= Fraction(n * k, n - 1) * largest(others, k)
        elif baseline == "sloo_minus_one" and k > 1:
            value -= k * largest(others, k - 1)
        values.append(value)
    return values


def mmpo(rewards, *, k):
    parts = [rloo(rewards)]
    parts += [pkpo(rewards, k=j, baseline="sloo_minus_one") for j in range(2, k + 1)]
    return [sum(values) for values in zip(*parts, strict=True)]


def max_at_k(rewards, *, k):
    values = []
    for i, r in enumerate(rewards):
        others = tuple(sorted(rewards[:i] + rewards[i + 1 :]))
        values.append(largest_with(r, others, k) - largest(others, k))
    return values


def passk(rewards, *, k):
    n, c = len(rewards), int(sum(rewards))
    p = 1 - Fraction(comb(n - c, k), comb(n, k))
    values = []
    for r in rewards:
        # what is left for a wrong one: the subsets that hold it and no right one
        missed = 0 if r else Fraction(comb(n - c - 1, k - 1), comb(n - 1, k - 1))
        values.append((1 - p - missed, p * (1 - p)))
    return values


def psr(rewards):
    return [Fraction(r) for r in rewards]


def nsr(rewards):
    return [Fraction(r) - 1 for r in rewards]


def w_reinforce(rewards, *, weight):
    return [Fraction(str(weight)) if r else Fraction(-1) for r in rewards]


def rs_grpo(rewards, *, beta):
    if len({*rewards}) == 1:
        return [Fraction(0) for _ in rewards]
    raised = [exp(beta * float(r)) for r in rewards]
    return [(value / mean(raised) - 1) / beta for value in raised]


def tailrl(rewards):
    n, rising = len(rewards), sorted(rewards)
    weights, total = {}, Fraction(0)
    for j, r in enumerate(rising):
        total += n * (r - (rising[j - 1] if j else 0)) / Fraction(n - j)
        weights[r] = total
    m = mean([weights[r] for r in rewards])
    return [weights[r] - m for r in rewards]


def mean(values):
    return sum(values) / len(values)


@cache
def largest(others, k):
    """The mean over subsets of k."""
    sets = list(combinations(others, k))
    return Fraction(sum(max(chosen) for chosen in sets)) / len(sets)


@cache
def largest_with(r, others, k):
    sets = list(combinations(others, k - 1))
    return Fraction(sum(max((r, *chosen)) for chosen in sets)) / len(sets)
