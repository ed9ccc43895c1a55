"""A real sweep of four stages, made by the stages' own programs within this process."""

from __future__ import annotations

import signal
from pathlib import Path

from evaluators.__main__ import main as evaluators
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.engines.embedded.__main__ import main as training
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.report.build import write_report
from fgrpo_bench.stages.plan import PlanRecord
from sweeps.freeze import freeze
from sweeps.local import drive
from sweeps.plan import Plan
from tests.support.plans import planned
from tests.support.stages import TINY

ONE_POINT = ["sweep.grid.group_size=[4]", "sweep.grid.focal_gamma=[0]", "sweep.grid.seed=[11]"]


def tiny_plan(root: Path, *overrides: str) -> tuple[Plan, RunPaths]:
    """A base model, a trained one, and their evaluations."""
    paths, plan = planned(root, "smoke", *TINY, *ONE_POINT, *overrides)
    return plan, paths


def run_stages(plan: Plan | PlanRecord, paths: RunPaths) -> dict[str, int]:
    """Run every stage in turn as a worker would; exit codes by name."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    codes = {}
    try:
        for stage in plan.stages:
            folder = str(StagePaths(paths.folder / stage.name).folder)
            is_training = stage.kind in ("warmup", "train")
            codes[stage.name] = training([folder]) if is_training else evaluators(["run", folder])
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    return codes


def tiny_run(root: Path, *overrides: str) -> RunPaths:
    """The sweep finished and reported, as `fgrpo-bench sweep run` leaves it."""
    plan, paths = tiny_plan(root, *overrides)
    freeze(paths, plan, nothing_to_run=False)
    assert set(run_stages(plan, paths).values()) == {0}
    assert drive.run(plan.declaration, finish=_report) == 0
    return paths


def _report(paths: RunPaths, _: object) -> None:
    write_report(load_results(paths))
