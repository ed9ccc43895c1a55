"""Which runs a simulation has, and where their files stand: runs/simulation/categorical/<version>/.

The files are laid out as a sweep's, so that reports, MLflow and `sweeps status` find them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.simulation.settings import RULES, Rule, Run, Settings, identity
from fgrpo_bench.specs.fingerprint import canonical_json, differences, fingerprint
from fgrpo_bench.stages.files import fields_of, now, read_json, write_json, write_many
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.shapes import PLAN, SPEC

SWEEP, EXPERIMENT = "simulation", "categorical"
"""Names in paths, commands and MLflow."""
GROUP_SIZES = tuple(2**power for power in range(1, 18))
GAMMAS = (0.0, 1.0)
SEEDS = (0, 1, 2, 3)
RUN = SPEC | {"identity": {"run": dict, "settings": dict}}
"""The shape of a run's spec.json."""
QUESTION = (
    "What does the group size N do to the mass of right actions that a policy had before training?"
)


def grid(
    rule: Rule | None,
    *,
    group_sizes: Sequence[int] = GROUP_SIZES,
    gammas: Sequence[float] = GAMMAS,
    seeds: Sequence[int] = SEEDS,
) -> tuple[Run, ...]:
    """Every run of a rule. None is Adam's, and the literal rule's at the first gamma and seed,
    which show that it moves nothing."""
    if rule is None:
        literally = grid("literal", group_sizes=group_sizes, gammas=gammas[:1], seeds=seeds[:1])
        own = grid("adam", group_sizes=group_sizes, gammas=gammas, seeds=seeds)
        return (*own, *literally)
    cells = product(dict.fromkeys(group_sizes), dict.fromkeys(gammas), dict.fromkeys(seeds))
    return tuple(
        Run(rule=rule, group_size=size, focal_gamma=gamma, seed=seed) for size, gamma, seed in cells
    )


def run_paths(root: Path, version: str) -> RunPaths:
    """Where a version's files stand; absolute."""
    return RunPaths(root=root.absolute(), sweep=SWEEP, experiment=EXPERIMENT, version=version)


def masses(stage: StagePaths) -> Path:
    """What a run measured (simulation.run.MASSES)."""
    return stage.folder / "masses.parquet"


def freeze(paths: RunPaths, settings: Settings, runs: Iterable[Run]) -> None:
    """Write sweep.json, plan.json and every spec.json that is not there; former runs stay planned.

    ValueError where the folder holds runs of other settings.
    """
    specs = {run.point_id: _spec(settings, run) for run in runs}
    for point_id, spec in specs.items():
        path = paths.point(point_id).spec
        if path.exists() and (found := read_json(path, RUN))["fingerprint"] != spec["fingerprint"]:
            lines = [
                f"  {field}: {old!r} there, {new!r} asked for"
                for field, old, new in differences(found["identity"], spec["identity"])
            ]
            raise ValueError(
                f"{path.parent} is of other settings:\n" + "\n".join(lines) + "\n"
                "keep both with another --version, e.g. --version v2"
            )
    former = planned(paths)
    every = {run.point_id: run for run in (*former, *runs)}
    texts = {
        f"{point_id}/spec.json": canonical_json(spec) + "\n"
        for point_id, spec in specs.items()
        if not paths.point(point_id).spec.exists()
    }
    paths.folder.mkdir(parents=True, exist_ok=True)
    write_many(paths.folder, texts)
    ordered = sorted(every.values(), key=_order)
    if not paths.sweep_json.exists():
        write_json(paths.sweep_json, _declaration(paths, settings))
    plan = _record(paths, settings, ordered)
    if not paths.plan.exists() or read_json(paths.plan) != plan:
        write_json(paths.plan, plan)


def planned(paths: RunPaths) -> list[Run]:
    """The runs of plan.json in order; none where there is no plan."""
    if not paths.plan.exists():
        return []
    names = [point["point_id"] for point in read_json(paths.plan, PLAN)["points"]]
    return [_run(paths.point(name).spec) for name in names]


def _run(spec: Path) -> Run:
    identity = read_json(spec, RUN)["identity"]
    with fields_of(spec):
        return Run(**identity["run"])


def planned_settings(paths: RunPaths) -> Settings:
    """What all runs of a folder share."""
    spec = paths.point(read_json(paths.plan, PLAN)["points"][0]["point_id"]).spec
    identity = read_json(spec, RUN)["identity"]
    with fields_of(spec):
        return Settings(**identity["settings"])


def cost(settings: Settings, run: Run) -> float:
    """Processor seconds of a run, measured once on a common server processor; sets the order."""
    dense = 1e-3 if run.rule == "literal" else 1e-4
    return settings.steps * (dense + 4e-8 * run.group_size)


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _order(run: Run) -> tuple[int, int, float, int]:
    return RULES.index(run.rule), run.group_size, run.focal_gamma, run.seed


def _spec(settings: Settings, run: Run) -> dict[str, Any]:
    defined = identity(settings, run)
    mark = fingerprint(defined)
    return {"kind": "simulate", "fingerprint": mark, "target": {}, "identity": defined}


def _record(paths: RunPaths, settings: Settings, runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "points": [
            {
                "point_id": run.point_id,
                "algorithm": run.rule,
                "group_size": run.group_size,
                "focal_gamma": run.focal_gamma,
                "seed": run.seed,
                "train": run.point_id,
                "evaluate": run.point_id,
                "step": settings.steps,
            }
            for run in runs
        ],
        "stages": [
            {
                "name": run.point_id,
                "kind": "simulate",
                "point_id": run.point_id,
                "environment": "base",
                "fingerprint": _mark(paths.point(run.point_id)),
                "target": {},
                "needs": [],
            }
            for run in runs
        ],
    }


def _mark(paths: StagePaths) -> str:
    return str(read_json(paths.spec, RUN)["fingerprint"])


def _declaration(paths: RunPaths, settings: Settings) -> dict[str, Any]:
    """As a sweep's: nothing is evaluated beside the training."""
    model = {"name": f"categorical policy over {settings.n_actions:,} actions"}
    return {
        "declaration": {
            "sweep": {"name": paths.sweep, "question": QUESTION},
            "experiment": {
                "name": paths.experiment,
                "train": {"model": model, **asdict(settings)},
                "evaluation": {"benchmarks": {}, "ks": []},
            },
            "profile": {"dispatcher": "local"},
            "version": paths.version,
        },
        "created": now(),
        "versions": {
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "fgrpo-bench": __version__,
        },
    }
