"""How cells differ: every pair of them, on every benchmark and average, at every k."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fgrpo_bench.analysis.families import Family
from fgrpo_bench.analysis.pairs import Pair
from fgrpo_bench.analysis.read import At, Floats, Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import CellRow, Comparison
from fgrpo_bench.stats.intervals import LEVEL, Estimate, conclude
from fgrpo_bench.stats.multiplicity import benjamini_hochberg, holm
from fgrpo_bench.stats.significance import normal_test

ROBUST, SUGGESTIVE, OPEN = "robust", "suggestive", "open"
"""What a comparison can be: see Comparison.verdict."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two cells at a checkpoint each."""

    new: At
    old: At
    pair: Pair | None
    """What asks for it; None for a pair that no question asks for."""


def every_pair(cells: Sequence[CellRow], pairs: Sequence[Pair]) -> list[Compared]:
    """The pairs in their order, then all others, the later cell of the plan minus the earlier."""
    at = {cell.cell: (cell.cell, cell.step) for cell in cells}
    asked = [Compared(new=at[p.new.cell], old=at[p.old.cell], pair=p) for p in pairs]
    known = {frozenset((each.new, each.old)) for each in asked}
    others = [
        Compared(new=at[new.cell], old=at[old.cell], pair=None)
        for old, new in combinations(cells, 2)
        if frozenset((at[new.cell], at[old.cell])) not in known
    ]
    return [*asked, *others]


def compare(
    resamples: Resamples,
    compared: Sequence[Compared],
    *,
    columns: Sequence[str],
    ks: Sequence[int],
    family: Family,
) -> list[Comparison]:
    """Rows by column, pair and k; p-values of those in the family are corrected together."""
    draws = _Draws(resamples, ks)
    rows = [
        row
        for column in columns
        for each in compared
        for row in _of_pair(resamples, draws, each, column, ks)
    ]
    pairs = {(each.new, each.old): each.pair for each in compared}

    def is_in(row: Comparison) -> bool:
        pair = pairs[(row.new, row.new_step), (row.old, row.old_step)]
        return pair is not None and family.has(pair, row.column, row.k)

    return _corrected(rows, is_in, family)


def _of_pair(
    resamples: Resamples, draws: _Draws, each: Compared, column: str, ks: Sequence[int]
) -> Iterator[Comparison]:
    together = resamples.difference(column, each.new, each.old)
    if together is None:
        return
    seeds, resampled = together
    of_draws = draws.p_values(column, each)
    for k, estimate, p_draws in zip(ks, conclude(resampled), of_draws, strict=True):
        if estimate.mean is not None:
            yield Comparison(
                column=column,
                k=k,
                group=each.pair.group if each.pair else None,
                name=each.pair.name if each.pair else None,
                new=each.new[0],
                new_step=each.new[1],
                old=each.old[0],
                old_step=each.old[1],
                difference=estimate.mean,
                low=estimate.low,
                high=estimate.high,
                standard_error=estimate.standard_error,
                degrees=estimate.degrees,
                p=estimate.p_value,
                p_draws=p_draws,
                seeds=seeds,
                by_seed=estimate.by_seed,
                n_problems=estimate.n_problems,
                family=None,
                p_holm=None,
                p_bh=None,
                verdict=SUGGESTIVE if _excludes_zero(estimate) else OPEN,
            )


def _excludes_zero(estimate: Estimate) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _corrected(
    rows: Sequence[Comparison], is_in: Callable[[Comparison], bool], family: Family
) -> list[Comparison]:
    """The rows with the p-values of a family corrected together, and what then holds; comparisons
    of it that have no p, or are not there yet, count as 1."""
    own = {i: row.p for i, row in enumerate(rows) if row.p is not None and is_in(row)}
    p = [value for value in own.values() if value is not None]
    p += [1.0] * (len(family.comparisons) - len(p))
    holms = dict(zip(own, holm(p), strict=False))
    bhs = dict(zip(own, benjamini_hochberg(p), strict=False))
    return [
        replace(
            row,
            family=family.name,
            p_holm=holms[i],
            p_bh=bhs[i],
            verdict=ROBUST if row.verdict == SUGGESTIVE and holms[i] < 1 - LEVEL else row.verdict,
        )
        if i in own
        else row
        for i, row in enumerate(rows)
    ]


class _Draws:
    """p-values of the draws alone, from the variance of every cell's pass@k over its draws."""

    def __init__(self, resamples: Resamples, ks: Sequence[int]) -> None:
        self._resamples, self._ks = resamples, ks
        self._known: dict[tuple[str, At], Floats] = {}

    def p_values(self, column: str, each: Compared) -> list[float | None]:
        """`p_of_draws` at every k; None for averages."""
        if column not in self._resamples.scores:
            return [None] * len(self._ks)
        scores = self._resamples.scores[column]
        new, old = self._resamples.paired(column, each.new, each.old)
        variances = [
            self._variance(column, at)[:, [scores[at].seeds.index(seed) for seed in own.seeds]]
            for at, own in ((each.new, new), (each.old, old))
        ]
        return p_of_draws((new, old), variances)

    def _variance(self, benchmark: str, at: At) -> Floats:
        """Scores.draw_variance at every k, [ks, seeds, problems]."""
        if (benchmark, at) not in self._known:
            own = self._resamples.scores[benchmark][at]
            self._known[benchmark, at] = np.array([own.draw_variance(k) for k in self._ks])
        return self._known[benchmark, at]


def p_of_draws(cells: tuple[Scores, Scores], variances: Sequence[Floats]) -> list[float | None]:
    """p of a difference for given models and problems at every k, over the problems that every seed
    has judged; None where 2k > n, of a design its last stage (StagedDesign.no_variance says why).

    cells: the new one and the old one, of the same seeds; variances: of each cell's pass@k over its
    draws (Scores.draw_variance), [ks, seeds, problems]. The draws of both cells are taken as
    independent. Those of one seed share their random numbers, which makes them alike, so that the
    test is on the safe side. Seeds share none; where one evaluation stands for several of them, its
    noise does not average out.
    """
    new, old = cells
    both = (new.n_scored > 0).all(axis=0) & (old.n_scored > 0).all(axis=0)
    differences = (new.values - old.values)[:, both]
    noise = np.sum(
        [
            variance * (len(cell.seeds) if cell.is_drawn_once else 1)
            for cell, variance in zip(cells, variances, strict=True)
        ],
        axis=0,
    )
    by_k = noise[:, :, both].reshape(len(noise), -1)
    return [
        normal_test(differences[:, :, i].ravel(), variance).p_value
        if variance.size and not np.isnan(variance).any()
        else None
        for i, variance in enumerate(by_k)
    ]
