"""rare: the rare correct answers of a base model to training prompts (paper, app. M.2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.files.records import Record
from fgrpo_bench.graders import grader_version
from fgrpo_bench.kinds.evaluate import DrawsSpec, command, draws_identity, is_trusted, random_stream
from fgrpo_bench.kinds.fetch import dataset_identity
from fgrpo_bench.kinds.kind import Kind, Planned, Stage, make_stage, training_inputs
from fgrpo_bench.specs import BenchmarkSpec, EvalSpec, RareSpec, SweepPoint, to_dict
from fgrpo_bench.specs.fingerprint import defining, fingerprint

NAME = "rare"
"""Also the folder of the stages, and the benchmark that training prompts are drawn under."""


@dataclass(frozen=True, kw_only=True)
class RareSetSpec(DrawsSpec):
    """The spec.json of a set of rare answers."""

    data: str | None
    """Path to the stage of the training problems; None for those of a task."""
    share: float
    """Share of the correct draws that is kept."""

    @property
    def data_folder(self) -> Path | None:
        """Folder of the training problems; None for those of a task."""
        return None if self.data is None else self.at(self.data).folder


def identity(point: SweepPoint, rare: RareSpec, base: Stage) -> dict[str, Any]:
    """What defines the set of a point's base model; no cell does."""
    evaluation = rollouts(point, rare)
    (benchmark,) = evaluation.benchmarks.values()
    sampling = draws_identity(evaluation, point.train, stream=random_stream(point, step=0))
    del sampling["benchmarks"]
    return {
        "rare": defining(rare),
        "sampling": sampling,
        "dataset": None if benchmark.dataset is None else dataset_identity(benchmark.dataset),
        "prompts": benchmark.n_problems,
        "grader": grader_version(benchmark.grader),
        "source": base.fingerprint,
    }


def stages(planned: Planned) -> Iterator[Stage]:
    """One for each base model; none where they are not asked for."""
    rare = planned.declaration.experiment.rare
    if rare is None:
        return
    for point in planned.by_base:
        yield stage(planned, point, rare)


def stage(planned: Planned, point: SweepPoint, rare: RareSpec) -> Stage:
    """The rare correct answers of a point's base model."""
    base, evaluation = planned.base(point), rollouts(point, rare)
    defined = identity(point, rare, base)
    name = f"{base.name}/{NAME}/{fingerprint(defined)[:8]}"
    dataset = training_inputs(point).dataset
    data = None if dataset is None else planned.dataset(dataset).name
    return make_stage(
        RareSetSpec,
        NAME,
        name,
        defined,
        needs=() if data is None else (data,),
        point_id=base.point_id,
        environment=engines.engine_for_sampler(evaluation.sampler).environment.name,
        source=base,
        step=0,
        evaluation=to_dict(evaluation),
        trust_remote_code=is_trusted(point),
        data=None if data is None else os.path.relpath(data, name),
        share=rare.share,
    )


def rollouts(point: SweepPoint, rare: RareSpec) -> EvalSpec:
    """The draws as an evaluation on training prompts, at the temperature of training.

    ValueError where nothing says how to grade them.
    """
    dataset = training_inputs(point).dataset
    if dataset is not None:
        grader = dataset.grader
    else:
        graders = [b.grader for b in point.evaluation.benchmarks.values() if b.dataset is None]
        if not graders:
            raise ValueError(
                "rare is set, but the evaluation has no benchmark of the experiment's own task, "
                "whose grader it takes: set experiment.rare=null"
            )
        grader = graders[0]
    benchmark = BenchmarkSpec(
        name=NAME,
        dataset=dataset,
        n_problems=rare.n_prompts,
        grader=grader,
        extra_graders=(),
        prompt=None,
    )
    return replace(
        point.evaluation,
        benchmarks={NAME: benchmark},
        n_samples=rare.n_samples,
        design=None,  # all correct draws are ranked
        ks=(1,),
        temperature=point.train.temperature,
        top_p=1.0,  # as training draws
        top_k=None,
        stop=None,
        prefix=None,
        few_shot=None,
        prompts={},
    )


@dataclass(frozen=True, kw_only=True)
class RareFacts(Record):
    """What the stage says in its marker beside what all stages say."""

    weights_sha256: str
    n_draws: int
    n_correct: int
    n_rare: int
    """Answers in the set."""
    nll_correct: float | None
    """Mean negative log-likelihood of the correct draws, nats per token; None without any."""
    nll_rare: float | None
    """The same of the set."""


KIND = Kind(name=NAME, noun="rare set", stages=stages, command=command)
