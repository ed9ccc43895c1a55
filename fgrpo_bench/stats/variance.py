"""How far pass@k would move if the draws were made again: exact variances of the estimator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.passk import pass_at_k, pass_at_k_table


def draw_variance(*, n_samples: ArrayLike, n_correct: ArrayLike, k: int) -> NDArray[np.float64]:
    """Unbiased estimate of the variance of a problem's pass@k over its draws, [problems].

    With q_k = 1 - pass@k, an unbiased estimate of (1 - p)^k, the square of the mean has the
    unbiased estimate 1 - 2 q_k + q_2k, so that the variance has q_k^2 - q_2k: never negative, and 0
    for c = 0 and c = n. Raises ValueError where 2k > n.
    """
    n, c = np.broadcast_arrays(np.asarray(n_samples), np.asarray(n_correct))
    if n.size and 2 * k > n.min():
        raise ValueError(
            f"k={k} with {n.min()} draws of a problem: the variance of pass@k can be estimated for "
            f"2k <= n only; draw {2 * k}, or take a smaller k"
        )
    once = 1 - pass_at_k(n_samples=n, n_correct=c, k=k)
    twice = 1 - pass_at_k(n_samples=n, n_correct=c, k=2 * k)
    return np.atleast_1d(np.maximum(once * once - twice, 0.0))


@lru_cache(maxsize=64)
def subsample_moments(
    n_samples: int, subsample: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of pass@k of a subsample, for every number of correct draws; each [n + 1].

    The correct draws of m out of n are hypergeometric. The mean is pass@k of all n draws exactly,
    because a subsample of a subsample is one.
    """
    h, c = np.arange(subsample + 1)[None, :], np.arange(n_samples + 1)[:, None]
    log = _log_choose(c, h) + _log_choose(n_samples - c, subsample - h)
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


def draw_moments(
    *, n_samples: int, k: int, success_rate: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of pass@k of n draws at a known success rate, each of its shape.

    The number of correct draws is binomial; the mean is 1 - (1 - p)^k. Raises ValueError for rates
    outside [0, 1] or k > n.
    """
    rate = np.asarray(success_rate, dtype=float)
    if np.any((rate < 0) | (rate > 1)) or not 1 <= k <= n_samples:
        raise ValueError(
            f"k={k}, n_samples={n_samples}, success_rate={success_rate!r}: must satisfy "
            "1 <= k <= n_samples and 0 <= success_rate <= 1"
        )
    weights = binomial(np.arange(n_samples + 1), n_samples, rate[..., None])
    with np.errstate(divide="ignore"):  # log of 0 at a rate of 1
        mean = -np.expm1(k * np.log1p(-rate))
    deviation = pass_at_k_table(n_samples, k) - mean[..., None]
    return mean, np.asarray((weights * deviation * deviation).sum(axis=-1))


def binomial(
    n_correct: NDArray[np.int64], n_samples: int, success_rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The chance of so many correct ones of n draws at a known success rate; broadcast.

    As scipy.stats.binom.pmf, whose import takes half a second of every plan.
    """
    from scipy.special import xlog1py, xlogy

    sequence = xlogy(n_correct, success_rate) + xlog1py(n_samples - n_correct, -success_rate)
    return np.asarray(np.exp(_log_choose(n_samples, n_correct) + sequence))


def _log_choose(n: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """Of C(n, r), for whole numbers from 0 on; minus infinity where r > n."""
    from scipy.special import gammaln

    n, r = np.asarray(n), np.asarray(r)
    return np.asarray(gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1))
