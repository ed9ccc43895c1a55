"""The MLflow runs of points: training curves, pass@k of the checkpoints, tables and files.

In: a `Source`. Out: a `DesiredRun` for each point that has begun.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import quote

import polars as pl

from fgrpo_bench.analysis.checkpoints import frame_key
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import PointResult, SweepResults
from fgrpo_bench.analysis.rows import UNSCORED, open_part
from fgrpo_bench.analysis.scoring import bounds_of, shares_of
from fgrpo_bench.documents.markdown import escape_markdown
from fgrpo_bench.files.spec import read_spec, read_spec_as
from fgrpo_bench.specs.stored import TrainStageSpec, trained_with
from fgrpo_bench.stages.attempts import logs, tail
from fgrpo_bench.stages.tables import N_DRAWN
from fgrpo_bench.tracking.source import Mean, Source
from fgrpo_bench.tracking.states import (
    COLOR,
    NOTE,
    POINTS,
    DesiredRun,
    MetricPoint,
    RunState,
    identity_tags,
    readable,
    source_tags,
)

LOG_LINES = 40
"""Of every log, in an artifact."""
LARGEST = 1.7976931348623157e308
"""MLflow's stand-in for infinity."""
MOST_STEPS = 50
"""Of a training curve in MLflow, which takes an eighth of a millisecond to store each value and is
waited for at a sweep's end."""


def desired_points(source: Source, points: Collection[str] | None = None) -> list[DesiredRun]:
    """The runs of the points that have begun, without their parents.

    points: point_ids of those that are wanted; None wants all.
    """
    return [
        DesiredRun(
            name=point.point_id,
            digest=source.digest(point),
            state=partial(_point_run, source, point),
        )
        for point in source.results.points
        if (points is None or point.point_id in points) and source.has_begun(point)
    ]


def _point_run(source: Source, point: PointResult) -> RunState:
    """The run of a point that has begun."""
    results, cell = source.results, frame_key(point)[0]
    start, end = source.span(point)
    failed = point.point_id in source.failed
    points = [*_training(point.metrics(), n_steps=results.require_sweep().train["steps"])]
    for checkpoint in map(point.at, point.checkpoints):
        if checkpoint.is_evaluated:
            points += _scores(source, checkpoint)
    files, tables = {"spec.json": point.train.spec.read_bytes()}, {}
    shares: dict[str, float] = {}
    if end is not None:
        chosen = source.chosen(point)
        means = source.means_of(chosen)
        points += [MetricPoint(f"pass_at_k/{m.column}", m.k, end, readable(m.value)) for m in means]
        shares = unscored(chosen, results.benchmarks)
        whose = (pl.lit(cell).alias("cell"), pl.lit(point.seed).alias("seed"))
        tables = {
            path: table.select(*whose, pl.all())
            for path, table in _tables(chosen, means, shares).items()
        }
        files |= _files(results, chosen)
    return RunState(
        name=point.point_id,
        title=f"{source.cells[cell].label}, seed {point.seed}",
        start=start or 0,
        end=end,
        params=params_of(results, point),
        tags={
            **identity_tags(results, point.point_id, read_spec(point.train).fingerprint),
            "evaluation_fingerprint": point.evaluation_spec().fingerprint,
            "kind": POINTS,
            "state": _state(point, failed=failed),
            "method": point.method,
            NOTE: _point_note(results, point),
            COLOR: source.colors[cell],
            **source_tags(results),
            **unscored_tag(shares),
        },
        points=tuple(sorted(points)),
        artifacts=files,
        tables=tables,
        failed=failed,
    )


def _training(metrics: pl.DataFrame, *, n_steps: int) -> Iterator[MetricPoint]:
    """Training curves, about MOST_STEPS of the `n_steps` steps that are planned, and every
    evaluation during training. Where a value stays the same, only the ends of that stretch."""
    curves, every = metrics.sort("step"), math.ceil(n_steps / MOST_STEPS)
    steps, times = curves["step"].to_list(), curves["time_ms"].to_list()
    for column in curves.drop("step", "time_ms").columns:
        name = column.removeprefix("eval_")
        key = f"train/{name}" if name == column else f"eval/{name}"
        points = [
            MetricPoint(key, step, time, _bounded(float(value)))
            for step, time, value in zip(steps, times, curves[column].to_list(), strict=True)
            if value is not None and (name != column or step % every == 0 or step in (1, n_steps))
        ]
        for _, stretch in groupby(points, key=attrgetter("value")):
            first, *others = stretch
            yield first
            # A stretch that may still grow gets its end when it has one: MLflow takes no point back
            if others and (others[-1] is not points[-1] or others[-1].step == n_steps):
                yield others[-1]


