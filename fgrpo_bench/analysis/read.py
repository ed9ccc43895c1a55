"""Counts and pass@k of every evaluated checkpoint, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.rows import key_of_cell
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stats.selection import is_for_selection
from fgrpo_bench.tables import BOUNDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Of one cell at one checkpoint on one benchmark; problems in the order of their names."""

    seeds: tuple[int, ...]
    """Training seeds that have results, rising."""
    problems: tuple[str, ...] = field(repr=False)
    """Those that any checkpoint of the sweep has."""
    present: NDArray[np.bool_] = field(repr=False)
    """[seeds, problems], whether a seed has the problem."""
    values: Floats = field(repr=False)
    """[seeds, problems, ks], pass@k; nan where a problem has no estimate."""
    bounds: Floats = field(repr=False)
    """[2, seeds, problems, ks], the same were all unscored draws wrong, and were they right."""
    n_scored: Ints = field(repr=False)
    """[seeds, problems], judged draws; 0 where a problem has none."""
    n_correct: Ints = field(repr=False)
    """[seeds, problems], correct draws."""
    n_samples: tuple[int, ...]
    """[seeds], draws a problem."""

    def of_seeds(self, seeds: Sequence[int]) -> Scores:
        """The same of these seeds alone, in this order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            present=self.present[rows],
            values=self.values[rows],
            bounds=self.bounds[:, rows],
            n_scored=self.n_scored[rows],
            n_correct=self.n_correct[rows],
            n_samples=tuple(self.n_samples[row] for row in rows),
        )

    def half(self, *, for_selection: bool) -> Scores:
        """The half of the problems that selects checkpoints, or the other one."""
        kept = [i for i, p in enumerate(self.problems) if is_for_selection(p) == for_selection]
        return replace(
            self,
            problems=tuple(self.problems[i] for i in kept),
            present=self.present[:, kept],
            values=self.values[:, kept],
            bounds=self.bounds[:, :, kept],
            n_scored=self.n_scored[:, kept],
            n_correct=self.n_correct[:, kept],
        )


At = tuple[str, int]
"""A cell by its name, at the checkpoint of a step."""


def read_scores(results: SweepResults) -> dict[str, dict[At, Scores]]:
    """By benchmark, then cell and step: all are there, with no seeds where nothing is done."""
    points = [at for each in results.points for at in map(each.at, each.checkpoints)]
    return {name: _of_benchmark(points, name, results.evaluation["ks"])
            for name in results.benchmarks}  # fmt: skip


def key_of(point: PointResult) -> At:
    """Cell and step of a point at its checkpoint."""
    return key_of_cell(point.cell), point.step


def _of_benchmark(
    points: Sequence[PointResult], benchmark: str, ks: Sequence[int]
) -> dict[At, Scores]:
    tables = [point.passk(benchmark) for point in points]
    whole = pl.concat(tables)
    problems = whole["problem_id"].unique().sort()
    row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    place = problems.search_sorted(whole["problem_id"]).to_numpy()
    shape = len(tables), len(problems)
    present, n_scored, n_correct = np.zeros(shape, bool), np.zeros(shape, int), np.zeros(shape, int)
    present[row, place] = True
    n_scored[row, place] = whole["n_scored"].to_numpy()
    n_correct[row, place] = whole["n_correct"].to_numpy()
    values = np.full((3, *shape, len(ks)), np.nan)
    wanted = np.isin(whole["k"].to_numpy(), ks)
    at = row[wanted], place[wanted], np.searchsorted(ks, whole["k"].to_numpy()[wanted])
    for i, name in enumerate(("pass_at_k", *BOUNDS)):
        values[i][at] = whole[name].to_numpy()[wanted]
    names, out = tuple(problems), {}
    for key, rows in _rows(points).items():
        done = sorted((r for r in rows if present[r].any()), key=lambda r: points[r].seed)
        out[key] = Scores(
            seeds=tuple(points[r].seed for r in done),
            problems=names,
            present=present[done],
            values=values[0, done],
            bounds=values[1:, done],
            n_scored=n_scored[done],
            n_correct=n_correct[done],
            n_samples=tuple(int(points[r].evaluated()["target"]["n_samples"]) for r in done),
        )
    return out


def _rows(points: Iterable[PointResult]) -> dict[At, list[int]]:
    rows: dict[At, list[int]] = {}
    for i, point in enumerate(points):
        rows.setdefault(key_of(point), []).append(i)
    return rows
