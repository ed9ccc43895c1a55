"""What is scored beside a benchmark's pass@k: other graders, each task alone, rare correct answers.

In: results and the checkpoint that stands for each cell. Out: the rows of `other_graders`, `tasks`
(of a benchmark that is made of tasks, SynLogic) and `likelihood` (Delta NLL). Next: frames.py.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from fgrpo_bench.analysis.checkpoints import At, key_of
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results, SweepResults
from fgrpo_bench.analysis.rows import CellRow, Likelihood, OtherGrader, TaskRow
from fgrpo_bench.analysis.scoring import mean_bound
from fgrpo_bench.files.paths import DataPaths, StagePaths
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.paper.published import published_delta_nll
from fgrpo_bench.stages.markers import read_marker_of, stands
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.tables import BOUNDS, N_DRAWN, PROBLEMS, read_table


def other_graders(
    results: Results, chosen: Sequence[At], problems: Mapping[str, Collection[str]]
) -> Iterator[OtherGrader]:
    """A row a benchmark, further grader, cell and k; none where a cell has no grades of it.

    problems: those of each benchmark that count.
    """
    for benchmark in results.judged_twice:
        graders = {
            name: None
            for checkpoint in results.checkpoints
            for name in checkpoint.beside(benchmark)
        }
        for grader in graders:
            for cell, step in chosen:
                graded = [
                    checkpoint
                    for checkpoint in results.checkpoints
                    if key_of(checkpoint) == (cell, step) and grader in checkpoint.beside(benchmark)
                ]
                if graded:
                    yield from _grader_rows(graded, benchmark, grader, cell, problems[benchmark])


def _grader_rows(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmark: str,
    grader: str,
    cell: str,
    problems: Collection[str],
) -> Iterator[OtherGrader]:
    tables = [
        checkpoint.passk_beside(benchmark, grader).with_columns(n_drawn=N_DRAWN)
        for checkpoint in checkpoints
    ]
    values = (
        pl.concat(tables)
        .filter(pl.col("problem_id").is_in(list(problems)))
        .group_by("k", "problem_id")
        .agg(
            pl.col("pass_at_k", *BOUNDS).mean(),
            with_value=pl.col("pass_at_k").count(),
            drawn=pl.col("n_drawn").sum(),
            scored=pl.col("n_scored").filter(pl.col("n_drawn").is_not_null()).sum(),
        )
        .sort("k", "problem_id")  # so that sums are in one order, and the digits the same
    )
    complete = pl.col("with_value") == len(checkpoints)
    means = values.group_by("k", maintain_order=True).agg(
        pl.col("pass_at_k").filter(complete).mean(),
        *map(mean_bound, BOUNDS),
        unscored=1 - pl.col("scored").sum() / pl.col("drawn").sum(),
    )
    for k, mean, all_wrong, all_right, unscored in means.iter_rows():
        yield OtherGrader(
            benchmark=benchmark,
            grader=grader,
            versions=tuple(
                sorted({checkpoint.beside(benchmark)[grader] for checkpoint in checkpoints})
            ),
            cell=cell,
            k=k,
            pass_at_k=mean,
            n_seeds=len(checkpoints),
            unscored=unscored,
            all_wrong=all_wrong,
            all_right=all_right,
        )


TASKS_LAYOUT = "synlogic"
"""Layout of the datasets whose golds name a task."""


def task_names(golds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Task by problem_id. golds: problem_id and gold, JSON with the task's name."""
    return {problem: str(json.loads(gold)["task"]) for problem, gold in golds}


def tasks(results: Results, chosen: Collection[At]) -> Iterator[TaskRow]:
    """A row a benchmark, cell, task and k; none for benchmarks without tasks."""
    names = [cell for cell, _ in chosen]
    for benchmark in results.benchmarks:
        frames = list(_by_problem(results, benchmark))
        if frames:
            order = pl.col("cell").replace_strict(names, range(len(names)))
            for row in (
                _task_scores(pl.concat(frames)).sort(order, "task", "k").iter_rows(named=True)
            ):
                yield TaskRow(benchmark=benchmark, **row)


