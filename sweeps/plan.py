"""From a declaration to points and stages: pure functions, nothing is read, started or written.

A plan is a list of points (training runs) and a list of stages in an order that respects their
needs. What each stage computes is frozen in its `spec`, which the stage reads from its own folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from fgrpo_bench.fingerprint import (
    evaluation_identity,
    fingerprint,
    train_identity,
    warmup_identity,
)
from fgrpo_bench.graders import grader_version
from fgrpo_bench.specs import Cell, Declaration, SweepPoint, to_dict
from fgrpo_bench.tasks import check_task

Kind = Literal["warmup", "train", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One command of the sweep and what it computes."""

    name: str
    """Folder relative to the sweep's, e.g. `grpo-n8-g0.5-s11`; unique."""
    kind: Kind
    fingerprint: str
    target: dict[str, Any]
    """Layers on top of the fingerprint; see fgrpo_bench.stage.is_done."""
    spec: dict[str, Any]
    """Content of the stage's spec.json."""
    needs: tuple[str, ...]
    """Names of stages that must be done first."""
    point_id: str
    """The point it serves; `base-s<seed>` for a warm-up."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a declaration asks for."""

    declaration: Declaration
    points: tuple[SweepPoint, ...]
    stages: tuple[Stage, ...]


def make_plan(declaration: Declaration) -> Plan:
    """Points and stages of a declaration; ValueError where it makes no sense to run it."""
    points = expand(declaration)
    check(declaration, points)
    return Plan(declaration=declaration, points=points, stages=tuple(_stages(points)))


def expand(declaration: Declaration) -> tuple[SweepPoint, ...]:
    """The grid's product, then the explicit cells, over all seeds; repeats and exclusions drop."""
    grid, known = declaration.sweep.grid, declaration.algorithms
    cells = [
        Cell(algorithm=algorithm, group_size=group_size, focal_gamma=focal_gamma)
        for algorithm, group_size, focal_gamma in product(
            grid.algorithm, grid.group_size, grid.focal_gamma
        )
    ]
    points: dict[str, SweepPoint] = {}
    for cell, seed in product(dict.fromkeys([*cells, *declaration.sweep.cells]), grid.seed):
        if cell.algorithm not in known:
            raise ValueError(
                f"unknown algorithm {cell.algorithm!r}: valid ones are {', '.join(sorted(known))} "
                "(the files of conf/algorithm/ that conf/config.yaml lists)"
            )
        if _excluded(declaration, cell, seed):
            continue
        point = SweepPoint(
            sweep=declaration.sweep.name,
            experiment=declaration.experiment.name,
            version=declaration.version,
            algorithm=known[cell.algorithm],
            group_size=cell.group_size,
            focal_gamma=cell.focal_gamma,
            seed=seed,
            train=declaration.experiment.train,
            evaluation=declaration.experiment.evaluation,
        )
        points[point.point_id] = point
    return tuple(points.values())


def _excluded(declaration: Declaration, cell: Cell, seed: int) -> bool:
    have = {
        "algorithm": cell.algorithm,
        "group_size": cell.group_size,
        "focal_gamma": cell.focal_gamma,
        "seed": seed,
    }
    return any(
        all(getattr(rule, field) in (None, value) for field, value in have.items())
        for rule in declaration.sweep.exclude
    )


def check(declaration: Declaration, points: tuple[SweepPoint, ...]) -> None:
    """Rules that join several fields; ValueError with value, rule and remedy."""
    train = declaration.experiment.train
    if not points:
        raise ValueError(
            f"sweep {declaration.sweep.name!r} has no points: its grid has an empty axis and no "
            "cells, or everything is excluded; give every axis of sweep.grid a value"
        )
    algorithms = sorted({point.algorithm.name for point in points})
    if len(algorithms) > 1 and train.updates_per_batch == 1:
        raise ValueError(
            f"the grid compares {', '.join(algorithms)} with updates_per_batch=1: with one update "
            "a rollout batch the ratio is 1 and the objectives are the same; set "
            "experiment.train.updates_per_batch to 2 or more (the paper's value is 4)"
        )
    for point in points:
        if train.rollouts_per_step is not None and train.rollouts_per_step % point.group_size:
            raise ValueError(
                f"rollouts_per_step={train.rollouts_per_step} is no multiple of "
                f"group_size={point.group_size}: a step draws whole groups; change one of them"
            )
        if point.prompts_per_step < train.updates_per_batch:
            raise ValueError(
                f"{point.point_id} has {point.prompts_per_step} prompts a step but "
                f"updates_per_batch={train.updates_per_batch}: every update needs a prompt; raise "
                "the budget or lower updates_per_batch"
            )
    check_task(train.task)
    for benchmark in declaration.experiment.evaluation.benchmarks.values():
        grader_version(benchmark.grader)