def _bounded(value: float) -> float:
    """As MLflow stores it: infinities become the largest double; nan stays."""
    return value if math.isnan(value) else max(-LARGEST, min(LARGEST, value))


def _scores(source: Source, point: PointResult) -> Iterator[MetricPoint]:
    """Of the checkpoint that stands for `point`, by step: pass@k at the smallest and the largest k,
    the share of draws that the grader could not judge, and the bounds where these are many. Three
    to seven keys a benchmark and two an average, however many k there are."""
    ks, judged = point.evaluation_spec().eval_spec.ks, point.evaluated().finished_ms
    for mean in source.means_of(point):
        if mean.k in (ks[0], ks[-1]):
            key = f"pass_at_{mean.k}/{mean.column}"
            yield MetricPoint(key, point.step, judged, readable(mean.value))
    for benchmark, share in unscored(point, source.results.benchmarks).items():
        yield MetricPoint(f"unscored_fraction/{benchmark}", point.step, judged, readable(share))
        yield from bounds(point, benchmark, share, step=point.step, time=judged)


def unscored(point: EvaluatedCheckpoint, benchmarks: Sequence[str]) -> dict[str, float]:
    """Share of the draws up to where problems stopped that the grader could not judge, by benchmark
    with results."""
    tables = {name: point.passk(name) for name in benchmarks}
    done = {name: table for name, table in tables.items() if len(table)}
    return {name: shares_of(table).unscored for name, table in done.items()}


def bounds(
    point: EvaluatedCheckpoint, benchmark: str, unscored: float, *, step: int, time: int
) -> Iterator[MetricPoint]:
    """pass@k at the smallest and the largest k were all unscored draws wrong, and all right, where
    they are so many that it does not stand without (`open_part`)."""
    by_k = bounds_of(point.passk(benchmark))
    for k in dict.fromkeys((min(by_k), max(by_k))):
        _, ends = open_part(unscored, *by_k[k])
        for name, bound in zip(("all_wrong", "all_right"), ends or (), strict=False):
            yield MetricPoint(f"pass_at_{k}_{name}/{benchmark}", step, time, readable(bound))


def shares_and_bounds(point: EvaluatedCheckpoint, benchmark: str) -> dict[str, list[float | None]]:
    """Columns of a table of pass@k by rising k: what it rests on."""
    table = point.passk(benchmark)
    of_draws, by_k = shares_of(table), bounds_of(table)
    return {
        "unscored_fraction": [of_draws.unscored] * len(by_k),
        "all_wrong": [low for low, _ in by_k.values()],
        "all_right": [high for _, high in by_k.values()],
        "cut_off": [of_draws.cut_off] * len(by_k),
        "correct_cut_off": [of_draws.correct_cut_off] * len(by_k),
        "correct_by_place": [of_draws.correct_by_place] * len(by_k),
    }


def unscored_tag(shares: Mapping[str, float]) -> dict[str, str]:
    """A tag that the list of runs shows, where more than UNSCORED of a benchmark's draws could not
    be judged."""
    named_as = {name: f"{name} {share:.1%}" for name, share in shares.items() if share > UNSCORED}
    return {"unscored": ", ".join(named_as.values())} if named_as else {}


def _tables(
    point: PointResult, means: Sequence[Mean], benchmarks: Collection[str]
) -> dict[str, pl.DataFrame]:
    """pass@k of every benchmark by k, and by problem."""
    tables = {}
    for benchmark in benchmarks:
        passk = point.passk(benchmark)
        known = {mean.k: mean for mean in means if mean.column == benchmark}
        ks = passk["k"].unique().sort().to_list()
        tables[f"{benchmark}/pass_at_k.json"] = pl.DataFrame(
            {
                "k": ks,
                "pass_at_k": [known[k].value if k in known else None for k in ks],
                # those with a value for every seed of the cell
                "n_problems": [known[k].n_problems if k in known else 0 for k in ks],
            }
            | shares_and_bounds(point, benchmark)
        )
        named = passk.with_columns(pl.format("pass_at_{}", "k").alias("name"), n_drawn=N_DRAWN)
        counts = ["problem_id", "n_drawn", "n_scored", "n_correct"]
        problems = named.pivot("name", index=counts, values="pass_at_k")
        tables[f"{benchmark}/pass_at_k_by_problem.json"] = problems
    return tables


