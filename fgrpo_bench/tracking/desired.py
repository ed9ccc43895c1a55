"""What MLflow should hold for a sweep, computed from its files and locks: no clock, no MLflow.

One experiment a sweep and experiment name (`groupsize/countdown`), one run a point, base models
included, below a run for their cell (`cells`); evaluated checkpoints as logged models (`models`).
The same files always give the same state, so a second sync finds nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import polars as pl

from fgrpo_bench.kinds import evaluate
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.results import (
    PointResult,
    SweepResults,
    has_checkpoints,
    load_results,
    own_view,
)
from fgrpo_bench.specs.frozen import TrainStageSpec
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths, find_runs
from fgrpo_bench.stages.shapes import PLAN
from fgrpo_bench.stages.states import read_stages
from fgrpo_bench.tracking.cells import report_run, with_cells
from fgrpo_bench.tracking.describe import experiment_tags, params, tags, words
from fgrpo_bench.tracking.models import checkpoint_model
from fgrpo_bench.tracking.state import ExperimentState as ExperimentState
from fgrpo_bench.tracking.state import MetricPoint as MetricPoint
from fgrpo_bench.tracking.state import RunState as RunState

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


def desired_experiment(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold for one sweep; points that have not begun have no run yet.

    Raises FileNotFoundError where the sweep was never run and ValueError for a damaged file.
    """
    if not has_checkpoints(paths):
        state: ExperimentState = own_view(paths).desired(paths)
        return state
    results = load_results(paths)
    summary = summarise(results)
    answer = words(summary, compare(summary))
    begun = _runs(results, results.points)
    runs = with_cells(summary, begun)
    report = report_run(summary, [run for _, run in begun], answer)
    return ExperimentState(
        name=experiment_name(paths),
        tags=experiment_tags(results, answer) if paths == _latest(paths) else {},
        runs=runs if report is None else (*runs, report),
    )


def experiment_name(paths: RunPaths) -> str:
    """e.g. `groupsize/countdown`."""
    return f"{paths.sweep}/{paths.experiment}"


def desired_points(paths: RunPaths, points: Collection[str]) -> list[RunState]:
    """The runs of some points alone, by point_id, without their parents: what a look at a sweep
    that trains costs. Raises as `desired_experiment`."""
    results = load_results(paths)
    return [run for _, run in _runs(results, [p for p in results.points if p.point_id in points])]


def _runs(
    results: SweepResults, points: Sequence[PointResult]
) -> list[tuple[PointResult, RunState]]:
    """Points that have begun, with their runs."""
    named = {point.point_id for point in points}
    records = [
        record
        for record in read_json(results.paths.plan, PLAN)["stages"]
        if record["point_id"] in named
    ]
    stages = read_stages(results.paths, records)
    failed = {stage.point_id for stage in stages if stage.state == "failed"}
    runs = ((point, _run(results, point, failed=point.point_id in failed)) for point in points)
    return [(point, run) for point, run in runs if run is not None]


def _latest(paths: RunPaths) -> RunPaths:
    """The version that was run last: it speaks for the experiment that all versions share."""
    found = find_runs(paths.root, paths.sweep, experiment=paths.experiment)
    versions = [one for one in found if one.sweep_json.exists()]
    return max(versions, key=lambda one: (read_json(one.sweep_json)["created"], one == paths))


def _run(results: SweepResults, point: PointResult, *, failed: bool) -> RunState | None:
    curves = point.metrics().sort("step")
    start = _start(point, curves)
    if start is None:
        return None
    train = TrainStageSpec(point.train, read_json(point.train.spec))
    evaluation = point.evaluation_spec()
    named = params(results, point, train, evaluation)
    models, judged = [], {}
    points = [*_training(curves)]
    for each in map(point.at, point.checkpoints):
        if each.is_evaluated:
            judged = {name: _by_k(each.passk(name), evaluation) for name in results.benchmarks}
            models.append(checkpoint_model(results, each, named, judged))
            points += [score.point for score in models[-1].scores]
    end = models[-1].created if point.is_evaluated else None
    last = {} if end is None else judged
    points += [*_over_k(last, timestamp=end or 0)]
    return RunState(
        name=point.point_id,
        start=start,
        end=end,
        params=named,
        tags=tags(results, point, train, evaluation, failed=failed),
        points=tuple(sorted(points)),
        artifacts=_artifacts(point, last),
        models=tuple(models),
        failed=failed,
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


def _by_k(passk: pl.DataFrame, evaluation: evaluate.Spec) -> pl.DataFrame:
    """A row a k: mean pass@k over the problems with enough scored draws (null where none has).

    Summed exactly, so that the last digit depends on no order and no number of threads.
    """
    n_samples, rows = evaluation.n_samples, []
    for k in passk["k"].unique().sort():
        table = passk.filter(pl.col("k") == k)
        scored = table["pass_at_k"].drop_nulls().to_list()
        mean = math.fsum(scored) / len(scored) if scored else None
        unscored = 1 - table["n_scored"].sum() / (len(table) * n_samples)
        rows.append((k, mean, len(scored), unscored))
    return pl.DataFrame(rows, schema=BY_K, orient="row")


def _over_k(judged: Mapping[str, pl.DataFrame], *, timestamp: int) -> Iterator[MetricPoint]:
    """pass@k of the last checkpoint as a curve over k: one key, however many k there are."""
    for benchmark, table in judged.items():
        for k, value in table.select("k", "pass_at_k").iter_rows():
            if value is not None:
                yield MetricPoint(f"{benchmark}/pass_at_k", k, timestamp, value)


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
