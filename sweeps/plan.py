"""From a declaration to points and stages: pure functions, nothing is read, started or written.

A plan is a list of points (training runs) and a list of stages in an order that respects their
needs. What each stage computes is frozen in its `spec`, which the stage reads from its own folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.specs import DatasetSpec, Declaration, SweepPoint
from sweeps.points import check, expand
from sweeps.rare import rare_stages
from sweeps.stages import (
    Checkpoints,
    Stage,
    base_stage,
    checkpoint_steps,
    dataset_stage_name,
    evaluation_stage,
    fetch_stage,
    train_stage,
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a declaration asks for."""

    declaration: Declaration
    points: tuple[SweepPoint, ...]
    stages: tuple[Stage, ...]
    warnings: tuple[str, ...]
    """What may not work out, for a person; each names value, rule and remedy."""


def make_plan(declaration: Declaration) -> Plan:
    """Points and stages of a declaration; ValueError where it makes no sense to run it."""
    points = expand(declaration)
    warnings = check(declaration, points)
    experiment = declaration.experiment
    stages = tuple(_stages(points, experiment.checkpoints))
    trained = {stage.point_id: stage for stage in stages if stage.kind == "train"}
    further = rare_stages(points, trained, experiment.rare, experiment.checkpoints)
    return Plan(
        declaration=declaration,
        points=points,
        stages=tuple(_with_plugins(declaration, each) for each in (*stages, *further)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _with_plugins(declaration: Declaration, stage: Stage) -> Stage:
    """A stage that loads the declaration's plug-ins wherever it runs."""
    if not declaration.plugins:
        return stage
    return replace(stage, spec=stage.spec | {"plugins": list(declaration.plugins)})


def _stages(points: tuple[SweepPoint, ...], checkpoints: Checkpoints) -> Iterator[Stage]:
    """Every stage of some points, each after what it needs; last checkpoints are judged first.

    checkpoints: ExperimentSpec.checkpoints.
    """
    datasets = _datasets(points[0])
    yield from datasets.values()
    first_of_seed = {point.seed: point for point in sorted(points, key=_seed)[::-1]}
    bases = {seed: base_stage(point) for seed, point in sorted(first_of_seed.items())}
    yield from {stage.name: stage for stage in bases.values()}.values()
    trained = []
    for point in points:
        stage = train_stage(point, bases[point.seed], datasets)
        trained.append((point, stage))
        yield stage
    evaluated = {
        base.name: evaluation_stage(first_of_seed[seed], base, datasets, step=0)
        for seed, base in bases.items()
    }
    yield from evaluated.values()
    for step in checkpoint_steps(points[0].train, checkpoints)[::-1]:
        for point, stage in trained:
            yield evaluation_stage(point, stage, datasets, step=step)


def _seed(point: SweepPoint) -> int:
    return point.seed


def _datasets(point: SweepPoint) -> dict[str, Stage]:
    """The stages that fetch the datasets of training and evaluation, by the dataset's name."""
    wanted: list[DatasetSpec] = [
        benchmark.dataset
        for benchmark in point.evaluation.benchmarks.values()
        if benchmark.dataset is not None
    ]
    inputs = engines.of(point.train).inputs(point.train)
    wanted[:0] = [each for each in (inputs.dataset, inputs.eval_dataset) if each is not None]
    stages: dict[str, Stage] = {}
    for dataset in wanted:
        stage = fetch_stage(dataset_stage_name(dataset), dataset=dataset)
        former = stages.setdefault(dataset.name, stage)
        if former.fingerprint != stage.fingerprint:
            raise ValueError(
                f"two datasets are named {dataset.name!r} and differ: give each a name of its own"
            )
    return stages


def _step(stage: Stage) -> int:
    step: int = stage.spec.get("step", 0)
    return step


def plan_record(plan: Plan) -> dict[str, Any]:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    evaluated: dict[str, list[Stage]] = {}
    for stage in sorted(plan.stages, key=_step):
        if stage.kind == "evaluate":
            evaluated.setdefault(stage.needs[0], []).append(stage)
    scored = {
        (stage.needs[0], stage.spec["step"]): {"likelihood": stage.name}
        for stage in plan.stages
        if stage.kind == "likelihood"
    }
    bases = {point.seed: base_stage(point).name for point in plan.points}
    cells: list[dict[str, Any]] = [
        {
            "point_id": f"base-s{seed}",
            "algorithm": None,
            "group_size": None,
            "focal_gamma": None,
            "seed": seed,
            "train": base,
        }
        for seed, base in sorted(bases.items())
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
        cell["checkpoints"] = [
            {"step": stage.spec["step"], "evaluate": stage.name}
            | scored.get((cell["train"], stage.spec["step"]), {})
            for stage in evaluated[cell["train"]]
        ]
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
                "environment": stage.environment,
                "fingerprint": stage.fingerprint,
                "target": stage.target,
                "needs": list(stage.needs),
            }
            for stage in plan.stages
        ],
    }