def _files(results: SweepResults, point: PointResult) -> dict[str, bytes]:
    """The evaluation's spec, pass@k for programs, the end of the logs and where the draws are."""
    files = {"evaluation.json": point.evaluate.spec.read_bytes()}
    for name in results.benchmarks:
        if len(point.passk(name)):
            table = point.evaluate.benchmark(name).passk()
            files[f"{name}/passk.parquet"] = table.read_bytes()
    return files | {"log-tail.txt": _log_tail(point), "draws.txt": _draws(results, point)}


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
    return "".join(character if character.isprintable() else " " for character in line)


def _draws(results: SweepResults, point: PointResult) -> bytes:
    """Where the draws are, and how they are looked at."""
    run = results.paths
    page = f"/{run.sweep}/{run.experiment}/{run.version}/draws?b={quote(point.point_id)}"
    lines = [f"Every draw beside its base model's: fgrpo-bench dashboard, then {page}", ""]
    for name in results.benchmarks:
        if point.results_on(name) is not None:
            path = point.evaluate.benchmark(name).draws
            lines.append(f"{name}: {path.relative_to(run.root).as_posix()} under the run root")
    return ("\n".join(lines) + "\n").encode()


def params_of(results: SweepResults, point: PointResult) -> dict[str, str]:
    """What runs are compared by; a base model has only what applies to it."""
    evaluation = point.evaluation_spec()
    judged, warmup = evaluation.eval_spec, trained_with(point.train, "warmup")
    named: dict[str, Any] = {"model": results.model, "method": point.method}
    if point.cell is None:
        named["seed"] = point.seed
    else:
        cell = read_spec_as(TrainStageSpec, point.train).sweep_point
        named |= {
            "algorithm": cell.algorithm.name,
            "group_size": cell.group_size,
            "focal_gamma": cell.focal_gamma,
            "seed": cell.seed,
            "steps": cell.train.steps,
            "budget": cell.train.budget,
            "prompts_per_step": cell.n_prompts,
            "rollouts_per_step": cell.n_prompts * cell.group_size,
            "updates_per_batch": cell.train.updates_per_batch,
            "learning_rate": f"{cell.learning_rate:.4g}",
            "train_temperature": cell.train.temperature,
        }
    named |= {} if warmup is None else {"warmup_steps": warmup["steps"]}
    named |= {"n_samples": judged.n_samples, "eval_temperature": judged.temperature}
    if judged.design is not None:
        named |= {
            "design_stages": ", ".join(map(str, judged.design.stages)),
            "design_enough": judged.design.enough,
        }
    for name, benchmark in judged.benchmarks.items():
        named[f"{name}_n_problems"] = benchmark.n_problems or "all"
    return {key: str(value) for key, value in named.items()}


def _state(point: PointResult, *, failed: bool) -> str:
    if point.is_evaluated:
        return "evaluated"
    if failed:
        return "failed"
    return "trained" if point.is_trained else "training"


def _point_note(results: SweepResults, point: PointResult) -> str:
    """The run in words."""
    model = escape_markdown(results.model)
    cell = point.cell
    if cell is None:
        what = f"The base model {model} of seed {point.seed}, before any RL."
    else:
        weight = f"focal_gamma = {cell.focal_gamma:g}" if cell.focal_gamma else "no focal weight"
        what = (
            f"{model} trained with {cell.method}, group size N = {cell.group_size}, "
            f"{weight}, seed {point.seed}, for {point.step} steps."
        )
    curves = ", ".join(escape_markdown(f"pass_at_k/{name}") for name in results.benchmarks)
    return (
        f"{what}\n\n`train/...`: by training step. `eval/...`: small evaluations during training. "
        f"{curves}: the final evaluation, with k as the step. All pass@k are fractions, means "
        "over problems."
    )
