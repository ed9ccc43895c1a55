"""Reading a sweep's pass@k, training metrics and costs into a Summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.report.summary import Cell, Compute, Scores, Summary
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stats.intervals import (
    FRACTIONS,
    Estimate,
    Resampled,
    average,
    conclude,
    resample_together,
)
from fgrpo_bench.tables import BOUNDS

NOTHING = Estimate(mean=None, low=None, high=None, by_seed=(), n_seeds=0, n_problems=0)


def summarise(results: SweepResults) -> Summary:
    """Read everything the report needs; a sweep in progress gives what is there so far."""
    by_cell: dict[Cell, list[PointResult]] = {}
    for point in results.points:
        by_cell.setdefault(Cell.of(point), []).append(point)
    ks = tuple(results.declaration["declaration"]["experiment"]["evaluation"]["ks"])
    scores: dict[tuple[str, Cell], Scores] = {}
    resampled: dict[tuple[str, Cell], Resampled] = {}
    missing: dict[str, PointResult] = {}
    for stream, benchmark in enumerate(results.benchmarks):
        found = _read([point.passk(benchmark) for point in results.points], ks)
        done = _done(results.points, found)
        together = [found.values[0, done.get(cell, [])] for cell in by_cell]
        resamples = resample_together(together, limits=FRACTIONS, stream=stream)
        for cell, own in zip(by_cell, resamples, strict=True):
            rows = done.get(cell, [])
            resampled[benchmark, cell] = own
            scores[benchmark, cell] = _scores(
                [results.points[row] for row in rows], found.of(rows), tuple(conclude(own))
            )
        missing |= {
            point.point_id: point
            for row, point in enumerate(results.points)
            if row not in done.get(Cell.of(point), [])
        }
    averages = {
        f"average {domain}": tuple(benchmarks)
        for domain, benchmarks in results.domains.items()
        if len(benchmarks) > 1
    }
    trained = {
        cell: [point for point in points if point.is_trained and point.algorithm is not None]
        for cell, points in by_cell.items()
    }
    metrics = {
        cell: tuple(point.metrics().sort("step") for point in points)
        for cell, points in trained.items()
    }
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


@dataclass(frozen=True, kw_only=True)
class _Read:
    """Tables of pass@k of one benchmark as arrays, a row a point; problems in the order of their
    names."""

    values: NDArray[np.float64]
    """pass@k, its lower and its upper bound: [3, points, problems, ks], nan where there is none."""
    present: NDArray[np.bool_]
    """[points, problems], whether a table has the problem."""
    n_scored: NDArray[np.int64]
    """[points, problems], 0 where it has not; likewise n_correct."""
    n_correct: NDArray[np.int64]

    def of(self, rows: Sequence[int]) -> _Read:
        """Of these points alone."""
        return _Read(
            values=self.values[:, rows],
            present=self.present[rows],
            n_scored=self.n_scored[rows],
            n_correct=self.n_correct[rows],
        )


def _read(tables: Sequence[pl.DataFrame], ks: tuple[int, ...]) -> _Read:
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
    return _Read(values=values, present=present, n_scored=n_scored, n_correct=n_correct)


def _done(points: Sequence[PointResult], found: _Read) -> dict[Cell, list[int]]:
    """Rows of the points that have results, by cell and rising seed."""
    rows = [row for row in range(len(points)) if found.present[row].any()]
    by_cell: dict[Cell, list[int]] = {}
    for row in sorted(rows, key=lambda row: points[row].seed):
        by_cell.setdefault(Cell.of(points[row]), []).append(row)
    return by_cell


def _scores(points: Sequence[PointResult], found: _Read, estimates: tuple[Estimate, ...]) -> Scores:
    sizes = [int(point.evaluated()["target"]["n_samples"]) for point in points]
    drawn = sum(n * int(own.sum()) for n, own in zip(sizes, found.present, strict=True))
    return Scores(
        seeds=tuple(point.seed for point in points),
        values=found.values[0],
        n_scored=found.n_scored,
        n_correct=found.n_correct,
        estimates=estimates,
        bounds=tuple(_bounds(found.values[1:, :, :, i]) for i in range(len(estimates))),
        n_samples=min(sizes, default=None),
        unscored=1 - int(found.n_scored.sum()) / drawn if drawn else 0.0,
    )


def _bounds(ends: NDArray[np.float64]) -> tuple[float, float] | None:
    """Means of [low and high, seeds, problems]; None where one is missing."""
    if ends.size == 0 or np.isnan(ends).any():
        return None
    return float(ends[0].mean()), float(ends[1].mean())


def _averaged(
    seeds: Sequence[tuple[int, ...]], parts: Sequence[Resampled], *, n_ks: int
) -> tuple[Estimate, ...]:
    """The average over benchmarks; nothing where their seeds differ, so that none is left out."""
    if len(set(seeds)) == 1:
        return tuple(conclude(average(parts)))
    return (NOTHING,) * n_ks


def _compute(points: Sequence[PointResult], metrics: Sequence[pl.DataFrame], cell: Cell) -> Compute:
    """Up to the checkpoint that stands for the runs, but for the processor seconds."""
    trained = [read_marker(point.train) for point in points if point.is_trained]
    judged = [read_marker(point.evaluate) for point in points if point.is_evaluated]
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
        train_cpu_seconds=_mean([m["cpu_seconds"] for m in trained if "cpu_seconds" in m]),
        evaluate_cpu_seconds=_mean([m["cpu_seconds"] for m in judged if "cpu_seconds" in m]),
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
            for benchmark, version in point.evaluated()["target"]["graders"].items():
                found.setdefault(benchmark, set()).add(version)
    return {benchmark: tuple(sorted(versions)) for benchmark, versions in found.items()}
