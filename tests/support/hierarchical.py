"""A bootstrap of all that a difference in pass@k rests on: training seeds, problems and draws.

`fgrpo_bench.stats.intervals` resamples seeds and problems and keeps every problem's pass@k as it
is; the noise of the draws is in it only as far as it shows between problems and seeds. Here the
draws are drawn again too, so an interval is wider: the noise of the draws, which the spread
between problems shows already, is counted again. It is the cautious one, and the one to read where
problems are few and draws are scarce (n near k). `hierarchical_interval` widens it for few seeds,
as `fgrpo_bench.stats.intervals` does with its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgrpo_bench.stats.intervals import LEVEL, bootstrap_means
from fgrpo_bench.stats.passk import pass_at_k_table
from fgrpo_bench.stats.spread import spread, variance

REPLICATES = 10_000
SEED = 0
CHUNK_VALUES = 4_000_000
"""Values at once: bounds the memory to some 100 MB."""


def hierarchical_differences(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: int,
    k: int,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> NDArray[np.float64]:
    """Resampled differences in mean pass@k (new minus old, fractions), float64 [replicates].

    old, new: correct draws of n_samples, integers [seeds, problems]; row and column mean the same
    seed and problem in both. Each replicate draws seeds and problems with replacement, the same
    for both models, and for each of them n draws again at the observed success rate. pass@k of
    draws with replacement is lower on average than that of the draws themselves (its mean is
    1 - (1 - c/n)^k), which is put right for every problem. Raises ValueError for other shapes,
    counts outside 0 .. n, or k > n.
    """
    a, b = np.asarray(old), np.asarray(new)
    if a.ndim != 2 or a.shape != b.shape or not a.size:
        raise ValueError(
            f"old is {a.shape}, new is {b.shape}: both must be [seeds, problems], the same ones"
        )
    for name, counts in (("old", a), ("new", b)):
        if counts.dtype.kind not in "iu" or counts.min() < 0 or counts.max() > n_samples:
            raise ValueError(f"{name}: must be integers between 0 and n_samples={n_samples}")
    if not 1 <= k <= n_samples:
        raise ValueError(f"k={k} with n_samples={n_samples}: must satisfy 1 <= k <= n_samples")
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            (
                _means(b, rows, columns, n_samples, k, rng)
                - _means(a, rows, columns, n_samples, k, rng)
            )
            for rows, columns in _resamples(a.shape, replicates, rng)
        ]
    )


def hierarchical_interval(
    *,
    old: ArrayLike,
    new: ArrayLike,
    n_samples: int,
    k: int,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> tuple[float, float]:
    """Both ends of an interval of the difference in mean pass@k, over problems, seeds and draws.

    The percentiles of `hierarchical_differences`, as much wider or narrower on either side of the
    difference as Student's t with the right variance is than the bootstrap that keeps the draws.
    The rest is as there; at least two problems (ValueError).
    """
    from scipy.special import ndtri, stdtrit

    drawn = hierarchical_differences(
        old=old, new=new, n_samples=n_samples, k=k, replicates=replicates, seed=seed
    )
    table = pass_at_k_table(n_samples, k)
    values = (table[np.asarray(new)] - table[np.asarray(old)])[:, :, None]
    if values.shape[1] < 2:
        raise ValueError(f"{values.shape[1]} problem: an interval over problems needs two")
    (of_mean,), (degrees,) = variance(values.mean(axis=1), spread(values))
    kept, tail = bootstrap_means(values).std(), (1 - level) / 2
    width = stdtrit(degrees, 1 - tail) * np.sqrt(of_mean) / (abs(ndtri(tail)) * kept) if kept else 1
    ends = np.quantile(drawn, [tail, 1 - tail])
    low, high = np.clip(values.mean() + width * (ends - values.mean()), -1, 1)
    return float(low), float(high)


def _resamples(
    shape: tuple[int, ...], replicates: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Indices of seeds [times, seeds, 1] and of problems [times, 1, problems]."""
    n_seeds, n_problems = shape
    at_once = max(1, CHUNK_VALUES // (n_seeds * n_problems))
    for done in range(0, replicates, at_once):
        times = min(at_once, replicates - done)
        yield (
            rng.integers(0, n_seeds, (times, n_seeds, 1)),
            rng.integers(0, n_problems, (times, 1, n_problems)),
        )


def _means(
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    n: int,
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    table = pass_at_k_table(n, k)
    rate = np.arange(n + 1) / n
    shift = table - (1 - (1 - rate) ** k)  # what drawing with replacement takes away on average
    c = counts[rows, columns]
    again = rng.binomial(n, rate[c])
    return np.asarray((table[again] + shift[c]).mean(axis=(1, 2)))
