"""What MLflow should hold for a sweep, computed from its files alone: no clock, no MLflow.

One experiment a sweep and experiment name (`groupsize/countdown`), one run a point, base models
included. The same files always give the same state, so a second sync finds nothing to do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from fgrpo_bench.files import read_json
from fgrpo_bench.fingerprint import fingerprint
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.results import PointResult, SweepResults, load_results
from fgrpo_bench.simulation.plan import is_simulation
from fgrpo_bench.tracking.describe import IDENTITY, experiment_tags, params, tags

LARGEST = 1.7976931348623157e308
"""MLflow's stand-in for infinity."""

BY_K = pl.Schema(
    {
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction, mean over problems
        "n_problems": pl.Int64,  # with at least k scored draws
        "unscored_fraction": pl.Float64,  # of all draws
    }
)
"""pass_at_k.csv."""


@dataclass(frozen=True, order=True)
class MetricPoint:
    """One value of a metric's history, e.g. MetricPoint("train/reward", 40, 1767323004000, 0.25)"""

    key: str
    step: int
    """Rollout batch; for `<benchmark>/pass_at_k` the k."""
    timestamp: int
    """Milliseconds since 1970, from the files."""
    value: float
    """Finite or nan."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """One MLflow run as it should be."""

    name: str
    """The point_id."""
    start: int
    """When training began, milliseconds since 1970."""
    end: int | None
    """When the evaluation was complete, milliseconds since 1970; None while it is not. MLflow's
    status follows: RUNNING, then FINISHED."""
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[MetricPoint, ...] = field(repr=False)
    """Sorted; at most one for a key and step."""
    artifacts: Mapping[str, bytes] = field(repr=False)
    """Contents by path within the run's artifacts."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The values of IDENTITY."""
        return tuple(self.tags[key] for key in IDENTITY)

    @property
    def digest(self) -> str:
        """Hash of everything above; equal digests need no further look."""
        points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in self.points]
        artifacts = {
            path: hashlib.sha256(content).hexdigest() for path, content in self.artifacts.items()
        }
        return fingerprint(
            [self.name, self.start, self.end, dict(self.params), dict(self.tags), points, artifacts]
        )


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """One MLflow experiment as it should be."""

    name: str
    tags: Mapping[str, str]
    runs: tuple[RunState, ...]


def desired_experiment(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold for one sweep; points that have not begun have no run yet.

    Raises FileNotFoundError where the sweep was never run and ValueError for a damaged file.
    """
    if is_simulation(paths):
        from fgrpo_bench.simulation.tracked import desired

        return desired(paths)
    results = load_results(paths)
    return ExperimentState(
        name=f"{paths.sweep}/{paths.experiment}",
        tags=experiment_tags(results),
        runs=tuple(run for point in results.points if (run := _run(results, point)) is not None),
    )


def _run(results: SweepResults, point: PointResult) -> RunState | None:
    curves = point.metrics().sort("step")
    start = _start(point, curves)
    if start is None:
        return None
    train, evaluation = read_json(point.train.spec), read_json(point.evaluate.spec)
    end = int(read_json(point.evaluate.done)["finished_ms"]) if point.is_evaluated else None
    judged = {}
    if end is not None:
        judged = {name: _by_k(point.passk(name), evaluation) for name in results.benchmarks}
    points = [*_training(curves), *_pass_at_k(judged, step=point.step, timestamp=end or 0)]
    return RunState(
        name=point.point_id,
        start=start,
        end=end,
        params=params(results, point, train, evaluation),
        tags=tags(results, point, train, evaluation),
        points=tuple(sorted(points)),
        artifacts=_artifacts(point, judged),
    )


def _start(point: PointResult, curves: pl.DataFrame) -> int | None:
    """When the first step began, or the stage where it logs no steps; None where it has not."""
    if len(curves):
        return int(curves["time_ms"][0] - 1000 * curves["seconds"][0])
    if not point.is_trained:
        return None
    marker = read_json(point.train.done)
    return int(marker["finished_ms"] - 1000 * marker["wall_seconds"])


def _training(curves: pl.DataFrame) -> Iterator[MetricPoint]:
    """Training curves and evaluations during training, by step."""
    steps, times = curves["step"].to_list(), curves["time_ms"].to_list()
    for column in curves.drop("step", "time_ms").columns:
        name = column.removeprefix("eval_")
        key = f"train/{name}" if name == column else f"eval/{name}"
        for step, time, value in zip(steps, times, curves[column].to_list(), strict=True):
            if value is not None:
                yield MetricPoint(key, step, time, _bounded(float(value)))


def _bounded(value: float) -> float:
    """As MLflow stores it: infinities become the largest double; nan stays."""
    return value if math.isnan(value) else max(-LARGEST, min(LARGEST, value))


def _by_k(passk: pl.DataFrame, evaluation: dict[str, Any]) -> pl.DataFrame:
    """A row a k: mean pass@k over the problems with enough scored draws (null where none has).

    Summed exactly, so that the last digit depends on no order and no number of threads.
    """
    n_samples, rows = evaluation["evaluation"]["n_samples"], []
    for k in passk["k"].unique().sort():
        table = passk.filter(pl.col("k") == k)
        scored = table["pass_at_k"].drop_nulls().to_list()
        mean = math.fsum(scored) / len(scored) if scored else None
        unscored = 1 - table["n_scored"].sum() / (len(table) * n_samples)
        rows.append((k, mean, len(scored), unscored))
    return pl.DataFrame(rows, schema=BY_K, orient="row")


def _pass_at_k(
    judged: Mapping[str, pl.DataFrame], *, step: int, timestamp: int
) -> Iterator[MetricPoint]:
    """The last checkpoint: pass@k as a curve over k, and as a plain metric for each k."""
    for benchmark, table in judged.items():
        for k, value in table.select("k", "pass_at_k").iter_rows():
            if value is not None:
                yield MetricPoint(f"{benchmark}/pass_at_k", k, timestamp, value)
                yield MetricPoint(f"{benchmark}/pass_at_{k}", step, timestamp, value)
        for value in table["unscored_fraction"].head(1):
            yield MetricPoint(f"{benchmark}/unscored_fraction", step, timestamp, value)


def _artifacts(point: PointResult, judged: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """Specs, and pass@k for MLflow's table viewer (CSV) and for programs (Parquet)."""
    files = {"spec.json": point.train.spec.read_bytes()}
    for benchmark, table in judged.items():
        passk = point.passk(benchmark)
        problems = passk.with_columns(pl.format("pass_at_{}", "k").alias("name")).pivot(
            "name", index=["problem_id", "n_scored", "n_correct"], values="pass_at_k"
        )
        files |= {
            "evaluation.json": point.evaluate.spec.read_bytes(),
            f"{benchmark}/pass_at_k.csv": table.write_csv().encode(),
            f"{benchmark}/pass_at_k_by_problem.csv": problems.write_csv().encode(),
            f"{benchmark}/passk.parquet": point.evaluate.benchmark(benchmark).passk.read_bytes(),
        }
    return files
