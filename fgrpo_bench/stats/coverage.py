"""Which problems did a policy gain and lose? Probabilities from counts of correct draws.

A problem is within reach at k where its chance of a correct answer among k draws is at least a
half: a success rate of 1 - 0.5^(1/k) and more (0.0027 for k = 256). The success rate is not known,
only n draws of which c are correct; with Jeffreys' prior its posterior is
Beta(c + 1/2, n - c + 1/2), and the probability of being within reach is the mass above that rate.
Probabilities of two models are multiplied, as if their draws were independent. Cells of one
training seed share random numbers, by which both have luck at once: both are then within reach with
a probability above the product, and since P(lost) = P(old) - P(both), and P(gained) likewise, a
chance of being lost or gained is rather too high than too low. Hardly where it is high: with
a = P(old) and b = P(not new) it is a b here, and at least a + b - 1 = a b - (1 - a)(1 - b) whatever
the dependence (Frechet 1935), which is 0.949 where a b is 0.95.
Where correct draws stop a problem (`fgrpo_bench.stats.staged`) the posterior is the same: when to
stop depends on the rate through the draws alone, so that the likelihood is p^c (1 - p)^(n - c) up
to a factor without p.

Summed over problems the prior's mass counts too: after 512 wrong draws a problem is still within
reach at k = 256 with a probability of 0.096, so that of 300 problems that neither model ever solved
26 would be gained and as many lost. Sums are made with `solved_only`, by which a problem that a
model never solved is out of its reach; whether a problem is surely lost or gained the posterior
says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

PRIOR = 0.5
"""Both parameters of Jeffreys' prior."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """By problem, float64 of the shape of the counts each; the four sum to 1."""

    retained: NDArray[np.float64]
    """Probability that the problem is within reach of both models."""
    gained: NDArray[np.float64]
    """Of the new one alone."""
    lost: NDArray[np.float64]
    """Of the old one alone."""
    neither: NDArray[np.float64]


def reach(*, n_samples: ArrayLike, n_correct: ArrayLike, k: int) -> NDArray[np.float64]:
    """Probability that a problem is within reach at k; float64 of the broadcast shape.

    n_samples, n_correct: draws and correct ones. Without draws it is the prior's. Raises ValueError
    for counts outside 0 <= n_correct <= n_samples or k < 1.
    """
    n, c = np.broadcast_arrays(np.asarray(n_samples), np.asarray(n_correct))
    if k < 1 or np.any((c < 0) | (c > n)):
        raise ValueError(
            f"k={k}, n_correct={n_correct!r}, n_samples={n_samples!r}: must satisfy k >= 1 and "
            "0 <= n_correct <= n_samples"
        )
    out = np.empty(n.shape)
    for total in np.unique(n).tolist():
        rows = n == total
        out[rows] = _reach_table(total, k)[c[rows]]
    return out


@lru_cache(maxsize=64)
def _reach_table(n_samples: int, k: int) -> NDArray[np.float64]:
    """For every number of correct draws, [n_samples + 1]: thousands of problems share these."""
    from scipy.special import betaincc  # as scipy.stats.beta.sf, whose import takes a second

    c = np.arange(n_samples + 1)
    return np.asarray(betaincc(c + PRIOR, n_samples - c + PRIOR, least_rate(k)))


def least_rate(k: int) -> float:
    """The success rate at which one of k draws is as likely correct as none: 1 - 0.5^(1/k)."""
    return float(-np.expm1(np.log(0.5) / k))


def coverage(
    *,
    n_old: ArrayLike,
    old: ArrayLike,
    n_new: ArrayLike,
    new: ArrayLike,
    k: int,
    solved_only: bool = False,
) -> Coverage:
    """What a model gained and lost against another, problem by problem.

    n_old, n_new: draws; old, new: correct ones; integers [problems] in one order. solved_only: a
    problem without a correct draw of a model counts as out of that model's reach, as sums need it.
    """
    before = reach(n_samples=n_old, n_correct=old, k=k)
    after = reach(n_samples=n_new, n_correct=new, k=k)
    if solved_only:
        before, after = before * (np.asarray(old) > 0), after * (np.asarray(new) > 0)
    return between(before, after)


def between(before: NDArray[np.float64], after: NDArray[np.float64]) -> Coverage:
    """The same of what `reach` says of the old model and of the new one."""
    return Coverage(
        retained=before * after,
        gained=(1 - before) * after,
        lost=before * (1 - after),
        neither=(1 - before) * (1 - after),
    )
