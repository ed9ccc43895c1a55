"""The paired m-out-of-n subsampling test of pass@k (F-GRPO, arXiv 2602.06717, app. Q).

Of n draws of a problem m are taken without replacement, pass@k of both models is averaged over
problems, and the difference is looked at over many such choices. In closed form (default), by
seeded Monte Carlo (the reference), or exactly where k = m. It is conservative: its spread is that
of m draws with a finite-population factor, sqrt((n - m) / m) times that of the n draws that were
made, 1.73 times for n = 1,024, m = 256 and k far below m. `rescaled=True` scales each problem's
variance to that of its n draws, so that the size is right at every k.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import draw_moments, log_choose, pass_at_k, pass_at_k_table
from fgrpo_bench.stats.significance import Counts, Designs, TestResult, checked_sides, normal_result

SUBSAMPLE = 256
"""m of the published test."""
ITERATIONS = 50_000
"""Of the published test."""
SEED = 0
CHUNK = 5_000
"""Monte Carlo iterations at once: bounds the memory."""
GUIDES = 4_096
"""Steps in which a distribution is looked up before it is searched."""


def subsampling_test(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: ArrayLike,
    k: int,
    subsample: int = SUBSAMPLE,
    method: Literal["moments", "monte_carlo", "exact"] = "moments",
    rescaled: bool = False,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    design: Designs = None,
) -> TestResult:
    """The paired m-out-of-n subsampling test.

    old, new, n_samples: as of `draws_test`. subsample: m, at most every n. method: moments
    (closed-form mean and variance, normal tails, a continuity correction where the difference is on
    a lattice: of 1 / problems for k = m, of 1 / (m problems) for k = 1; an approximation for few
    problems), monte_carlo (the definition, `iterations` times by hypergeometric counts, p-values
    (b + 1) / (B + 1)), exact (k = m only: a difference of Poisson-binomial variables). rescaled:
    see the top of the module; moments only. design: as of `draws_test`; draws that stop have no
    subsamples.
    Raises ValueError for k > m, m > n, counts outside 0 .. n, no problems, a method that does not
    fit, or a design of several stages.
    """
    for own in design if isinstance(design, tuple) else (design,):
        if own is not None and len(own.stages) > 1:
            raise ValueError(
                f"stages={own.stages}, enough={own.enough}: a subsample is of a fixed number of "
                "draws, and a problem that stopped has more correct ones among them than others; "
                "use draws_test, or judge a fixed number of draws"
            )
    (a, n_a), (b, n_b) = checked_sides(old, new, n_samples)
    least = int(min(n_a.min(), n_b.min()))
    if not 1 <= k <= subsample <= least:
        raise ValueError(
            f"k={k}, subsample={subsample}, fewest draws of a problem {least}: must satisfy "
            "1 <= k <= subsample <= draws; take a smaller subsample or k, or draw more"
        )
    if rescaled and (method != "moments" or subsample == least):
        raise ValueError(
            f"rescaled with method={method}, subsample={subsample}, n_samples={least}: the "
            "rescaled test needs method=moments and fewer draws taken than made"
        )
    if method == "exact":
        if k != subsample:
            raise ValueError(
                f"method=exact with k={k} and subsample={subsample}: exact only where both are "
                "equal; use moments or monte_carlo"
            )
        return _exact(a, n_a, b, n_b, k)
    if method == "monte_carlo":
        return _monte_carlo(a, n_a, b, n_b, k, subsample, iterations, seed)
    mean_a, var_a = _looked_up(a, n_a, subsample, k)
    mean_b, var_b = _looked_up(b, n_b, subsample, k)
    if rescaled:
        var_a = var_a * _factors(a, n_a, subsample, k)
        var_b = var_b * _factors(b, n_b, subsample, k)
    difference = float((mean_b - mean_a).mean())
    sd = math.sqrt(var_a.sum() + var_b.sum()) / len(a)
    step = _lattice(k, subsample) / len(a)
    return normal_result(difference, sd, len(a), half_step=0.0 if rescaled else step / 2)


def _lattice(k: int, subsample: int) -> float:
    """The step of which a subsample's pass@k is a multiple: its correct draws are counted at k = 1,
    and it holds one or none at k = m; 0 between, where the steps differ."""
    return 1.0 if k == subsample else 1 / subsample if k == 1 else 0.0


def _looked_up(
    c: Counts, n: Counts, subsample: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, variance = np.empty(len(c)), np.empty(len(c))
    for total in np.unique(n).tolist():
        rows = n == total
        tables = subsample_moments(total, subsample, k)
        mean[rows], variance[rows] = tables[0][c[rows]], tables[1][c[rows]]
    return mean, variance


def _factors(c: Counts, n: Counts, subsample: int, k: int) -> NDArray[np.float64]:
    factors = np.empty(len(c))
    for total in np.unique(n).tolist():
        rows = n == total
        factors[rows] = rescaling(total, subsample, k)[c[rows]]
    return factors


def _exact(a: Counts, n_a: Counts, b: Counts, n_b: Counts, k: int) -> TestResult:
    """k = m: a subsample's pass@k is 1 where it holds a correct draw, so each mean is a
    Poisson-binomial number of problems over the number of problems."""
    q_a = np.atleast_1d(pass_at_k(n_samples=n_a, n_correct=a, k=k))
    q_b = np.atleast_1d(pass_at_k(n_samples=n_b, n_correct=b, k=k))
    distribution = np.ones(1)  # of solved by new minus solved by old, from -problems up
    for q in (*q_b, *(1 - q_a)):
        distribution = np.convolve(distribution, (1 - q, q))
    zero = len(q_a)  # 1 - q_a counts the problems that old misses
    below, above = distribution[: zero + 1].sum(), distribution[zero:].sum()
    variance = (q_a * (1 - q_a)).sum() + (q_b * (1 - q_b)).sum()
    return TestResult(
        difference=float((q_b - q_a).mean()),
        sd=math.sqrt(variance) / zero,
        p_value=float(min(1.0, 2 * min(below, above))),
        p_tie=float(distribution[zero]),
        n_problems=zero,
    )


def _monte_carlo(
    a: Counts, n_a: Counts, b: Counts, n_b: Counts, k: int, m: int, iterations: int, seed: int
) -> TestResult:
    rng = np.random.default_rng(seed)
    sides = [Subsamples(c, n, m, k) for c, n in ((b, n_b), (a, n_a))]
    differences = np.concatenate(
        [
            sides[0].means(times, rng) - sides[1].means(times, rng)
            for times in [min(CHUNK, iterations - done) for done in range(0, iterations, CHUNK)]
        ]
    )
    rounded = np.round(differences, 12)  # sums of equal terms in another order are equal
    low, high = int((rounded <= 0).sum()), int((rounded >= 0).sum())
    return TestResult(
        difference=float(differences.mean()),
        sd=float(differences.std(ddof=1)),
        p_value=min(1.0, 2 * (min(low, high) + 1) / (iterations + 1)),
        p_tie=float((rounded == 0).mean()),
        n_problems=len(a),
    )


class Subsamples:
    """Mean pass@k of subsamples of many problems: correct draws among m are hypergeometric, and
    are drawn by inverting their distribution, which problems with equal counts share."""

    def __init__(self, c: Counts, n: Counts, m: int, k: int) -> None:
        from scipy.stats import hypergeom  # scipy.special has none

        varied = (c > 0) & (c < n)  # the others are what they are in every subsample
        self.fixed = float((c[~varied] == n[~varied]).sum())
        self.n_problems, self.values = len(c), pass_at_k_table(m, k)
        pairs, self.times = np.unique(np.stack([n[varied], c[varied]]), axis=1, return_counts=True)
        self.below = np.asarray(
            hypergeom.cdf(np.arange(m), pairs[0][:, None], pairs[1][:, None], m)
        )

    def means(self, iterations: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """float64 [iterations]."""
        total = np.full(iterations, self.fixed)
        for below, times in zip(self.below, self.times.tolist(), strict=True):
            u = rng.random(times * iterations)
            total += self._values(below, u).reshape(times, iterations).sum(axis=0)
        return total / self.n_problems

    def _values(self, below: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """pass@k at uniform numbers: looked up in GUIDES equal steps, and searched for in the few
        steps that hold more than one count."""
        ends = np.searchsorted(below, np.arange(GUIDES + 1) / GUIDES, side="right")
        step = (u * GUIDES).astype(np.intp)
        out: NDArray[np.float64] = self.values[ends[:-1]][step]
        unsure = np.flatnonzero((ends[1:] > ends[:-1])[step])
        out[unsure] = self.values[np.searchsorted(below, u[unsure], side="right")]
        return out


@lru_cache(maxsize=64)
def subsample_moments(
    n_samples: int, subsample: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of pass@k of a subsample, for every number of correct draws; each [n + 1].

    The correct draws of m out of n are hypergeometric. The mean is pass@k of all n draws exactly,
    because a subsample of a subsample is one.
    """
    h, c = np.arange(subsample + 1)[None, :], np.arange(n_samples + 1)[:, None]
    log = log_choose(c, h) + log_choose(n_samples - c, subsample - h)
    log -= log.max(axis=1, keepdims=True)
    weights = np.exp(log)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = pass_at_k_table(n_samples, k)
    deviation = pass_at_k_table(subsample, k)[None, :] - mean[:, None]
    variance = np.einsum("ch,ch->c", weights, deviation * deviation)
    variance[[0, -1]] = 0.0
    return mean, variance


@lru_cache(maxsize=64)
def rescaling(n_samples: int, subsample: int, k: int) -> NDArray[np.float64]:
    """What the variance of a subsample's pass@k is multiplied by to be that of all n draws, for
    every number of correct draws; [n + 1].

    With V_n the variance of n draws at a success rate, that of a subsample of given draws is
    V_m - V_n on average, so the factor is V_n / (V_m - V_n) at the rate c / n. For k far below m it
    is the finite-population m / (n - m) (Politis and Romano 1994); near m it is less.
    """
    factor = np.full(n_samples + 1, subsample / (n_samples - subsample))
    rate = np.arange(1, n_samples) / n_samples
    of_all, of_some = (
        draw_moments(n_samples=n, k=k, success_rate=rate)[1] for n in (n_samples, subsample)
    )
    varied = of_some > of_all  # both are 0 to the last digit where success is all but certain
    inner = factor[1:-1]
    inner[varied] = of_all[varied] / (of_some - of_all)[varied]
    return factor
