"""How far pass@k would move if the draws were made again: exact variances of the estimator."""

from __future__ import annotations

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
    return np.asarray(np.exp(log_choose(n_samples, n_correct) + sequence))


def log_choose(n: ArrayLike, r: ArrayLike) -> NDArray[np.float64]:
    """Of C(n, r), for whole numbers from 0 on; minus infinity where r > n."""
    from scipy.special import gammaln

    n, r = np.asarray(n), np.asarray(r)
    return np.asarray(gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1))
