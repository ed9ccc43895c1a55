"""Delta NLL of rare correct answers (paper, app. M.2): the stages `rare` and `likelihood`.

`rare` draws from the base model on training prompts, keeps the correct draws that are least likely
under the base model, and stores this set, which never changes. `likelihood` scores the set under a
trained checkpoint; the mean rise of the negative log-likelihood a token says how much of the base
model's rare right answers training has pushed away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from evaluators.backends import make_engine
from evaluators.grade_worker import GradeWorkers
from evaluators.grading import Grading, grade_workers
from evaluators.likelihood import Answer, make_scorer
from evaluators.records import Draw, SamplingTarget
from evaluators.resume import clear_tables
from evaluators.sample import complete_draws
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.kinds import likelihood, rare
from fgrpo_bench.records import Problem
from fgrpo_bench.seeds import stream
from fgrpo_bench.specs import BenchmarkSpec, Placement, TaskSpec, from_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.spec import StageSpec
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.tables import (
    GRADES,
    LIKELIHOODS,
    TRAJECTORIES,
    read_table,
    write_table,
)
from fgrpo_bench.tasks import make_task


def collect(
    stored: StageSpec, run: StageRun, *, device: str, placement: Placement | None
) -> rare.RareFacts:
    """Run a stage `rare`; returns facts for its marker."""
    spec = stored.of(rare.RareSetSpec)
    asked = SamplingTarget.of(spec, device=device, placement=placement)
    evaluation = asked.evaluation
    (benchmark,) = evaluation.benchmarks.values()
    problems = training_problems(spec, benchmark, seed=evaluation.seed)
    paths = run.paths.benchmark(benchmark.name)
    clear_tables(paths)
    with GradeWorkers(problems, workers=grade_workers()) as workers:
        grading = Grading(paths, problems, benchmark.grader, workers=workers)

        def tell(done: int, of: int, draws: Sequence[Draw]) -> None:
            grading.add(draws)
            run.progress(step=done, of=of)
            if run.stopping and done < of:
                raise Stopped(f"{done} of {of} draws are saved")

        draws, _ = complete_draws(
            paths,
            problems,
            n_samples=evaluation.n_samples,
            seed=spec.draw_seed,
            sampler=lambda: make_engine(asked).draw,
            tell=tell,
        )
        grading.finish(draws)
    grades = read_table(paths.grades(grading.version), GRADES)
    right = grades.filter(pl.col("outcome") == "correct").select("problem_id", "draw")
    correct = draws.join(right, on=["problem_id", "draw"]).sort("problem_id", "draw")
    prompts = {problem.problem_id: problem.prompt for problem in problems}
    table = correct.select(
        "problem_id",
        "draw",
        pl.col("problem_id").replace_strict(prompts, return_dtype=pl.String).alias("prompt"),
        "response",
        (pl.col("finish_reason") == "stop").alias("ended"),
        "end_token",
    )
    nll = score(table, benchmark, asked, run)
    kept = rarest(table.with_columns(pl.Series("nll", nll, pl.Float64)), spec.share)
    write_table(run.paths.trajectories, kept.select(list(TRAJECTORIES)), TRAJECTORIES)
    run.leave(run.paths.trajectories, paths.draws, paths.grades(grading.version))
    return rare.RareFacts(
        weights_sha256=asked.sha256,
        n_draws=len(draws),
        n_correct=len(correct),
        n_rare=len(kept),
        nll_correct=float(nll.mean()) if len(nll) else None,
        nll_rare=_mean(kept["nll"]),
    )


def rescore(
    stored: StageSpec, run: StageRun, *, device: str, placement: Placement | None
) -> likelihood.LikelihoodFacts:
    """Run a stage `likelihood`; returns facts for its marker."""
    spec = stored.of(likelihood.LikelihoodSpec)
    asked = SamplingTarget.of(spec, device=device, placement=placement)
    (benchmark,) = asked.evaluation.benchmarks.values()
    trajectories = spec.at(spec.set).trajectories
    table = read_table(trajectories, TRAJECTORIES)
    nll = score(table, benchmark, asked, run)
    scored = table.select("problem_id", "draw", pl.Series("nll", nll, pl.Float64)).with_columns(
        (pl.col("nll") - table["nll"]).alias("delta_nll")
    )
    write_table(run.paths.likelihoods, scored, LIKELIHOODS)
    run.leave(run.paths.likelihoods)
    return likelihood.LikelihoodFacts(
        step=spec.looks_at[1],
        weights_sha256=asked.sha256,
        set_sha256=sha256_file(trajectories),
        n_rare=len(table),
        delta_nll=_mean(scored["delta_nll"]),
    )


def _mean(column: pl.Series) -> float | None:
    """None of nothing."""
    mean = column.mean()
    assert mean is None or isinstance(mean, float)
    return mean


def training_problems(
    spec: rare.RareSetSpec, benchmark: BenchmarkSpec, *, seed: int
) -> list[Problem]:
    """Some problems that training sees, chosen by a fixed seed; ValueError where there are fewer
    than wanted."""
    if spec.data_folder is not None:
        assert benchmark.dataset is not None
        every = dataset_problems(spec.data_folder, benchmark.dataset, n_problems=None)
        n_train = len(every)
    else:
        task = make_task(from_dict(TaskSpec, spec.task))
        n_train = task.n_train
    wanted = benchmark.n_problems
    assert wanted is not None
    if wanted > n_train:
        raise ValueError(
            f"rare.n_prompts={wanted}, but there are {n_train} training prompts: ask for fewer"
        )
    chosen = np.random.default_rng(stream(seed, "rare")).choice(n_train, wanted, replace=False)
    numbers = sorted(chosen.tolist())
    problems = [every[i] for i in numbers] if spec.data else task.train_problems(numbers)
    return [replace(problem, benchmark=benchmark.name) for problem in problems]


def rarest(table: pl.DataFrame, share: float) -> pl.DataFrame:
    """The share of the rows with the largest nll (at least one, if there is one), by problem and
    draw; of equal ones the first."""
    kept = min(len(table), max(1, math.floor(share * len(table))))
    order = ["nll", "problem_id", "draw"]
    chosen = table.sort(order, descending=[True, False, False]).head(kept)
    return chosen.sort("problem_id", "draw")


def score(
    table: pl.DataFrame, benchmark: BenchmarkSpec, asked: SamplingTarget, run: StageRun
) -> np.ndarray:
    """Nats a token of each row (tables.TRAJECTORIES without nll), [rows]; without rows no back end
    is started."""
    answers = [
        Answer(
            problem=Problem(
                benchmark=benchmark.name,
                problem_id=row["problem_id"],
                prompt=row["prompt"],
                target="",
                grader=benchmark.grader,
            ),
            response=row["response"],
            ended=row["ended"],
            end_token=row["end_token"],
        )
        for row in table.iter_rows(named=True)
    ]
    nats = np.full(len(answers), np.nan)
    if not answers:
        return nats
    done = 0
    for batch in make_scorer(asked)(answers):
        for number, nll in batch:
            nats[number] = nll
        done += len(batch)
        run.progress(step=done, of=len(answers))
        if run.stopping and done < len(answers):
            raise Stopped("likelihoods are computed anew, draws are saved")
    return nats
