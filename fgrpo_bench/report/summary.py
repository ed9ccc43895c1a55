"""What a sweep's files say, in memory: cells, their pass@k with intervals, and what is missing.

`summarise` makes a Summary; everything after it is computed from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stats.intervals import Estimate


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of the method over all seeds: a row of every table."""

    method: str
    """GRPO, F-GRPO, ...; Base for the base models."""
    algorithm: str | None
    """None for the base models, likewise group_size and focal_gamma."""
    group_size: int | None
    focal_gamma: float | None
    step: int
    """Rollout batches behind the evaluated checkpoints."""

    @property
    def is_base(self) -> bool:
        """Whether these are the base models, before reinforcement learning."""
        return self.algorithm is None

    @classmethod
    def of(cls, point: PointResult) -> Cell:
        """The cell that a point belongs to."""
        return cls(
            method=point.method,
            algorithm=point.algorithm,
            group_size=point.group_size,
            focal_gamma=point.focal_gamma,
            step=point.step,
        )

    @property
    def label(self) -> str:
        """e.g. `GRPO N=8`, `F-GRPO N=8 gamma=0.5`, `Base`."""
        if self.is_base:
            return self.method
        gamma = f" gamma={self.focal_gamma:g}" if self.focal_gamma else ""
        return f"{self.method} N={self.group_size}{gamma}"


@dataclass(frozen=True, kw_only=True)
class Scores:
    """pass@k of one cell on one benchmark."""

    seeds: tuple[int, ...]
    """Training seeds that have results, rising."""
    values: NDArray[np.float64] = field(repr=False)
    """[seeds, problems, ks], fractions; nan where a problem has no estimate."""
    n_scored: NDArray[np.int64] = field(repr=False)
    """[seeds, problems], judged draws; 0 where a problem has none."""
    n_correct: NDArray[np.int64] = field(repr=False)
    """[seeds, problems], correct draws."""
    estimates: tuple[Estimate, ...]
    """Mean and interval for every k."""
    bounds: tuple[tuple[float, float] | None, ...]
    """Mean pass@k for every k were all unscored draws wrong, and were they right; None where a
    problem has none."""
    n_samples: int | None
    """Draws a problem (the fewest over the seeds); None without results."""
    unscored: float
    """Share of the draws that the grader could not judge; 0 without results."""

    def of_seeds(self, seeds: Sequence[int]) -> Scores:
        """The same with the arrays of these seeds alone, in this order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            values=self.values[rows],
            n_scored=self.n_scored[rows],
            n_correct=self.n_correct[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Compute:
    """What one run of a cell cost, as means over its finished runs; None where there is none."""

    n_runs: int
    rollouts: float | None
    tokens: float | None
    """Sampled in training."""
    optimizer_steps: float | None
    train_cpu_seconds: float | None
    train_gpu_seconds: float | None
    """Seconds of all steps times the GPUs that they held; 0 on processors."""
    evaluate_cpu_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A sweep as the report sees it."""

    results: SweepResults
    cells: tuple[Cell, ...]
    """Base models first, then the cells in plan order."""
    ks: tuple[int, ...]
    scores: dict[tuple[str, Cell], Scores]
    """By benchmark and cell; every pair is there, with no seeds where nothing is done."""
    averages: dict[str, tuple[str, ...]]
    """Benchmarks by the name of their average, in domain first; one of a domain has no average."""
    averaged: dict[tuple[str, Cell], tuple[Estimate, ...]]
    """By name of the average and cell: the plain mean over its benchmarks for every k, of the seeds
    that have them all."""
    metrics: dict[Cell, tuple[pl.DataFrame, ...]]
    """Training metrics of finished runs, one a seed."""
    compute: dict[Cell, Compute]
    planned: dict[Cell, int]
    """Training seeds that a cell has in the plan."""
    graders_of: dict[str, tuple[str, ...]]
    """Grader versions behind the results by benchmark, and by `benchmark/grader` for those beside a
    benchmark's own."""
    engines: dict[str, tuple[str, ...]]
    """Points by the engine that made their draws, its fingerprint in words."""
    missing: tuple[PointResult, ...]
    """Planned points without results on some benchmark."""

    @property
    def train(self) -> dict[str, Any]:
        """The declared training spec (fgrpo_bench.specs.TrainSpec as JSON)."""
        spec = self.results.declaration["declaration"]["experiment"]["train"]
        assert isinstance(spec, dict)
        return spec

    @property
    def columns(self) -> tuple[str, ...]:
        """Averages and benchmarks as tables have them: each average before its benchmarks."""
        titles = {names[0]: title for title, names in self.averages.items()}
        return tuple(
            name
            for benchmarks in self.results.domains.values()
            for name in (titles.get(benchmarks[0]), *benchmarks)
            if name is not None
        )

    @property
    def headline(self) -> tuple[str, ...]:
        """The columns that stand for all: the averages, and a benchmark alone in its domain."""
        return tuple(
            name
            for name in self.columns
            if not any(name in benchmarks for benchmarks in self.averages.values())
        )

    def estimates(self, column: str, cell: Cell) -> tuple[Estimate, ...]:
        """pass@k of a cell on a benchmark or average, for every k."""
        if column in self.averages:
            return self.averaged[column, cell]
        return self.scores[column, cell].estimates

    @property
    def graders(self) -> tuple[str, ...]:
        """Every grader version behind the results."""
        return tuple(sorted({name for names in self.graders_of.values() for name in names}))

    @property
    def n_seeds(self) -> int:
        """Most training seeds behind a result."""
        return max((len(scores.seeds) for scores in self.scores.values()), default=0)
