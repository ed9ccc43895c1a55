"""What a sweep's files say, in memory: cells, their pass@k with intervals, and what is missing.

The only module of the report that reads results; everything after it is computed from a Summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.files import read_json
from fgrpo_bench.intervals import Estimate, Resampled, average, conclude, resample
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.tables import BOUNDS

NOTHING = Estimate(mean=None, low=None, high=None, by_seed=(), n_seeds=0, n_problems=0)


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


def summarise(results: SweepResults) -> Summary:
    """Read everything the report needs; a sweep in progress gives what is there so far."""
    by_cell: dict[Cell, list[PointResult]] = {}
    for point in results.points:
        by_cell.setdefault(_cell(point), []).append(point)
    ks = tuple(results.declaration["declaration"]["experiment"]["evaluation"]["ks"])
    scores: dict[tuple[str, Cell], Scores] = {}
    resampled: dict[tuple[str, Cell], Resampled] = {}
    missing: dict[str, PointResult] = {}
    for stream, benchmark in enumerate(results.benchmarks):
        tables = {point.point_id: point.passk(benchmark) for point in results.points}
        problems = _problems(tables.values())
        for cell, points in by_cell.items():
            done = [point for point in points if len(tables[point.point_id])]
            missing |= {point.point_id: point for point in points if point not in done}
            done.sort(key=lambda point: point.seed)
            frames = [tables[point.point_id] for point in done]
            values = _values(frames, problems=problems, ks=ks)
            resampled[benchmark, cell] = resample(values[0], stream=stream)
            estimates = tuple(conclude(resampled[benchmark, cell]))
            scores[benchmark, cell] = _scores(
                done, frames, problems=problems, values=values, estimates=estimates
            )
    averages = {
        f"average {domain}": tuple(benchmarks)
        for domain, benchmarks in results.domains.items()
        if len(benchmarks) > 1
    }
    trained = {
        cell: [point for point in points if point.is_trained and point.algorithm is not None]
        for cell, points in by_cell.items()
    }
    metrics = {cell: tuple(_metrics(point) for point in points) for cell, points in trained.items()}
    return Summary(
        results=results,
        cells=tuple(by_cell),
        ks=ks,
        scores=scores,
        averages=averages,
        averaged={
            (title, cell): _averaged(
                [scores[benchmark, cell].seeds for benchmark in benchmarks],
                [resampled[benchmark, cell] for benchmark in benchmarks],
                n_ks=len(ks),
            )
            for title, benchmarks in averages.items()
            for cell in by_cell
        },
        metrics=metrics,
        compute={cell: _compute(points, metrics[cell], cell) for cell, points in by_cell.items()},
        planned={cell: len(points) for cell, points in by_cell.items()},
        graders_of=_graders(results.points),
        engines=_engines(results),
        missing=tuple(missing.values()),
    )


def _cell(point: PointResult) -> Cell:
    return Cell(
        method=point.method,
        algorithm=point.algorithm,
        group_size=point.group_size,
        focal_gamma=point.focal_gamma,
        step=point.step,
    )


def _problems(tables: Any) -> list[str]:
    return sorted({problem for table in tables for problem in table["problem_id"].unique()})


def _averaged(
    seeds: Sequence[tuple[int, ...]], parts: Sequence[Resampled], *, n_ks: int
) -> tuple[Estimate, ...]:
    """The average over benchmarks; nothing where their seeds differ, so that none is left out."""
    if len(set(seeds)) == 1:
        return tuple(conclude(average(parts)))
    return (NOTHING,) * n_ks


def _values(
    tables: Sequence[pl.DataFrame], *, problems: list[str], ks: tuple[int, ...]
) -> NDArray[np.float64]:
    """pass@k, its lower and its upper bound: [3, seeds, problems, ks], nan where there is none."""
    values = np.full((3, len(tables), len(problems), len(ks)), np.nan)
    for seed, table in enumerate(tables):
        wanted = table.filter(pl.col("k").is_in(ks))
        row = _places(wanted, problems)
        column = np.searchsorted(ks, wanted["k"].to_numpy())
        for i, name in enumerate(("pass_at_k", *BOUNDS)):
            values[i, seed, row, column] = wanted[name].to_numpy()
    return values


def _places(table: pl.DataFrame, problems: list[str]) -> NDArray[np.int64]:
    """Where the problems of a table's rows stand in the sorted list."""
    return pl.Series(problems, dtype=pl.String).search_sorted(table["problem_id"]).to_numpy()


