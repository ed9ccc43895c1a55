"""Problems retained, gained and lost against the base model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.stats.coverage import Coverage, coverage


def has_fates(summary: Summary, column: str) -> bool:
    """Whether some trained cell can be set against the base model."""
    return any(True for _ in _pairs(summary, column))


def fates(summary: Summary, column: str) -> dict[Cell, tuple[Coverage, ...]]:
    """Coverage at the largest k of every trained cell against the base model of the same seed, a
    seed each, over the problems of a benchmark or of all benchmarks of an average; cells and seeds
    without both are left out."""
    found: dict[Cell, tuple[Coverage, ...]] = {}
    for cell, old, seeds in _pairs(summary, column):
        parts = []
        for benchmark in summary.averages.get(column, (column,)):
            before = summary.scores[benchmark, old].of_seeds(seeds)
            after = summary.scores[benchmark, cell].of_seeds(seeds)
            parts.append((before.n_scored, before.n_correct, after.n_scored, after.n_correct))
        counts = [np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)]
        found[cell] = tuple(
            coverage(n_old=n_old, old=c_old, n_new=n_new, new=c_new, k=summary.ks[-1])
            for n_old, c_old, n_new, c_new in zip(*counts, strict=True)
        )
    return found


def _pairs(summary: Summary, column: str) -> Iterator[tuple[Cell, Cell, list[int]]]:
    """Each trained cell, the base models, and the seeds that both have on all benchmarks."""
    benchmarks = summary.averages.get(column, (column,))
    for old in [cell for cell in summary.cells if cell.is_base]:
        for cell in summary.cells:
            scores = [summary.scores[name, one] for name in benchmarks for one in (cell, old)]
            seeds = [s for s in scores[0].seeds if all(s in each.seeds for each in scores)]
            if seeds and not cell.is_base:
                yield cell, old, seeds


def mean_count(by_seed: tuple[Coverage, ...], name: str) -> float:
    """Expected number of problems of a fate (a field of Coverage), mean over seeds."""
    return float(np.mean([getattr(one, name).sum() for one in by_seed]))
