"""Small sweeps for the report's tests, and ways to take results away again."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.results import PointResult, SweepResults, load_results
from fgrpo_bench.analysis.rows import FRAMES, Comparison, Rows, from_frame
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.tables import GRADES, PASSK, read_table, write_table
from fgrpo_bench.stats.passk import pass_at_k
from tests.support.dashboard import GRADER, add_draws
from tests.support.synthetic import SMALL, write_sweep
from tests.support.synthetic import copy as copy

ONE_SEED = "sweep.grid.seed=[11]"
MANY_PROBLEMS = "experiment.evaluation.benchmarks.countdown.n_problems=600"
"""So many that planted rates of a few percent are not near 0, where intervals leave room."""


def small_sweep(root: Path, sweep: str = "groupsize", *overrides: str, **options) -> SweepResults:
    """A finished synthetic sweep; further overrides on top of SMALL."""
    return write_sweep(root, sweep, [*SMALL, *overrides], **options)


def forget(results: SweepResults, *point_ids: str, training: bool = True) -> SweepResults:
    """The sweep as if these points had not been evaluated, nor trained."""
    for point in results.points:
        if point.point_id in point_ids:
            point.evaluate.done.unlink()
            if training:
                point.train.done.unlink()
    return load_results(results.paths)


def every_comparison(analysis: Analysis) -> list[Comparison]:
    """Averages first."""
    return from_frame(Comparison, analysis.comparisons)


def with_declaration(analysis: Analysis, change: Callable[[dict[str, Any]], None]) -> Analysis:
    """The analysis as if its sweep had been declared otherwise. change: of the declaration, in
    place."""
    results = analysis.results
    assert isinstance(results, SweepResults)
    declared = deepcopy(results.record.declaration)
    change(declared)
    record = replace(results.record, declaration=declared)
    return replace(analysis, results=replace(results, record=record))


def with_frames(analysis: Analysis, **frames: pl.DataFrame) -> Analysis:
    """The analysis with other frames in the place of its own, by name."""
    tables: dict[str, Rows[Any]] = {
        name: Rows(FRAMES[name], frame=lambda frame=frame: frame) for name, frame in frames.items()
    }
    return replace(analysis, tables={**analysis.tables, **tables})


@cache  # so that the same rates are the same function, of which a sweep is written once
def constant(**rates: float):
    """Success rates that are the same for every problem, by method: Base, GRPO, F_GRPO."""

    def success_rates(point: PointResult, rng: np.random.Generator, n_problems: int) -> np.ndarray:
        return np.full(n_problems, rates[point.method.replace("-", "_")])

    return success_rates


def rewrite_passk(point: PointResult, change) -> None:
    """Pass a point's pass@k table through a function; of a fixed number of draws those without a
    judgement are what the judged ones leave."""
    path, design = point.evaluate.benchmark("countdown").passk(), point.stopping()
    frame: pl.DataFrame = change(read_table(path, PASSK))
    if design.is_fixed:
        frame = frame.with_columns(n_unscored=pl.concat_list(design.stages[0] - pl.col("n_scored")))
    write_table(path, frame, PASSK)


def scored(results: SweepResults, root: Path, values: dict[str, float | None]) -> SweepResults:
    """A copy whose plan names likelihoods, of which some are done."""
    made = copy(results, root)
    plan = read_json(made.paths.plan)
    for point in plan["points"]:
        for checkpoint in point["checkpoints"]:
            name = f"{point['train']}/rare/x/step-{checkpoint['step']:05d}"
            checkpoint["likelihood"] = name
            if point["point_id"] in values:
                marker = LikelihoodMarker(
                    fingerprint="x",
                    target={},
                    outputs={},
                    step=checkpoint["step"],
                    weights_sha256="w",
                    set_sha256="s",
                    n_rare=300,
                    delta_nll=values[point["point_id"]],
                )
                write_json(made.paths.folder / name / "DONE.json", marker.as_json())
    write_json(made.paths.plan, with_checksum(plan))
    return load_results(made.paths)


NINE = [
    "experiment=qwen2.5-7b",
    "evaluation@experiment.evaluation=in-domain",
    *(
        f"+benchmark@experiment.evaluation.benchmarks.{name}={name}"
        for name in ("ifeval", "synlogic", "gpqa")
    ),
    "experiment.evaluation.benchmarks.synlogic.n_problems=300",
]
"""Overrides of a sweep that evaluates on the paper's nine benchmarks."""


def nine_benchmarks(root: Path, sweep: str = "gamma", *overrides: str, **options) -> SweepResults:
    """A finished synthetic sweep on the paper's nine benchmarks; SynLogic's problems are of three
    tasks."""
    results = write_sweep(root, sweep, [*NINE, *overrides], **options)
    evaluated = results.points[0].evaluate
    data = evaluated.folder / read_json(evaluated.spec)["data"]["synlogic"]
    n_problems = results.evaluation["benchmarks"]["synlogic"]["n_problems"]
    tasks = ("sudoku", "arrow_maze", "futoshiki")
    write_columns(data.resolve(), task=[tasks[i % 3] for i in range(n_problems)])
    return results