def _scores(
    points: Sequence[PointResult],
    tables: Sequence[pl.DataFrame],
    *,
    problems: list[str],
    values: NDArray[np.float64],
    estimates: tuple[Estimate, ...],
) -> Scores:
    n_scored, n_correct = np.zeros((2, len(points), len(problems)), dtype=np.int64)
    drawn = scored = 0
    sizes = []
    for seed, (point, table) in enumerate(zip(points, tables, strict=True)):
        sizes.append(int(read_json(point.evaluate.done)["target"]["n_samples"]))
        counts = table.unique("problem_id")
        row = _places(counts, problems)
        n_scored[seed, row] = counts["n_scored"].to_numpy()
        n_correct[seed, row] = counts["n_correct"].to_numpy()
        drawn += sizes[-1] * len(counts)
        scored += int(n_scored[seed].sum())
    return Scores(
        seeds=tuple(point.seed for point in points),
        values=values[0],
        n_scored=n_scored,
        n_correct=n_correct,
        estimates=estimates,
        bounds=tuple(_bounds(values[1:, :, :, i]) for i in range(values.shape[3])),
        n_samples=min(sizes, default=None),
        unscored=1 - scored / drawn if drawn else 0.0,
    )


def _bounds(ends: NDArray[np.float64]) -> tuple[float, float] | None:
    """Means of [low and high, seeds, problems]; None where one is missing."""
    if ends.size == 0 or np.isnan(ends).any():
        return None
    return float(ends[0].mean()), float(ends[1].mean())


def _metrics(point: PointResult) -> pl.DataFrame:
    return point.metrics().sort("step")


def _compute(points: Sequence[PointResult], metrics: Sequence[pl.DataFrame], cell: Cell) -> Compute:
    """Up to the checkpoint that stands for the runs, but for the processor seconds."""
    trained = [read_json(point.train.done) for point in points if point.is_trained]
    judged = [read_json(point.evaluate.done) for point in points if point.is_evaluated]
    until = [frame.filter(pl.col("step") <= cell.step) for frame in metrics]
    rows = [frame for frame in until if len(frame)]
    return Compute(
        n_runs=len(trained),
        rollouts=_mean([frame["rollouts"][-1] for frame in rows]),
        tokens=_mean([frame["tokens"][-1] for frame in rows]),
        train_gpu_seconds=_mean(
            [float((frame["seconds"] * frame["gpus"]).to_numpy().sum()) for frame in rows]
        ),
        optimizer_steps=_mean([frame["optimizer_steps"][-1] for frame in rows]),
        train_cpu_seconds=_mean([marker["cpu_seconds"] for marker in trained]),
        evaluate_cpu_seconds=_mean([marker["cpu_seconds"] for marker in judged]),
    )


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def _engines(results: SweepResults) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for point in results.points:
        for facts in filter(None, map(point.engine, results.benchmarks)):
            words = ", ".join(f"{name} {value}" for name, value in sorted(facts.items()))
            found.setdefault(words, []).append(point.point_id)
    return {words: tuple(dict.fromkeys(points)) for words, points in found.items()}


def _graders(points: Sequence[PointResult]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for point in points:
        if point.is_evaluated:
            for benchmark, version in read_json(point.evaluate.done)["target"]["graders"].items():
                found.setdefault(benchmark, set()).add(version)
    return {benchmark: tuple(sorted(versions)) for benchmark, versions in found.items()}
