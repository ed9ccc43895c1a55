"""Means over training seeds and problems with bootstrap intervals, in plain NumPy.

The data of a cell are crossed: every seed's model is judged on the same problems. The bootstrap
resamples both, independently: problems with replacement and seeds with replacement, and a value
counts (times its seed was drawn) x (times its problem was drawn). This is the pigeonhole bootstrap
(Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 386-411).

What it says, for S seeds and P problems:
- Its variance holds on average (1 - 1/S) of the part that is due to seeds and (1 - 1/P) of the part
  due to problems: over 3 seeds, only two thirds of the seeds' part. The part that is neither
  (a seed doing well on one problem, the noise of the draws) is counted up to 3 times.
- Where seeds differ and nothing else varies, the 95% interval of 3 seeds is the range of the three,
  which holds the true mean of a symmetric distribution 3 times in 4 (1 - 2 ** (1 - S)), not 19 in
  20. So three seeds can show an effect on these problems and these models; another three seeds may
  disagree more than the interval says. Read the values of the single seeds beside it.
- With one seed it is an interval over problems only and says nothing about another training run.
- An interval without width says that nothing varied in the data, not that the value is certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

REPLICATES = 10_000
LEVEL = 0.95
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds and problems (a fraction, or a difference of two)."""

    mean: float | None
    """None where no problem has a value for every seed."""
    low: float | None
    """Lower end of the interval; None, like high, with fewer than two problems."""
    high: float | None
    by_seed: tuple[float, ...]
    """The mean over problems of each seed; empty where mean is None."""
    n_seeds: int
    n_problems: int
    """Problems with a value for every seed; only these count."""
    p_value: float | None = None
    """Two-sided, of a mean of 0: twice the smaller share of resamples on either side of 0, with
    one added to both counts; None like low. At least 2 / (REPLICATES + 1)."""


def estimate(values: NDArray[np.float64], *, level: float = LEVEL) -> list[Estimate]:
    """Mean and percentile interval of every column.

    values: float64 [seeds, problems, columns], e.g. pass@k with a column a k; nan where there is
    no value. A problem counts in a column only where every seed has a value there, so that all
    seeds are judged on the same problems. For a difference between two cells pass the difference
    of their values: it is paired over problems and seeds, and both sides are resampled alike.
    level: share of the bootstrap distribution between the ends.
    """
    if values.shape[0] == 0:
        return [_nothing(0)] * values.shape[2]
    complete = ~np.isnan(values).any(axis=0)
    out: list[Estimate] = [_nothing(values.shape[0])] * values.shape[2]
    for mask in np.unique(complete, axis=1).T:  # columns with the same problems go together
        columns = np.flatnonzero((complete == mask[:, None]).all(axis=0))
        if mask.any():
            made = _complete(values[:, mask][:, :, columns], level)
            for column, result in zip(columns, made, strict=True):
                out[column] = result
    return out


def bootstrap_means(
    values: NDArray[np.float64], *, replicates: int = REPLICATES, seed: int = SEED
) -> NDArray[np.float64]:
    """Means of resampled data, float64 [replicates, columns].

    values: float64 [seeds, problems, columns] without nan. The same shape and seed give the same
    resamples, whatever the values.
    """
    n_seeds, n_problems, _ = values.shape
    by_seed = np.tensordot(_counts(n_problems, replicates, seed, 1), values, axes=(1, 1))
    totals = np.einsum("bs,bsc->bc", _counts(n_seeds, replicates, seed, 0), by_seed)
    return np.asarray(totals / (n_seeds * n_problems))


@lru_cache(maxsize=4)
def _counts(size: int, replicates: int, seed: int, axis: int) -> NDArray[np.float64]:
    """How often a resample draws each of `size` things, float64 [replicates, size].

    Whole numbers, divided only at the end, so that a column of ones has the mean 1 exactly.
    """
    drawn = np.random.default_rng([seed, axis]).integers(0, size, (replicates, size))
    drawn += size * np.arange(replicates)[:, None]
    flat = np.bincount(drawn.ravel(), minlength=replicates * size).astype(np.float64)
    counts = flat.reshape(replicates, size)
    counts.setflags(write=False)
    return counts


def _complete(values: NDArray[np.float64], level: float) -> list[Estimate]:
    n_seeds, n_problems, n_columns = values.shape
    by_seed = values.mean(axis=1)
    means = by_seed.mean(axis=0)
    ends: list[tuple[float | None, float | None, float | None]] = [(None, None, None)] * n_columns
    if n_problems > 1:
        tail = (1 - level) / 2
        resampled = bootstrap_means(values)
        low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
        p = p_values(resampled)
        ends = [(float(a), float(b), float(c)) for a, b, c in zip(low, high, p, strict=True)]
    return [
        Estimate(
            mean=float(means[column]),
            low=ends[column][0],
            high=ends[column][1],
            by_seed=tuple(map(float, by_seed[:, column])),
            n_seeds=n_seeds,
            n_problems=n_problems,
            p_value=ends[column][2],
        )
        for column in range(n_columns)
    ]


def p_values(resampled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided p-values of a mean of 0, [columns], from bootstrap means [replicates, columns]."""
    below, above = (resampled <= 0).sum(axis=0), (resampled >= 0).sum(axis=0)
    return np.asarray(np.minimum(1.0, 2 * (np.minimum(below, above) + 1) / (len(resampled) + 1)))


def _nothing(n_seeds: int) -> Estimate:
    return Estimate(mean=None, low=None, high=None, by_seed=(), n_seeds=n_seeds, n_problems=0)
