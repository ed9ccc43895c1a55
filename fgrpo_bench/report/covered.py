"""Problems retained, gained and lost against the base model, as a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fgrpo_bench.documents.table import Table
from fgrpo_bench.report.footnotes import footnotes
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.tables import names
from fgrpo_bench.stats.coverage import Coverage, coverage, least_rate, reach

FATES = ("retained", "lost", "gained")
"""What can become of a problem that either model reaches."""
SURE = 0.95
"""Probability from which a problem counts as surely lost or gained."""


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


def coverage_table(summary: Summary, column: str) -> Table:
    """Expected numbers of problems, mean over seeds, and those that are all but certain."""
    rows = []
    for cell, by_seed in fates(summary, column).items():
        sums = {name: mean_count(by_seed, name) for name in (*FATES, "neither")}
        certain = {name: _mean_certain(by_seed, name) for name in ("lost", "gained")}
        rows.append(
            (
                *names(cell),
                *(f"{sums[name]:.1f}" for name in ("retained", "lost", "gained", "neither")),
                *(f"{certain[name]:.1f}" for name in ("lost", "gained")),
                str(len(by_seed)),
            )
        )
    k = summary.ks[-1]
    return Table(
        title=f"{column}: problems within reach at k = {k}, against the base model",
        header=(
            *("method", "N", "gamma", "retained", "lost", "gained", "neither"),
            *("surely lost", "surely gained", "seeds"),
        ),
        rows=tuple(rows),
        notes=(
            _meaning(k),
            *_out_of_reach(summary, column),
            *footnotes(summary, summary.cells, summary.averages.get(column, (column,))),
        ),
    )


def _meaning(k: int) -> str:
    return (
        f"A problem is within reach at k = {k} where one of {k} draws is more likely correct than "
        f"none (a success rate of {least_rate(k):.2g} and more). Numbers are expected counts under "
        "the posterior of each problem's success rate (Jeffreys' prior), mean over seeds; surely: "
        f"with a probability of at least {SURE:.0%}."
    )


def _out_of_reach(summary: Summary, column: str) -> list[str]:
    """A sentence where the draws are too few for a problem ever to be surely lost or gained."""
    benchmarks = summary.averages.get(column, (column,))
    drawn = [summary.scores[name, cell].n_samples for name in benchmarks for cell in summary.cells]
    n, k = max(filter(None, drawn)), summary.ks[-1]
    surely = float(1 - reach(n_samples=n, n_correct=0, k=k))
    if surely >= SURE:
        return []
    return [
        f"From {n} draws none can be surely lost or gained: even a problem without a correct draw "
        f"is out of reach with a probability of {surely:.2f} only."
    ]


def mean_count(by_seed: tuple[Coverage, ...], name: str) -> float:
    """Expected number of problems of a fate (a field of Coverage), mean over seeds."""
    return float(np.mean([getattr(one, name).sum() for one in by_seed]))


def _mean_certain(by_seed: tuple[Coverage, ...], name: str) -> float:
    return float(np.mean([(getattr(one, name) >= SURE).sum() for one in by_seed]))