def _by_problem(results: Results, benchmark: str) -> Iterator[pl.DataFrame]:
    """pass@k of every checkpoint, each problem with its task."""
    known: dict[Path, pl.DataFrame] = {}
    for checkpoint in results.checkpoints:
        is_told = checkpoint.evaluate.spec.exists() or _has_tasks(results, benchmark)
        if not is_told or checkpoint.results_on(benchmark) is None:
            continue
        if (folder := _dataset(checkpoint, benchmark)) is None:
            continue
        if folder not in known:
            golds = read_table(DataPaths(folder).problems, PROBLEMS)
            named = task_names(golds.select("problem_id", "answer").iter_rows())
            known[folder] = pl.DataFrame(
                list(named.items()), schema=["problem_id", "task"], orient="row"
            )
        yield (
            checkpoint.passk(benchmark)
            .filter(pl.col("k").is_in(results.evaluation["ks"]))
            .with_columns(
                cell=pl.lit(checkpoint.label),
                seed=pl.lit(checkpoint.seed, pl.Int64),
                n_drawn=N_DRAWN.fill_null(pl.col("n_scored")),
            )
            .join(known[folder], on="problem_id")
        )


def _dataset(checkpoint: EvaluatedCheckpoint, benchmark: str) -> Path | None:
    """Folder of the problems of a benchmark that is made of tasks; None for any other."""
    spec = checkpoint.evaluation_spec()
    if spec.layout(benchmark) != TASKS_LAYOUT:
        return None
    return spec.data_folder(benchmark)


def _has_tasks(results: Results, benchmark: str) -> bool:
    """By what was declared, for where the spec of an evaluation is gone."""
    dataset = (results.evaluation["benchmarks"][benchmark] or {}).get("dataset")
    return isinstance(dataset, dict) and dataset.get("layout") == TASKS_LAYOUT


def _task_scores(rows: pl.DataFrame) -> pl.DataFrame:
    """cell, task, k and the columns of TaskRow behind it."""
    seeds = rows.group_by("cell").agg(n_seeds=pl.col("seed").n_unique().cast(pl.Int64))
    problems = (
        rows.group_by("cell", "task", "k", "problem_id")
        .agg(
            pl.col("pass_at_k", *BOUNDS).mean(),
            with_value=pl.col("pass_at_k").count(),
            drawn=pl.col("n_drawn").sum(),
            scored=pl.col("n_scored").sum(),
        )
        .join(seeds, on="cell")
    )
    complete = pl.col("with_value") == pl.col("n_seeds")
    return (
        problems.sort("problem_id")  # so that sums are in one order, and the bytes the same
        .group_by("cell", "task", "k", maintain_order=True)
        .agg(
            pl.col("pass_at_k").filter(complete).mean(),
            n_seeds=pl.col("n_seeds").first(),
            n_problems=pl.len().cast(pl.Int64),
            n_draws=pl.col("drawn").sum(),
            n_unscored=(pl.col("drawn") - pl.col("scored")).sum(),
            all_wrong=mean_bound("pass_at_k_low"),
            all_right=mean_bound("pass_at_k_high"),
        )
    )


def likelihood_stages(sweep: SweepResults) -> Iterator[tuple[str, int, StagePaths]]:
    """point_id, step and stage of every checkpoint whose likelihoods are done."""
    plan = read_plan(sweep.paths)
    for point in plan.points:
        for checkpoint in point.checkpoints:
            if checkpoint.likelihood is not None:
                stage = StagePaths(sweep.paths.folder / checkpoint.likelihood)
                if stands(stage, fingerprint=plan.fingerprints.get(checkpoint.likelihood)):
                    yield point.point_id, checkpoint.step, stage


def likelihoods(sweep: SweepResults, cells: Sequence[CellRow]) -> Iterator[Likelihood]:
    """A row a cell with a score; a set without an answer has none."""
    markers = {
        (point, step): read_marker_of(LikelihoodMarker, stage)
        for point, step, stage in likelihood_stages(sweep)
    }
    for cell in cells:
        scored = {
            point.seed: (marker.delta_nll, marker.n_rare)
            for point in sorted(sweep.points, key=lambda point: point.seed)
            if key_of(point) == (cell.cell, cell.step)
            and (marker := markers.get((point.point_id, point.step))) is not None
            and marker.delta_nll is not None
        }
        if scored:
            by_seed = tuple(delta_nll for delta_nll, _ in scored.values())
            yield Likelihood(
                cell=cell.cell,
                seeds=tuple(scored),
                by_seed=by_seed,
                mean=sum(by_seed) / len(by_seed),
                n_rare=tuple(n_rare for _, n_rare in scored.values()),
                published=published_delta_nll(cell.setting),
            )