def write_columns(data: Path, **columns: list[str | None]) -> None:
    """Columns beside the problems p000, p001, ... of a dataset in this folder."""
    n_problems = len(next(iter(columns.values())))
    frame = pl.DataFrame(
        {"problem_id": [f"p{i:03d}" for i in range(n_problems)]} | columns,
        schema_overrides=dict.fromkeys(columns, pl.String),
    )
    write_table(DataPaths(data).columns, frame, frame.schema)


def published_and_gated(root: Path) -> SweepResults:
    """A finished synthetic sweep of one run on some problems of MATH-500 and of GPQA, which is
    gated."""
    names, prefix = ("math500", "gpqa"), "experiment.evaluation.benchmarks"
    return write_sweep(
        root,
        "gamma",
        [
            "experiment=qwen2.5-7b",
            "evaluation@experiment.evaluation=math500",
            "+benchmark@experiment.evaluation.benchmarks.gpqa=gpqa",
            *(f"{prefix}.{name}.n_problems=20" for name in names),
            "sweep.grid.focal_gamma=[0.0]",
            "sweep.family=null",
            ONE_SEED,
        ],
    )


TASKS = ("<b>sudoku</b>", "arrow_maze", "no | verifier")
"""Problem i is of task i % 3; names are the publisher's text."""


def unjudged(table):
    """Draws of the third task as the grader leaves them that has no verifier for it."""
    without = pl.col("problem_id").str.slice(1).cast(pl.Int64) % 3 == 2
    score = [name for name in table.columns if name.startswith("pass")]
    counts = [
        pl.when(without).then(0).otherwise(pl.col(n)).alias(n) for n in ("n_scored", "n_correct")
    ]
    scores = [pl.when(~without).then(pl.col(n)).alias(n) for n in score]
    return table.with_columns(*counts, *scores).cast(dict(table.schema))


def made_of_tasks(results: SweepResults) -> SweepResults:
    """The sweep as if its benchmark were a dataset of TASKS, of which the third is not judged where
    problems make a fixed number of draws."""
    with_columns(results, "synlogic", task=[TASKS[i % 3] for i in range(24)])
    for point in results.points:
        if point.stopping().is_fixed:
            rewrite_passk(point, unjudged)
    return results


def with_columns(
    results: SweepResults, layout: str = "plain", **columns: list[str | None]
) -> SweepResults:
    """The sweep as if its problems were a dataset's with these columns."""
    folder = results.paths.folder / "_data" / "problems"
    write_columns(folder, **columns)
    for point in results.points:
        spec = read_json(point.evaluate.spec)
        spec["evaluation"]["benchmarks"]["countdown"]["dataset"] = {"layout": layout}
        spec["data"] = {"countdown": str(folder)}
        write_json(point.evaluate.spec, spec)
    return results


OTHER = (
    "{name: other, dataset: null, n_problems: 12, grader: countdown, "
    "extra_graders: [], prompt: null}"
)
MIXED = [
    f"+experiment.evaluation.benchmarks.other={OTHER}",
    "experiment.checkpoints=[10,20]",
    "experiment.train.save_every=10",
    "sweep.grid.group_size=[2,8]",
]


def mixed_sweep(root: Path) -> SweepResults:
    """Two benchmarks of one domain and so an average, two checkpoints of every run, draws that
    could not be judged (four of each of three problems of grpo-n8-g0-s11 on countdown, which has
    another engine and grades of a second grader too), and a cell without one of its seeds
    (grpo-n8-g1-s12). The last checkpoints have draws."""
    results = small_sweep(root, "groupsize", *MIXED)
    other = next(p for p in results.points if p.point_id == "grpo-n8-g0-s11")
    rewrite_passk(other, _unjudged)
    for point in results.points:
        for benchmark in results.benchmarks:
            add_draws(point, benchmark, tuple(f"answer {i}" for i in range(9)))
    paths = other.evaluate.benchmark("countdown")
    write_json(paths.manifest, read_json(paths.manifest) | {"engines": [{"engine": "another"}]})
    write_table(
        paths.grades("second-2"), _of_second(read_table(paths.grades(GRADER), GRADES)), GRADES
    )
    return forget(results, "grpo-n8-g1-s12")


def _of_second(grades: pl.DataFrame) -> pl.DataFrame:
    """As a grader that takes every sixteenth draw for right, and the first of a problem for
    wrong."""
    right, wrong = pl.col("draw") % 16 == 7, pl.col("draw") == 0
    outcome = pl.when(right).then(pl.lit("correct")).when(wrong).then(pl.lit("incorrect"))
    return grades.with_columns(
        outcome=outcome.otherwise("outcome"), grader_version=pl.lit("second-2")
    )


def _unjudged(table: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for row in table.iter_rows(named=True):
        if row["problem_id"] in ("p000", "p001", "p002"):
            n, right, k = row["n_scored"], min(row["n_correct"], row["n_scored"] - 4), row["k"]
            row |= {
                "n_scored": n - 4,
                "n_correct": right,
                "pass_at_k": float(pass_at_k(n_samples=n - 4, n_correct=right, k=k)),
                "pass_at_k_low": float(pass_at_k(n_samples=n, n_correct=right, k=k)),
                "pass_at_k_high": float(pass_at_k(n_samples=n, n_correct=right + 4, k=k)),
            }
        rows.append(row)
    return pl.DataFrame(rows, schema=table.schema)
