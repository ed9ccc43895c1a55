"""A point of the sweep as a run of MLflow: training curves, pass@k of its checkpoints, files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import polars as pl

from fgrpo_bench.analysis.read import key_of
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.attempts import logs, tail
from fgrpo_bench.tracking.describe import COLOR, params, tags
from fgrpo_bench.tracking.source import Mean, Source
from fgrpo_bench.tracking.state import MetricPoint, RunState

LOG_LINES = 40
"""Of every log, in an artifact."""
LARGEST = 1.7976931348623157e308
"""MLflow's stand-in for infinity."""

BY_K = pl.Schema(
    {
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction, mean over problems
        "n_problems": pl.Int64,  # with a value for every seed of the cell
        "unscored_fraction": pl.Float64,  # of the draws up to where problems stopped
    }
)
"""pass_at_k.csv."""


def point_run(source: Source, point: PointResult) -> RunState:
    """The run of a point that has begun."""
    named, cell = params(source.results, point), key_of(point)[0]
    start, end = source.span(point)
    points = [*_training(point.metrics())]
    for each in map(point.at, point.checkpoints):
        if each.is_evaluated:
            points += _scores(source, each)
    files = {"spec.json": point.train.spec.read_bytes()}
    if end is not None:
        chosen = source.chosen(point)
        means = source.means_of(chosen)
        points += [MetricPoint(f"{m.column}/pass_at_k", m.k, end, m.value) for m in means]
        files |= _files(chosen, means, _unscored(chosen, source.results.benchmarks))
        files |= {"log-tail.txt": _log_tail(chosen), "draws.txt": _draws(source.results, chosen)}
    return RunState(
        name=point.point_id,
        title=f"{source.cells[cell].label}, seed {point.seed}",
        start=start or 0,
        end=end,
        params=named,
        tags={
            **tags(source.results, point, failed=point.point_id in source.failed),
            COLOR: source.colors[cell],
        },
        points=tuple(sorted(points)),
        artifacts=files,
        failed=point.point_id in source.failed,
    )


def _training(metrics: pl.DataFrame) -> Iterator[MetricPoint]:
    """Training curves and evaluations during training, by step."""
    curves = metrics.sort("step")
    steps, times = curves["step"].to_list(), curves["time_ms"].to_list()
    for column in curves.drop("step", "time_ms").columns:
        name = column.removeprefix("eval_")
        key = f"train/{name}" if name == column else f"eval/{name}"
        for step, time, value in zip(steps, times, curves[column].to_list(), strict=True):
            if value is not None:
                yield MetricPoint(key, step, time, _bounded(float(value)))


def _scores(source: Source, point: PointResult) -> Iterator[MetricPoint]:
    """Of the checkpoint that stands for `point`, by step: pass@k at the smallest and the largest k,
    and the share of draws that the grader could not judge. Three keys a benchmark and two an
    average, however many k there are."""
    ks, judged = point.evaluation_spec().evaluation.ks, int(point.evaluated()["finished_ms"])
    for mean in source.means_of(point):
        if mean.k in (ks[0], ks[-1]):
            yield MetricPoint(f"{mean.column}/pass_at_{mean.k}", point.step, judged, mean.value)
    for benchmark, share in _unscored(point, source.results.benchmarks).items():
        yield MetricPoint(f"{benchmark}/unscored_fraction", point.step, judged, share)


def _bounded(value: float) -> float:
    """As MLflow stores it: infinities become the largest double; nan stays."""
    return value if math.isnan(value) else max(-LARGEST, min(LARGEST, value))


def _unscored(point: PointResult, benchmarks: Sequence[str]) -> dict[str, float]:
    """Share of the draws up to where problems stopped that the grader could not judge, by benchmark
    with results."""
    shares, n_drawn = {}, point.asked().n_drawn
    for name in benchmarks:
        table = point.passk(name).with_columns(n_drawn=n_drawn)
        drawn, judged = table.drop_nulls("n_drawn").select("n_drawn", "n_scored").sum().row(0)
        if len(table):
            shares[name] = 1 - judged / drawn if drawn else 0.0
    return shares


def _log_tail(point: PointResult) -> bytes:
    """The end of the newest log of training and of evaluation."""
    parts = []
    for stage in (point.train, point.evaluate):
        for log in logs(stage)[-1:]:
            lines = [_printable(line) for line in tail(log) if line.strip()][-LOG_LINES:]
            parts.append("\n".join([f"==> {log.relative_to(stage.folder.parent)}", *lines]))
    return ("\n\n".join(parts) + "\n").encode()


def _printable(line: str) -> str:
    """Without what a terminal would obey: a log holds what models said."""
    return "".join(each if each.isprintable() else " " for each in line)


def _draws(results: SweepResults, point: PointResult) -> bytes:
    """Where the draws are, and how they are looked at."""
    run = results.paths
    page = f"/{run.sweep}/{run.experiment}/{run.version}/draws?b={quote(point.point_id)}"
    lines = [f"Every draw beside its base model's: make dashboard, then {page}", ""]
    for name in results.benchmarks:
        if point.results_on(name) is not None:
            path = point.evaluate.benchmark(name).draws
            lines.append(f"{name}: {path.relative_to(run.root).as_posix()} under the run root")
    return ("\n".join(lines) + "\n").encode()


def _files(
    point: PointResult, means: Sequence[Mean], unscored: Mapping[str, float]
) -> dict[str, bytes]:
    """The evaluation's spec, and pass@k for MLflow's table viewer (CSV) and programs (Parquet)."""
    files: dict[str, bytes] = {}
    for benchmark, share in unscored.items():
        passk = point.passk(benchmark)
        known = {
            mean.k: (mean.value, mean.n_problems) for mean in means if mean.column == benchmark
        }
        rows = [(k, *known.get(k, (None, 0)), share) for k in passk["k"].unique().sort()]
        by_k = pl.DataFrame(rows, schema=BY_K, orient="row")
        named = passk.with_columns(
            pl.format("pass_at_{}", "k").alias("name"), n_drawn=point.asked().n_drawn
        )
        counts = ["problem_id", "n_drawn", "n_scored", "n_correct"]
        problems = named.pivot("name", index=counts, values="pass_at_k")
        files |= {
            "evaluation.json": point.evaluate.spec.read_bytes(),
            f"{benchmark}/pass_at_k.csv": by_k.write_csv().encode(),
            f"{benchmark}/pass_at_k_by_problem.csv": problems.write_csv().encode(),
            f"{benchmark}/passk.parquet": point.evaluate.benchmark(benchmark).passk.read_bytes(),
        }
    return files
