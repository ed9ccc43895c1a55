"""train: one training run, a point of the sweep, on its base model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.core import registry
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.function import located
from fgrpo_bench.kinds.kind import (
    Environment,
    Kind,
    Planned,
    Stage,
    by_module,
    make_stage,
    training_inputs,
)
from fgrpo_bench.specs import Profile, SweepPoint, to_dict
from fgrpo_bench.specs.cell import to_stored
from fgrpo_bench.specs.fingerprint import defining
from fgrpo_bench.specs.stored import TrainStageSpec

NAME = "train"


def identity(point: SweepPoint) -> dict[str, Any]:
    """What defines a training run: the cell, the seed, and what of the training spec makes its
    weights. When checkpoints are saved and evaluated changes none."""
    engine, task, reward = (
        engines.engine_for(point.train),
        training_inputs(point).task,
        point.train.reward,
    )
    judge = {} if reward is None else {"reward": grader_version(reward)}
    return {
        "recipe_version": engine.version,
        **to_stored(point.cell),
        "algorithm": defining(point.algorithm, without=("name",)),
        "seed": point.seed,
        "train": engine.identity(point.train),
        **judge,
    } | registry.identity(
        engines=engine.name,
        objectives=point.algorithm.objective,
        advantages=point.algorithm.advantage,
        tasks=None if task is None else task.name,
        graders=reward,
    )


def stages(planned: Planned) -> Iterator[Stage]:
    """One for each point."""
    for point in planned.points:
        yield stage(planned, point)


def stage(planned: Planned, point: SweepPoint) -> Stage:
    """The training of a point."""
    name, base, needs = point.point_id, planned.base(point), training_inputs(point)
    data = {
        field: planned.dataset(dataset).name
        for field, dataset in {"data": needs.dataset, "eval_data": needs.eval_dataset}.items()
        if dataset is not None
    }
    paths: dict[str, Any] = {
        field: os.path.relpath(path, name) for field, path in {"base": base.name, **data}.items()
    }
    return make_stage(
        TrainStageSpec,
        NAME,
        name,
        identity(point),
        point_id=name,
        needs=(base.name, *data.values()),
        environment=engines.engine_for(point.train).environment.name,
        point=to_dict(point),
        reward=_located(point.train.reward),
        **paths,
    )


def _located(reward: str | None) -> str | None:
    """A function's name with its folder: the stage runs in another."""
    return located(reward) if reward is not None and ":" in reward else reward


def command(folder: Path, profile: Profile, environment: Environment) -> list[str]:
    """e.g. -m fgrpo_bench.engines.embedded <folder> --device cpu --threads 1."""
    program = engines.engine_for_environment(environment).program
    return by_module(*program)(folder, profile, environment)


KIND = Kind(
    name=NAME,
    noun="training",
    stages=stages,
    command=command,
    takes="profile",
    rerun_hint="trains it again from its start, since only training makes it",
)
