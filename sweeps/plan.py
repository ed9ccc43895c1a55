"""From a declaration to points and stages: pure functions, nothing is read, started or written.

A plan is a list of points (training runs) and a list of stages in an order that respects their
needs. What each stage computes is frozen in its `spec`, which the stage reads from its own folder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fgrpo_bench.kinds import KINDS, Planned, Stage
from fgrpo_bench.kinds.kind import base_name
from fgrpo_bench.specs import Declaration, SweepPoint
from fgrpo_bench.specs.cell import Cell, to_columns
from fgrpo_bench.stages.plan import (
    FORMAT,
    CheckpointRecord,
    PlanRecord,
    PointRecord,
    StageRecord,
)
from sweeps.points import check, expand, family

if TYPE_CHECKING:
    from fgrpo_bench.analysis.question import Family


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a declaration asks for."""

    declaration: Declaration
    points: tuple[SweepPoint, ...]
    stages: tuple[Stage, ...]
    warnings: tuple[str, ...]
    """What may not work out, for a person; each names value, rule and remedy."""
    family: Family
    """The comparisons that are its question."""


def make_plan(declaration: Declaration) -> Plan:
    """Points and stages of a declaration; ValueError where it makes no sense to run it."""
    points = expand(declaration)
    warnings = check(declaration, points)
    planned = Planned(declaration=declaration, points=points)
    for kind in KINDS.values():
        for stage in kind.stages(planned):
            planned.stages[stage.name] = stage
    return Plan(
        declaration=declaration,
        points=points,
        stages=tuple(_with_plugins(declaration, each) for each in planned.stages.values()),
        warnings=tuple(dict.fromkeys(warnings)),
        family=family(declaration, points),
    )


def _with_plugins(declaration: Declaration, stage: Stage) -> Stage:
    """A stage that loads the declaration's plug-ins wherever it runs."""
    if not declaration.plugins:
        return stage
    return replace(stage, spec=replace(stage.spec, plugins=tuple(declaration.plugins)))


def plan_record(plan: Plan) -> PlanRecord:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    looks: dict[str, dict[int, dict[str, Any]]] = {}
    for stage in plan.stages:
        if stage.source is not None and stage.step is not None and KINDS[stage.kind].in_report:
            looks.setdefault(stage.source, {}).setdefault(stage.step, {})[stage.kind] = stage.name
    planned = Planned(declaration=declaration, points=plan.points)

    def point_record(point_id: str, cell: Cell | None, seed: int, train: str) -> PointRecord:
        steps = sorted(looks[train].items())
        return PointRecord(
            point_id=point_id,
            **to_columns(cell),
            seed=seed,
            train=train,
            checkpoints=tuple(CheckpointRecord(step=step, **by_kind) for step, by_kind in steps),
        )

    base_models = [
        point_record(f"base-s{point.seed}", None, point.seed, base_name(point))
        for point in planned.by_seed
    ]
    trained = [
        point_record(point.point_id, point.cell, point.seed, point.point_id)
        for point in plan.points
    ]
    return PlanRecord(
        format=FORMAT,
        sweep=declaration.sweep.name,
        experiment=declaration.experiment.name,
        version=declaration.version,
        points=(*base_models, *trained),
        stages=tuple(map(stage_record, plan.stages)),
    )


def stage_record(stage: Stage) -> StageRecord:
    """A stage as plan.json has it."""
    return StageRecord(
        name=stage.name,
        kind=stage.kind,
        point_id=stage.point_id,
        environment=stage.environment,
        fingerprint=stage.fingerprint,
        target=stage.target,
        needs=stage.needs,
    )
