"""Subsamples of the draws of many problems, drawn by inverting the distribution of their counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.passk import pass_at_k_table

GUIDES = 4_096
"""Steps in which a distribution is looked up before it is searched."""

Counts = NDArray[np.int64]


class Subsamples:
    """Mean pass@k of subsamples of many problems: correct draws among m are hypergeometric, and
    are drawn by inverting their distribution, which problems with equal counts share."""

    def __init__(self, c: Counts, n: Counts, m: int, k: int) -> None:
        from scipy.stats import hypergeom

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
