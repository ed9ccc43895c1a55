"""Counts of correct draws by point and problem, from which pass@k, losses and heat maps follow.

The stored pass@k tables hold them already summed (a row a problem and k), so a benchmark of a
whole sweep is read in milliseconds, whatever the number of draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dashboards.queries.memo import remembered
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.tables import reading

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Of one benchmark."""

    points: tuple[PointResult, ...]
    """Those with results, in plan order."""
    problems: tuple[str, ...]
    """Sorted."""
    n_scored: Ints = field(repr=False)
    """[points, problems], judged draws; 0 where a point has none of a problem."""
    n_correct: Ints = field(repr=False)
    """[points, problems]."""

    @property
    def rates(self) -> Floats:
        """Success rates [points, problems]; nan where no draw was judged."""
        with np.errstate(invalid="ignore"):
            return np.where(
                self.n_scored > 0, self.n_correct / np.maximum(self.n_scored, 1), np.nan
            )

    def passk(self, rows: Sequence[int], ks: Sequence[int]) -> Floats:
        """pass@k [rows, problems, ks]; nan where fewer than k draws were judged."""
        at = list(rows)
        return np.asarray(
            pass_at_k(
                n_samples=self.n_scored[at][:, :, None],
                n_correct=self.n_correct[at][:, :, None],
                k=np.asarray(ks)[None, None, :],
            )
        )


def _files(results: SweepResults, benchmark: str) -> Iterable[Path]:
    for point in results.points:
        yield point.evaluate.done
        paths = point.evaluate.benchmark(benchmark)
        yield from (paths.passk, paths.manifest)


@remembered(_files)
def counts(results: SweepResults, benchmark: str) -> Counts:
    """Counts of every point that has results on a benchmark."""
    points, frames, files = [], [], []
    for point in results.points:
        paths = point.results_on(benchmark)
        if paths is None:
            continue
        path = paths.passk
        rows = pl.scan_parquet(path, glob=False).filter(pl.col("k") == pl.col("k").min())
        frames.append(rows.select("problem_id", "n_scored", "n_correct"))
        points.append(point)
        files.append(path)
    with reading(*files):
        tables = pl.collect_all(frames)
    problems = sorted({name for table in tables for name in table["problem_id"]})
    shape = (len(points), len(problems))
    n_scored, n_correct = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for i, table in enumerate(tables):
        columns = np.searchsorted(problems, table["problem_id"].to_list())
        n_scored[i, columns] = table["n_scored"].to_numpy()
        n_correct[i, columns] = table["n_correct"].to_numpy()
    return Counts(
        points=tuple(points), problems=tuple(problems), n_scored=n_scored, n_correct=n_correct
    )