def _stages(points: tuple[SweepPoint, ...]) -> Iterator[Stage]:
    first_of_seed = {point.seed: point for point in reversed(points)}
    warmups = {seed: _warmup(point) for seed, point in sorted(first_of_seed.items())}
    yield from warmups.values()
    trained = []
    for point in points:
        stage = _train(point, warmups[point.seed])
        trained.append((point, stage))
        yield stage
    for seed, stage in warmups.items():
        yield _evaluate(first_of_seed[seed], stage, step=0)
    for point, stage in trained:
        yield _evaluate(point, stage, step=point.train.steps)


def _warmup(point: SweepPoint) -> Stage:
    identity = warmup_identity(point.train, point.seed)
    mark = fingerprint(identity)
    return Stage(
        name=f"_warmup/s{point.seed}",
        kind="warmup",
        fingerprint=mark,
        target={},
        spec={
            "kind": "warmup",
            "fingerprint": mark,
            "target": {},
            "identity": identity,
            "train": to_dict(point.train),
            "seed": point.seed,
        },
        needs=(),
        point_id=f"base-s{point.seed}",
    )


def _train(point: SweepPoint, warmup: Stage) -> Stage:
    identity = train_identity(point)
    mark = fingerprint(identity)
    return Stage(
        name=point.point_id,
        kind="train",
        fingerprint=mark,
        target={},
        spec={
            "kind": "train",
            "fingerprint": mark,
            "target": {},
            "identity": identity,
            "point": to_dict(point),
            "base": os.path.relpath(warmup.name, point.point_id),
        },
        needs=(warmup.name,),
        point_id=point.point_id,
    )


def _evaluate(point: SweepPoint, source: Stage, *, step: int) -> Stage:
    evaluation = point.evaluation
    sampling = evaluation_identity(evaluation, point.train.task)
    identity = {"sampling": sampling, "source": source.fingerprint, "step": step}
    mark = fingerprint(identity)
    folder = f"{evaluation.name}-{fingerprint(sampling)[:8]}"
    name = f"{source.name}/eval/{folder}/step-{step:05d}"
    target = {
        "n_samples": evaluation.n_samples,
        "ks": list(evaluation.ks),
        "graders": {
            name: grader_version(benchmark.grader)
            for name, benchmark in evaluation.benchmarks.items()
        },
    }
    return Stage(
        name=name,
        kind="evaluate",
        fingerprint=mark,
        target=target,
        spec={
            "kind": "evaluate",
            "fingerprint": mark,
            "target": target,
            "identity": identity,
            "evaluation": to_dict(evaluation),
            "task": to_dict(point.train.task),
            "source": os.path.relpath(source.name, name),
            "step": step,
        },
        needs=(source.name,),
        point_id=source.point_id,
    )


def plan_record(plan: Plan) -> dict[str, Any]:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    evaluated = {stage.point_id: stage for stage in plan.stages if stage.kind == "evaluate"}
    cells: list[dict[str, Any]] = [
        {
            "point_id": f"base-s{seed}",
            "algorithm": None,
            "group_size": None,
            "focal_gamma": None,
            "seed": seed,
            "train": f"_warmup/s{seed}",
        }
        for seed in sorted({point.seed for point in plan.points})
    ]
    cells += [
        {
            "point_id": point.point_id,
            "algorithm": point.algorithm.name,
            "group_size": point.group_size,
            "focal_gamma": point.focal_gamma,
            "seed": point.seed,
            "train": point.point_id,
        }
        for point in plan.points
    ]
    for cell in cells:
        stage = evaluated[cell["point_id"]]
        cell |= {"evaluate": stage.name, "step": stage.spec["step"]}
    return {
        "sweep": declaration.sweep.name,
        "experiment": declaration.experiment.name,
        "version": declaration.version,
        "points": cells,
        "stages": [
            {
                "name": stage.name,
                "kind": stage.kind,
                "point_id": stage.point_id,
                "fingerprint": stage.fingerprint,
                "target": stage.target,
                "needs": list(stage.needs),
            }
            for stage in plan.stages
        ],
    }
