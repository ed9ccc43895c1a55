"""Unbiased pass@k from counts: the estimator of Chen et al. 2021, exact to the last digit; and how
far it would move if the draws were made again, as exact variances.

In: n draws and c correct ones per problem. Out: pass@k. The table of all n + 1 possible values is
built once for a pair (n, k) and then looked up, so that millions of rows cost one gather. Nothing
here knows about files, graders or sweeps. Draws that stop: stats.staged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@lru_cache(maxsize=256)
def pass_at_k_table(n_samples: int, k: int) -> NDArray[np.float64]:
    """pass@k for every possible number of correct draws; float64 [n_samples + 1], read-only.

    1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, eq. 1), as the running product of
    (n - j - k) / (n - j), j = 0 .. c-1: no binomial is formed, so nothing overflows. All nan where
    n_samples < k, because then the estimator does not exist.
    """
    if n_samples < k:
        table = np.full(n_samples + 1, np.nan)
    else:
        j = np.arange(n_samples, dtype=np.longdouble)  # the wide type keeps the last digit right
        misses = np.cumprod(np.maximum(n_samples - j - k, 0) / (n_samples - j))
        table = np.concatenate(([0.0], 1 - misses)).astype(np.float64)
    table.setflags(write=False)
    return table


def pass_at_k(*, n_samples: Any, n_correct: Any, k: Any) -> Any:
    """Probability that at least one of k draws without replacement from n is correct.

    n_samples, n_correct, k: integers, or integer arrays that broadcast together (a row a problem).
    Returns a float for scalars, else float64 of the broadcast shape, as fractions in [0, 1]; nan
    where n_samples < k, never 1.0.
    Raises TypeError for values that are no integers and ValueError for counts outside
    0 <= n_correct <= n_samples or k < 1.

    >>> pass_at_k(n_samples=4, n_correct=1, k=2)
    0.5
    """
    n, c, kk = (
        integers(name, value)
        for name, value in (("n_samples", n_samples), ("n_correct", n_correct), ("k", k))
    )
    if kk.size and kk.min() < 1:
        raise ValueError(f"k={kk.min()}: k is a number of draws and must be at least 1")
    if c.size and (c.min() < 0 or n.min() < 0 or np.any(c > n)):
        pairs = np.stack([a.ravel() for a in np.broadcast_arrays(n, c)], 1)
        wrong = pairs[(pairs[:, 1] < 0) | (pairs[:, 1] > pairs[:, 0])][0]
        raise ValueError(
            f"n_correct={wrong[1]} of n_samples={wrong[0]}: counts must satisfy "
            "0 <= n_correct <= n_samples; count each draw once"
        )
    if n.size == 1 and kk.size == 1:
        shape = np.broadcast_shapes(n.shape, c.shape, kk.shape)
        out = pass_at_k_table(int(n.item()), int(kk.item()))[c].reshape(shape)
    else:
        out = _mixed(*np.broadcast_arrays(n, c, kk))
    return float(out[()]) if out.ndim == 0 else out


def pass_at_ks(
    n_samples: NDArray[np.int64], n_correct: NDArray[np.int64], ks: tuple[int, ...]
) -> NDArray[np.float64]:
    """pass@k at every one of `ks`, float64 [..., ks]; the rest as in `pass_at_k`, unchecked.

    n_samples, n_correct: of one shape [...].
    """
    out = np.empty((*n_samples.shape, len(ks)))
    for total in np.unique(n_samples).tolist():
        rows = n_samples == total
        out[rows] = _tables(total, ks)[n_correct[rows]]
    return out


@lru_cache(maxsize=64)
def _tables(n_samples: int, ks: tuple[int, ...]) -> NDArray[np.float64]:
    return np.stack([pass_at_k_table(n_samples, k) for k in ks], axis=1)


def _mixed(n: NDArray[np.int64], c: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
    """The general case: one lookup for each distinct pair (n, k); all of one shape."""
    out = np.empty(n.shape)
    span = int(k.max(initial=1)) + 1
    pairs, index = np.unique(n * span + k, return_inverse=True)
    for i, pair in enumerate(pairs.tolist()):
        rows = index.reshape(n.shape) == i
        out[rows] = pass_at_k_table(pair // span, pair % span)[c[rows]]
    return out


def integers(name: str, value: Any) -> NDArray[np.int64]:
    """The value as an array; TypeError, with its name, for anything but integers."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}={value!r}: must be an integer or an integer array")
    return array.astype(np.int64, copy=False)


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
