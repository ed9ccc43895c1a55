"""From a declaration to points and stages: pure functions, nothing is read, started or written.

A plan is a list of points (training runs) and a list of stages in an order that respects their
needs. What each stage computes is frozen in its `spec`, which the stage reads from its own folder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fgrpo_bench.kinds import KINDS, Planned, Stage
from fgrpo_bench.specs import Declaration, SweepPoint
from fgrpo_bench.specs.cell import to_stored
from fgrpo_bench.stages.plan import FORMAT
from sweeps.points import check, expand, family

if TYPE_CHECKING:
    from fgrpo_bench.analysis.question import Family

RECORDED = ("name", "kind", "point_id", "environment", "fingerprint", "target")
"""Fields of a stage that plan.json has, beside its needs."""


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
    return replace(stage, spec=stage.spec | {"plugins": list(declaration.plugins)})


def plan_record(plan: Plan) -> dict[str, Any]:
    """The content of plan.json: what a reader needs to find every result without the YAML."""
    declaration = plan.declaration
    looks: dict[str, dict[int, dict[str, Any]]] = {}
    for stage in plan.stages:
        if stage.source is not None and stage.step is not None and KINDS[stage.kind].in_report:
            at = looks.setdefault(stage.source, {}).setdefault(stage.step, {"step": stage.step})
            at[stage.kind] = stage.name
    planned = Planned(declaration=declaration, points=plan.points)
    planned.stages.update((stage.name, stage) for stage in plan.stages)
    points: list[dict[str, Any]] = [
        {"point_id": f"base-s{point.seed}", **to_stored(None)}
        | {"seed": point.seed, "train": planned.base(point).name}
        for point in planned.by_seed
    ]
    points += [
        {"point_id": point.point_id, **to_stored(point.cell)}
        | {"seed": point.seed, "train": point.point_id}
        for point in plan.points
    ]
    for point in points:
        point["checkpoints"] = [at for _, at in sorted(looks[point["train"]].items())]
    return {
        "format": FORMAT,
        "sweep": declaration.sweep.name,
        "experiment": declaration.experiment.name,
        "version": declaration.version,
        "points": points,
        "stages": [
            {key: getattr(stage, key) for key in RECORDED} | {"needs": list(stage.needs)}
            for stage in plan.stages
        ],
    }
