"""The pigeonhole bootstrap: seeds and problems are resampled independently of each other.

A value counts (times its seed was drawn) x (times its problem was drawn): Owen 2007, "The
pigeonhole bootstrap", Annals of Applied Statistics 1(2), 386-411.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

REPLICATES = 10_000
SEED = 0
BLOCK = 256
"""Columns of all seeds that are resampled at once: enough for the product of matrices to be fast,
and few enough that what it makes (REPLICATES x BLOCK floats) stays small."""

ROWS = 256
"""Resamples that are counted at once."""


def bootstrap_means(
    values: NDArray[np.float64],
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
    stream: int = 0,
) -> NDArray[np.float64]:
    """Means of resampled data, float64 [replicates, columns].

    values: float64 [seeds, problems, columns] without nan. The same shape, seed and stream give the
    same resamples, whatever the values; streams differ in the problems that they draw.
    """
    n_seeds, n_problems, n_columns = values.shape
    of_problems = _counts(n_problems, replicates, seed, 1 + stream)
    of_seeds = _counts(n_seeds, replicates, seed, 0)
    means = np.empty((replicates, n_columns))
    width = max(1, BLOCK // n_seeds)
    counts = of_problems.astype(np.float64)
    for start in range(0, n_columns, width):
        block = slice(start, start + width)
        by_seed = np.tensordot(counts, values[:, :, block], axes=(1, 1))
        means[:, block] = np.einsum("bs,bsc->bc", of_seeds, by_seed)
    return np.asarray(means / (n_seeds * n_problems))


@lru_cache(maxsize=12)
def _counts(size: int, replicates: int, seed: int, axis: int) -> NDArray[np.uint16]:
    """How often a resample draws each of `size` things, [replicates, size].

    Whole numbers, divided only at the end, so that a column of ones has the mean 1 exactly.
    """
    rng, counts = np.random.default_rng([seed, axis]), np.empty((replicates, size), np.uint16)
    for start in range(0, replicates, ROWS):  # what fits into the processor's cache
        rows = counts[start : start + ROWS]
        drawn = rng.integers(0, size, rows.shape)
        drawn += size * np.arange(len(rows))[:, None]
        rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
    counts.setflags(write=False)
    return counts
