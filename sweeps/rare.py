"""The stages of Delta NLL: the base models' rare correct answers, and their likelihood under every
evaluated checkpoint. Pure functions; nothing of another stage depends on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.graders import grader_version
from fgrpo_bench.specs import (
    BenchmarkSpec,
    EvalSpec,
    RareSpec,
    SweepPoint,
    to_dict,
)
from fgrpo_bench.specs.fingerprint import dataset_identity, evaluation_identity, fingerprint
from sweeps.stages import Checkpoints, Stage, base_stage, checkpoint_steps, dataset_stage_name

NAME = "rare"
"""Folder of the stages, and the benchmark that training prompts are drawn under."""


def rare_stages(
    points: tuple[SweepPoint, ...],
    trained: dict[str, Stage],
    rare: RareSpec | None,
    checkpoints: Checkpoints,
) -> Iterator[Stage]:
    """Sets first, then their scores point by point; none where rare is None.

    trained: the training stages by point. checkpoints: ExperimentSpec.checkpoints.
    """
    if rare is None:
        return
    sets = {base_stage(point).name: set_stage(point, rare) for point in points}
    yield from sets.values()
    for step in checkpoint_steps(points[0].train, checkpoints)[::-1]:
        for point in points:
            own = sets[base_stage(point).name]
            yield score_stage(point, trained[point.point_id], own, step=step)


def set_stage(point: SweepPoint, rare: RareSpec) -> Stage:
    """The rare correct answers of a point's base model."""
    base, evaluation = base_stage(point), rollouts(point, rare)
    dataset = evaluation.benchmarks[NAME].dataset
    sampling = evaluation_identity(evaluation, point.train)
    benchmark = sampling.pop("benchmarks")[NAME]
    identity = {
        "rare": to_dict(rare),
        "sampling": sampling,
        "dataset": None if dataset is None else dataset_identity(dataset),
        "prompts": benchmark["n_problems"],
        "grader": grader_version(evaluation.benchmarks[NAME].grader),
        "source": base.fingerprint,
    }
    mark = fingerprint(identity)
    name = f"{base.name}/{NAME}/{mark[:8]}"
    data = None if dataset is None else dataset_stage_name(dataset)
    return Stage(
        name=name,
        kind="rare",
        fingerprint=mark,
        target={},
        spec=_spec("rare", mark, identity, evaluation, step=0)
        | {
            "source": os.path.relpath(base.name, name),
            "data": None if data is None else os.path.relpath(data, name),
            "share": rare.share,
        },
        needs=(base.name, *([] if data is None else [data])),
        point_id=base.point_id,
        environment=engines.of_sampler(evaluation.sampler).environment.name,
    )


def score_stage(point: SweepPoint, source: Stage, of: Stage, *, step: int) -> Stage:
    """The likelihood of a set under a checkpoint of a training stage."""
    identity = {"set": of.fingerprint, "source": source.fingerprint, "step": step}
    mark = fingerprint(identity)
    name = f"{source.name}/{NAME}/{of.fingerprint[:8]}/step-{step:05d}"
    evaluation = rollouts(point, RareSpec(**of.spec["identity"]["rare"]))
    return Stage(
        name=name,
        kind="likelihood",
        fingerprint=mark,
        target={},
        spec=_spec("likelihood", mark, identity, evaluation, step=step)
        | {
            "source": os.path.relpath(source.name, name),
            "set": os.path.relpath(of.name, name),
            "settings": of.spec["identity"]["sampling"],
        },
        needs=(source.name, of.name),
        point_id=point.point_id,
        environment=of.environment,
    )


def rollouts(point: SweepPoint, rare: RareSpec) -> EvalSpec:
    """The draws as an evaluation on training prompts, at the temperature of training.

    ValueError where nothing says how to grade them.
    """
    train = point.train
    dataset = engines.of(train).inputs(train).dataset
    if dataset is not None:
        grader = dataset.grader
    else:
        own = [b.grader for b in point.evaluation.benchmarks.values() if b.dataset is None]
        if not own:
            raise ValueError(
                "rare is set, but the evaluation has no benchmark of the experiment's own task, "
                "whose grader it takes: set experiment.rare=null"
            )
        grader = own[0]
    benchmark = BenchmarkSpec(
        name=NAME,
        dataset=dataset,
        n_problems=rare.n_prompts,
        grader=grader,
        also=(),
        prompt=None,
    )
    return replace(
        point.evaluation,
        benchmarks={NAME: benchmark},
        n_samples=rare.n_samples,
        ks=(1,),
        temperature=train.temperature,
        prompts={},
    )


def _spec(
    kind: str, mark: str, identity: dict[str, Any], evaluation: EvalSpec, *, step: int
) -> dict[str, Any]:
    return {
        "kind": kind,
        "fingerprint": mark,
        "target": {},
        "identity": identity,
        "evaluation": to_dict(evaluation),
        "step": step,
    }
