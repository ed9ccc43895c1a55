"""The pigeonhole bootstrap: seeds and problems are resampled independently of each other.

A value counts (times its seed was drawn) x (times its problem was drawn): Owen 2007, "The
pigeonhole bootstrap", Annals of Applied Statistics 1(2), 386-411.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPLICATES = 10_000
"""Resamples."""
SEED = 0
"""Of the resamples, so that a report comes out alike each time."""
BLOCK = 256
"""Columns of all seeds that are resampled at once: enough for the product of matrices to be fast,
and few enough that what it makes (REPLICATES x BLOCK floats) stays small."""

ROWS = 256
"""Resamples that are counted at once."""


def bootstrap_means(
    values: NDArray[Any],
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
    stream: int = 0,
) -> NDArray[Any]:
    """Means of resampled data, [columns, replicates], in the type of the values.

    values: float64 or float32 [seeds, problems, columns] without nan. The same shape, seed and
    stream give the same resamples, whatever the values; streams differ in the problems that they
    draw.
    """
    n_seeds, n_problems, n_columns = values.shape
    counts = _counts(n_problems, replicates, seed, 1 + stream).astype(values.dtype)
    of_seeds = _counts(n_seeds, replicates, seed, 0)
    means = np.empty((n_columns, replicates), values.dtype)
    width = max(1, BLOCK // n_seeds)
    for start in range(0, n_columns, width):
        block = slice(start, start + width)
        # Resamples by columns: the other way round the last digits of one depend on how many others
        # there are.
        by_seed = np.tensordot(counts, values[:, :, block], axes=(1, 1))
        means[block] = np.einsum("bs,bsc->bc", of_seeds, by_seed).T
    means /= n_seeds * n_problems
    return means


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


def tails(means: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """The quantiles `tail` and 1 - `tail` of every row, [2, rows]; straight between two resamples,
    as np.quantile, which takes many times as long.

    means: [rows, replicates], without nan.
    """
    places = np.array([tail, 1 - tail]) * (means.shape[1] - 1)
    below, above = np.floor(places).astype(int), np.ceil(places).astype(int)
    placed = np.partition(means, np.union1d(below, above), axis=1)
    low, high = placed[:, below], placed[:, above]
    return np.asarray((low + (high - low) * (places - below)).T)
