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
    dataset_identity,
    evaluation_identity,
    fingerprint,
    model_identity,
    train_identity,
    warmup_identity,
)
from fgrpo_bench.graders import grader_version
from fgrpo_bench.specs import (
    Cell,
    DatasetSpec,
    Declaration,
    OpenRLHFTrain,
    PretrainedSpec,
    SlurmProfile,
    SweepPoint,
    to_dict,
)
from fgrpo_bench.tasks import check_task
from fgrpo_bench.training.openrlhf import fit

Kind = Literal["fetch", "warmup", "train", "evaluate"]
Environment = Literal["base", "openrlhf"]


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
    """The point it serves; `base-s<seed>` for a warm-up, its own name for what serves all."""
    environment: Environment
    """Which installation runs it."""


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
    return Plan(
        declaration=declaration,
        points=points,
        stages=tuple(_stages(points)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


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


def check(declaration: Declaration, points: tuple[SweepPoint, ...]) -> list[str]:
    """Rules that join several fields; ValueError with value, rule and remedy. Returns warnings."""
    train = declaration.experiment.train
    warnings: list[str] = []
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
    if train.task is not None:
        check_task(train.task)
    if declaration.experiment.evaluation.sampler == "embedded" and train.model is None:
        raise ValueError(
            "evaluation.sampler=embedded with a published model: the embedded engine samples from "
            "its own checkpoints only; set experiment.evaluation.sampler=vllm"
        )
    for point in points:
        controls = (point.algorithm.entropy_coef, point.algorithm.kl_coef)
        if train.engine == "embedded" and any(controls):
            raise ValueError(
                f"{point.point_id} has an entropy bonus or a KL penalty, which the embedded engine "
                "does not have: exclude that algorithm, or choose an experiment of engine openrlhf"
            )
        if train.engine == "openrlhf":
            profile = declaration.profile
            cluster = profile if isinstance(profile, SlurmProfile) else None
            warnings += fit.check(point, cluster, profile.openrlhf)
    for name, benchmark in declaration.experiment.evaluation.benchmarks.items():
        grader_version(benchmark.grader)
        if benchmark.dataset is None and train.task is None:
            raise ValueError(
                f"benchmark {name} has no dataset and the experiment has no task whose held-out "
                f"problems it could take: set experiment.evaluation.benchmarks.{name}.dataset"
            )
    return warnings


def _stages(points: tuple[SweepPoint, ...]) -> Iterator[Stage]:
    datasets = _datasets(points[0])
    yield from datasets.values()
    first_of_seed = {point.seed: point for point in sorted(points, key=_seed)[::-1]}
    bases = {seed: base_stage(point) for seed, point in sorted(first_of_seed.items())}
    yield from {stage.name: stage for stage in bases.values()}.values()
    trained = []
    for point in points:
        stage = _train(point, bases[point.seed], datasets)
        trained.append((point, stage))
        yield stage
    evaluated = {
        base.name: _evaluate(first_of_seed[seed], base, datasets, step=0)
        for seed, base in bases.items()
    }
    yield from evaluated.values()
    for point, stage in trained:
        yield _evaluate(point, stage, datasets, step=point.train.steps)


def _seed(point: SweepPoint) -> int:
    return point.seed


def _datasets(point: SweepPoint) -> dict[str, Stage]:
    """The stages that fetch the datasets of training and evaluation, by the dataset's name."""
    wanted: list[DatasetSpec] = [
        benchmark.dataset
        for benchmark in point.evaluation.benchmarks.values()
        if benchmark.dataset is not None
    ]
    if isinstance(point.train, OpenRLHFTrain) and point.train.dataset is not None:
        wanted.insert(0, point.train.dataset)
    stages: dict[str, Stage] = {}
    for dataset in wanted:
        stage = fetch_stage(f"_data/{dataset.name}", dataset=dataset)
        former = stages.setdefault(dataset.name, stage)
        if former.fingerprint != stage.fingerprint:
            raise ValueError(
                f"two datasets are named {dataset.name!r} and differ: give each a name of its own"
            )
    return stages


def base_stage(point: SweepPoint) -> Stage:
    """What makes the base model of a point: a warm-up on its task, or a published model."""
    train = point.train
    if isinstance(train, OpenRLHFTrain) and train.pretrained is not None:
        return fetch_stage(
            f"_base/{train.pretrained.name}",
            model=train.pretrained,
            chat_template=train.prompt.chat_template,
        )
    assert train.task is not None and train.model is not None and train.warmup is not None
    identity = warmup_identity(
        train, task=train.task, model=train.model, warmup=train.warmup, seed=point.seed
    )
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
        },
        needs=(),
        point_id=f"base-s{point.seed}",
        environment="base",
    )


def fetch_stage(
    name: str,
    *,
    dataset: DatasetSpec | None = None,
    model: PretrainedSpec | None = None,
    chat_template: bool = False,
) -> Stage:
    """What fetches a dataset or a published model, whichever is given.

    chat_template: whether the model must have one.
    """
    what: dict[str, Any]
    if dataset is not None:
        identity, what = dataset_identity(dataset), {"dataset": to_dict(dataset)}
    else:
        assert model is not None
        identity = model_identity(model)
        what = {"model": to_dict(model), "chat_template": chat_template}
    mark = fingerprint(identity)
    return Stage(
        name=name,
        kind="fetch",
        fingerprint=mark,
        target={},
        spec={"kind": "fetch", "fingerprint": mark, "target": {}, "identity": identity} | what,
        needs=(),
        point_id=name,
        environment="base",
    )


def _train(point: SweepPoint, base: Stage, datasets: dict[str, Stage]) -> Stage:
    identity = train_identity(point)
    mark = fingerprint(identity)
    spec: dict[str, Any] = {
        "kind": "train",
        "fingerprint": mark,
        "target": {},
        "identity": identity,
        "point": to_dict(point),
        "base": os.path.relpath(base.name, point.point_id),
    }
    needs = [base.name]
    if isinstance(point.train, OpenRLHFTrain) and point.train.dataset is not None:
        data = datasets[point.train.dataset.name]
        spec["data"] = os.path.relpath(data.name, point.point_id)
        needs.append(data.name)
    return Stage(
        name=point.point_id,
        kind="train",
        fingerprint=mark,
        target={},
        spec=spec,
        needs=tuple(needs),
        point_id=point.point_id,
        environment="openrlhf" if point.train.engine == "openrlhf" else "base",
    )


def _evaluate(point: SweepPoint, source: Stage, datasets: dict[str, Stage], *, step: int) -> Stage:
    evaluation = point.evaluation
    sampling = evaluation_identity(evaluation, point.train)
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
    data = {
        key: datasets[benchmark.dataset.name].name
        for key, benchmark in evaluation.benchmarks.items()
        if benchmark.dataset is not None
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
            "data": {key: os.path.relpath(of, name) for key, of in data.items()},
            "source": os.path.relpath(source.name, name),
            "step": step,
        },
        needs=(source.name, *dict.fromkeys(data.values())),
        point_id=source.point_id,
        environment="openrlhf" if evaluation.sampler == "vllm" else "base",
    )


def plan_record(plan: Plan) -> dict[str, Any]:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    evaluated = {stage.needs[0]: stage for stage in plan.stages if stage.kind == "evaluate"}
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
        stage = evaluated[cell["train"]]
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
                "environment": stage.environment,
                "fingerprint": stage.fingerprint,
                "target": stage.target,
                "needs": list(stage.needs),
            }
            for stage in plan.stages
        ],
    }
