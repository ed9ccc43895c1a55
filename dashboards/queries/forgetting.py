"""Which problems did training forget? Success rates by problem and point, sorted by the loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dashboards.queries.counts import Counts, Floats, counts
from dashboards.queries.memo import remembered
from dashboards.queries.store import cell_id
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.coverage import coverage

FATES = ("lost", "gained", "retained", "neither")
"""What became of a problem: fields of fgrpo_bench.stats.coverage.Coverage."""


@dataclass(frozen=True, kw_only=True)
class Fates:
    """Of one benchmark, at one k, of every trained point against the base model of its seed."""

    counts: Counts
    bases: dict[int, int]
    """Row of the base model in the counts, by seed."""
    trained: tuple[int, ...]
    """Rows of trained points whose base model has results."""
    shares: dict[str, Floats] = field(repr=False)
    """Probability of each of FATES, [trained, problems]."""
    loss: Floats = field(repr=False)
    """[problems], mean over the trained points of the probability of being lost."""

    def order(self, by: str) -> list[int]:
        """Columns of the problems, sorted: `loss` (largest first, ties by the drop of the success
        rate), `gain`, `base` (hardest for the base model first) or `name`."""
        n = len(self.counts.problems)
        if by == "name" or not self.trained:
            return list(range(n))
        rates = np.nan_to_num(self.counts.rates)
        drop = np.mean([self._base(rates, i) - rates[i] for i in self.trained], axis=0)
        gain = self.shares["gained"].mean(axis=0)
        base = rates[list(self.bases.values())].mean(axis=0)
        keys = {"loss": (-drop, -self.loss), "gain": (drop, -gain), "base": (drop, base)}[by]
        return [int(i) for i in np.lexsort((np.arange(n), *keys))]

    def _base(self, rates: Floats, row: int) -> Floats:
        return np.asarray(rates[self.bases[self.counts.points[row].seed]])


def _files(results: SweepResults, benchmark: str, k: int) -> Iterable[Path]:
    for point in results.points:
        yield point.evaluate.done
        yield point.evaluate.benchmark(benchmark).passk


@remembered(_files)
def fates(results: SweepResults, benchmark: str, k: int) -> Fates:
    """Coverage of every trained point against the base model of the same seed."""
    found = counts(results, benchmark)
    bases = {p.seed: i for i, p in enumerate(found.points) if p.algorithm is None}
    trained = tuple(
        i for i, p in enumerate(found.points) if p.algorithm is not None and p.seed in bases
    )
    shape = (len(trained), len(found.problems))
    shares = {name: np.zeros(shape) for name in FATES}
    for at, row in enumerate(trained):
        base = bases[found.points[row].seed]
        made = coverage(
            n_old=found.n_scored[base],
            old=found.n_correct[base],
            n_new=found.n_scored[row],
            new=found.n_correct[row],
            k=k,
        )
        for name in FATES:
            shares[name][at] = getattr(made, name)
    loss = shares["lost"].mean(axis=0) if trained else np.zeros(shape[1])
    return Fates(counts=found, bases=bases, trained=trained, shares=shares, loss=loss)


def by_cell(found: Fates) -> dict[str, dict[str, float]]:
    """Expected numbers of problems of each fate, mean over seeds, by cell."""
    rows: dict[str, list[int]] = {}
    for at, row in enumerate(found.trained):
        rows.setdefault(cell_id(Cell.of(found.counts.points[row])), []).append(at)
    return {
        cell: {name: float(found.shares[name][at].sum(axis=1).mean()) for name in FATES}
        for cell, at in rows.items()
    }
