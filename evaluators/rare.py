"""Delta NLL of rare correct answers (paper, app. M.2): the stages `rare` and `likelihood`.

In: a base model and training prompts; then the set of `rare` and a trained checkpoint. Out: a set
of rare correct answers, which never changes; then its likelihood under the checkpoint. `rare` draws
from the base model on training prompts and keeps the correct draws that are least likely under it.
`likelihood` scores the set; the mean rise of the negative log-likelihood a token says how much of
the base model's rare right answers training has pushed away. `sample` draws, `grading` grades, and
each back end takes log-probabilities (`backends`, `transformers`, `vllm`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import stream
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.kinds import likelihood, rare
from fgrpo_bench.specs import BenchmarkSpec, Placement, TaskSpec, from_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import (
    GRADES,
    LIKELIHOODS,
    TRAJECTORIES,
    read_table,
    write_table,
)
from fgrpo_bench.tasks import make_task

from .backends import embedded_log_probs, make_engine
from .evaluate import clear_tables
from .grading import Grading
from .grading_processes import GradeWorkers, grade_workers
from .records import Draw, LogProbs, SamplingTarget, encoder, limits, tokenizer_of
from .sample import complete_draws


def collect(
    stored: StageSpec, run: StageRun, *, device: str, placement: Placement | None
) -> rare.RareFacts:
    """Run a stage `rare`; returns facts for its marker."""
    spec = stored.as_kind(rare.RareSetSpec)
    target = SamplingTarget.from_spec(spec, device=device, placement=placement)
    assert target.sha256 is not None  # a sweep's checkpoint
    evaluation = target.evaluation
    (benchmark,) = evaluation.benchmarks.values()
    problems = _training_problems(spec, benchmark, seed=evaluation.seed)
    paths = run.paths.benchmark(benchmark.name)
    clear_tables(paths)
    with GradeWorkers(problems, workers=grade_workers()) as workers:
        grading = Grading(paths, problems, benchmark.grader, workers=workers)

        def on_draws(done: int, total: int, draws: Sequence[Draw]) -> None:
            grading.add(draws)
            run.progress(step=done, of=total)
            if run.stopping and done < total:
                raise Stopped(f"{done} of {total} draws are saved")

        draws, _ = complete_draws(
            paths,
            problems,
            design=evaluation.stopping,
            grading=grading,
            seed=spec.draw_seed,
            sampler=lambda: make_engine(target).draw,
            on_draws=on_draws,
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
    nll = score(table, benchmark, target, run)
    kept = rarest(table.with_columns(pl.Series("nll", nll, pl.Float64)), spec.share)
    write_table(run.paths.trajectories, kept.select(list(TRAJECTORIES)), TRAJECTORIES)
    run.register_outputs(run.paths.trajectories, paths.draws, paths.grades(grading.version))
    return rare.RareFacts(
        weights_sha256=target.sha256,
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
    spec = stored.as_kind(likelihood.LikelihoodSpec)
    target = SamplingTarget.from_spec(spec, device=device, placement=placement)
    assert target.sha256 is not None  # a sweep's checkpoint
    (benchmark,) = target.evaluation.benchmarks.values()
    trajectories = spec.at(spec.set).trajectories
    table = read_table(trajectories, TRAJECTORIES)
    nll = score(table, benchmark, target, run)
    scored = table.select("problem_id", "draw", pl.Series("nll", nll, pl.Float64)).with_columns(
        (pl.col("nll") - table["nll"]).alias("delta_nll")
    )
    write_table(run.paths.likelihoods, scored, LIKELIHOODS)
    run.register_outputs(run.paths.likelihoods)
    return likelihood.LikelihoodFacts(
        step=spec.looks_at[1],
        weights_sha256=target.sha256,
        set_sha256=sha256_file(trajectories),
        n_rare=len(table),
        delta_nll=_mean(scored["delta_nll"]),
    )


def _mean(column: pl.Series) -> float | None:
    """None of nothing."""
    mean = column.mean()
    assert mean is None or isinstance(mean, float)
    return mean


def _training_problems(
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
    n_problems = benchmark.n_problems
    assert n_problems is not None
    if n_problems > n_train:
        raise ValueError(
            f"rare.n_prompts={n_problems}, but there are {n_train} training prompts: ask for fewer"
        )
    chosen = np.random.default_rng(stream(seed, "rare")).choice(n_train, n_problems, replace=False)
    numbers = sorted(chosen.tolist())
    problems = [every[i] for i in numbers] if spec.data else task.problems(numbers)
    return [replace(problem, benchmark=benchmark.name) for problem in problems]


def rarest(table: pl.DataFrame, share: float) -> pl.DataFrame:
    """The share of the rows with the largest nll (at least one, if there is one), by problem and
    draw; of equal ones the first."""
    kept = min(len(table), max(1, math.floor(share * len(table))))
    order = ["nll", "problem_id", "draw"]
    chosen = table.sort(order, descending=[True, False, False]).head(kept)
    return chosen.sort("problem_id", "draw")


def score(
    table: pl.DataFrame, benchmark: BenchmarkSpec, target: SamplingTarget, run: StageRun
) -> np.ndarray:
    """Nats per token of each row (tables.TRAJECTORIES without nll), [rows]; without rows no back
    end is started."""
    answers = [
        StoredResponse(
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
    for batch in make_scorer(target)(answers):
        for number, nll in batch:
            nats[number] = nll
        done += len(batch)
        run.progress(step=done, of=len(answers))
        if run.stopping and done < len(answers):
            raise Stopped("likelihoods are computed anew, draws are saved")
    return nats


# Likelihood of given answers: mean negative log-probability a token. Answers are stored as text and
# encoded again: where a tokenizer would split an answer otherwise than it was sampled, the
# likelihood is that of the usual split, under every checkpoint alike. The end token is the one that
# was sampled, of which a model may have several. Where that is not known, as in imported draws, it
# is the engine's first: the tokenizer's (vLLM) or the smallest (transformers), which such sets were
# scored with under the base model too.


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResponse:
    """A stored draw."""

    problem: Problem
    response: str
    ended: bool
    """By the model itself, so that the end token counts."""
    end_token: int | None
    """The one that was sampled; None where it is not known, or there is none."""


Scorer = Callable[[Sequence[StoredResponse]], Iterator[list[tuple[int, float]]]]
"""StoredResponses -> lists of (number of the answer, nats per token), each answer once."""


def make_scorer(target: SamplingTarget) -> Scorer:
    """The scorer of the back end that the evaluation samples with.

    Errors as those of evaluators.backends.make_engine.
    """
    if target.evaluation.sampler == "embedded":
        return _embedded(target)
    return _vllm(target) if target.evaluation.sampler == "vllm" else _transformers(target)


def _embedded(target: SamplingTarget) -> Scorer:
    from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint

    assert target.sha256 is not None
    policy, tokenizer = load_checkpoint(target.folder, target.device, target.sha256)

    def encode(answer: StoredResponse) -> tuple[list[int], list[int]]:
        prompt, response = (
            tokenizer.encode([text])[0] for text in (answer.problem.prompt, answer.response)
        )
        return prompt.tolist(), [*response.tolist(), *_end(answer, policy.eos)]

    return _scorer(encode, embedded_log_probs(policy, target.device))


def _transformers(target: SamplingTarget) -> Scorer:
    from .transformers import end_tokens, load_model, transformers_log_probs

    model = load_model(target)
    tokenizer = tokenizer_of(target)
    first = min(end_tokens(model, tokenizer), default=None)
    return _scorer(_response_encoder(tokenizer, target, first), transformers_log_probs(model))


def _vllm(target: SamplingTarget) -> Scorer:
    from .vllm import start, vllm_log_probs

    engine = start(target, max_model_len=sum(limits(target.settings)) + 2)
    tokenizer: Any = engine.get_tokenizer()
    encode = _response_encoder(tokenizer, target, tokenizer.eos_token_id)
    return _scorer(encode, vllm_log_probs(engine))


def _scorer(
    encode: Callable[[StoredResponse], tuple[list[int], list[int]]], log_probs: LogProbs
) -> Scorer:
    def score(answers: Sequence[StoredResponse]) -> Iterator[list[tuple[int, float]]]:
        for batch in log_probs([encode(answer) for answer in answers]):
            yield [(number, -float(taken.mean())) for number, taken in batch]

    return score


def _response_encoder(
    tokenizer: Any, target: SamplingTarget, first_end: int | None
) -> Callable[[StoredResponse], tuple[list[int], list[int]]]:
    """From an answer to the token ids of its prompt and of itself.

    first_end: the end token of answers of which it is not known; None where the model has none.
    """
    of_prompt = encoder(tokenizer, target.evaluation, target.settings)

    def encode(answer: StoredResponse) -> tuple[list[int], list[int]]:
        tokens = list(tokenizer(answer.response, add_special_tokens=False)["input_ids"])
        return of_prompt(answer.problem), [*tokens, *_end(answer, first_end)]

    return encode


def _end(answer: StoredResponse, first_end: int | None) -> list[int]:
    """The end token of an answer, as a list of one; empty where it was cut off."""
    token = first_end if answer.end_token is None else answer.end_token
    return [token] if answer.ended and token is not None else []
