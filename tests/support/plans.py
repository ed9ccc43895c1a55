"""Shipped sweeps, each composed once a process, and their plans under a run root of the test's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Declaration, config
from sweeps.freeze import check_conflicts, freeze, run_paths
from sweeps.plan import Plan, make_plan


@cache
def loaded(sweep: str, *overrides: str) -> Declaration:
    """A shipped sweep under the run root `runs`."""
    return config.load(sweep, ["run_root=runs", *overrides])


def planned(root: Path, sweep: str = "smoke", *overrides: str) -> tuple[RunPaths, Plan]:
    """Where a sweep would stand, and its plan; nothing is written."""
    plan = make_plan(replace(loaded(sweep, *overrides), run_root=str(root)))
    return run_paths(plan.declaration), plan


def frozen(root: Path, *overrides: str, sweep: str = "smoke") -> tuple[RunPaths, Plan]:
    """A sweep as `run` writes it before anything starts."""
    paths, plan = planned(root, sweep, *overrides)
    check_conflicts(paths, plan)
    freeze(paths, plan, nothing_to_run=False)
    return paths, plan
