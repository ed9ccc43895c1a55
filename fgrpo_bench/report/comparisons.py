"""How the cells of each pair (report.pairs) differ.

Each pair is compared on every benchmark and on the averages, at the smallest and the largest k, and
the p-values of all of them are corrected together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.report.pairs import Pair, pairs_of
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    LEVEL,
    Estimate,
    Resampled,
    average,
    conclude,
    resample_together,
)
from fgrpo_bench.stats.multiplicity import benjamini_hochberg, holm
from fgrpo_bench.stats.significance import draws_test


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference in pass@k between two cells, paired over problems and seeds."""

    pair: Pair
    benchmark: str
    """Or the name of an average of several."""
    k: int
    seeds: tuple[int, ...]
    """Seeds that both cells have; the same seed is the same base model."""
    difference: Estimate
    """Over problems and seeds."""
    p_draws: float | None
    """Two-sided p-value of the draws alone, these models and problems given; None where 2k > n."""
    p_holm: float | None = None
    """p_value of the difference, adjusted over all comparisons (Holm); None without one."""
    p_bh: float | None = None
    """Likewise, for the share of false discoveries (Benjamini and Hochberg)."""

    @property
    def shown(self) -> bool:
        """Whether the 95% interval excludes 0."""
        return _excludes_zero(self.difference)

    @property
    def shown_corrected(self) -> bool:
        """Whether it is also shown after Holm's correction over all comparisons."""
        return self.shown and self.p_holm is not None and self.p_holm < 1 - LEVEL

    @property
    def agreeing(self) -> int:
        """Seeds whose own difference has the sign of the mean."""
        mean = self.difference.mean or 0.0
        return sum(one * mean > 0 for one in self.difference.by_seed)


def compare(summary: Summary) -> list[Comparison]:
    """Every comparison that the results allow, averages first, then by benchmark."""
    ends = sorted({0, len(summary.ks) - 1})
    found: dict[str, list[tuple[Pair, tuple[int, ...], Resampled]]] = {}
    draws: dict[tuple[str, Pair, int], float | None] = {}
    for stream, benchmark in enumerate(summary.results.benchmarks):
        compared: list[tuple[Pair, tuple[int, ...]]] = []
        differences = []
        for pair in pairs_of(summary, benchmark):
            new, old = summary.scores[benchmark, pair.new], summary.scores[benchmark, pair.old]
            seeds = tuple(seed for seed in new.seeds if seed in old.seeds)
            if not seeds:
                continue
            new, old = new.of_seeds(seeds), old.of_seeds(seeds)
            compared.append((pair, seeds))
            differences.append((new.values - old.values)[:, :, ends])
            for end in ends:
                draws[benchmark, pair, end] = p_of_the_draws(
                    old=old.n_correct,
                    n_old=old.n_scored,
                    new=new.n_correct,
                    n_new=new.n_scored,
                    k=summary.ks[end],
                )
        together = resample_together(differences, limits=DIFFERENCES, stream=stream)
        found[benchmark] = [(*key, own) for key, own in zip(compared, together, strict=True)]
    of_all = {title: _average(names, found) for title, names in summary.averages.items()}
    out = [
        Comparison(
            pair=pair,
            benchmark=name,
            k=summary.ks[end],
            seeds=seeds,
            difference=difference,
            p_draws=draws.get((name, pair, end)),
        )
        for name, each in (of_all | found).items()
        for pair, seeds, resampled in each
        for end, difference in zip(ends, conclude(resampled), strict=True)
        if difference.mean is not None
    ]
    return corrected(out)


def _average(
    benchmarks: Sequence[str], found: Mapping[str, list[tuple[Pair, tuple[int, ...], Resampled]]]
) -> list[tuple[Pair, tuple[int, ...], Resampled]]:
    """The pairs that all these benchmarks have with the same seeds."""
    first, *others = ({(pair, seeds): each for pair, seeds, each in found[b]} for b in benchmarks)
    return [
        (*key, average([each, *(other[key] for other in others)]))
        for key, each in first.items()
        if all(key in other for other in others)
    ]


def corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """The same with their p-values adjusted together."""
    p = {i: c.difference.p_value for i, c in enumerate(comparisons)}
    known = {i: value for i, value in p.items() if value is not None}
    holms = dict(zip(known, holm(list(known.values())), strict=True))
    bhs = dict(zip(known, benjamini_hochberg(list(known.values())), strict=True))
    return [replace(one, p_holm=holms.get(i), p_bh=bhs.get(i)) for i, one in enumerate(comparisons)]


def p_of_the_draws(
    *,
    old: NDArray[np.int64],
    n_old: NDArray[np.int64],
    new: NDArray[np.int64],
    n_new: NDArray[np.int64],
    k: int,
) -> float | None:
    """p of `draws_test` over the problems that every seed has judged; None where 2k > n.

    old, new: correct draws; n_old, n_new: judged ones; [seeds, problems] each.
    """
    both = (n_old > 0).all(axis=0) & (n_new > 0).all(axis=0)
    drawn = n_old[:, both].ravel(), n_new[:, both].ravel()
    if not drawn[0].size or 2 * k > min(n.min() for n in drawn):
        return None
    return draws_test(
        old=old[:, both].ravel(), new=new[:, both].ravel(), n_samples=drawn, k=k
    ).p_value


def _excludes_zero(difference: Estimate) -> bool:
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)
