"""What `run` does before it sends a sweep: fetch its files here, where there is a network, and see
that they hold enough. They are fetched by the pool, as all of a sweep is on one machine."""

from __future__ import annotations

import sys
from pathlib import Path

from fgrpo_bench import engines
from fgrpo_bench.kinds import KINDS, Environment
from fgrpo_bench.kinds.kind import dataset_name
from fgrpo_bench.specs import DatasetSpec, Profile
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.commands import StageCommand
from sweeps.local.drive import pooled
from sweeps.plan import Plan

AT_ONCE = 4
"""Most files that are fetched at once: they share one line, and one machine that many use."""


def fetch_files(plan: Plan, paths: RunPaths, command: StageCommand) -> int:
    """Run the stages that fetch, as the sweep's driver, who holds its lock; exit code 0, or 128 +
    signal where it was stopped.

    Raises OSError where one fails, ValueError where a dataset is too small for what the points ask
    of it.
    """

    def here(kind: str, folder: Path, profile: Profile, environment: Environment) -> list[str]:
        return [sys.executable, *command(kind, folder, profile, environment)[1:]]

    stages = [stage for stage in plan.stages if KINDS[stage.kind].fetches]
    exit_code = pooled(plan, paths, stages, command=here, workers=AT_ONCE) if stages else 0
    if exit_code == 1:
        lacks = next(s.name for s in stages if not StagePaths(paths.folder / s.name).done.exists())
        raise OSError(f"{lacks} was not fetched, so nothing was submitted; its reason stands above")
    if exit_code == 0:
        check_sizes(plan, paths)
    return exit_code


def check_sizes(plan: Plan, paths: RunPaths) -> None:
    """ValueError where a fetched dataset has fewer problems than an epoch of a point, or than its
    evaluation during training."""
    for point in plan.points:
        try:
            engines.of(point.train).check_sizes(point, lambda dataset: _rows(paths, dataset))
        except ValueError as error:
            raise ValueError(f"{error}; nothing was submitted") from None


def _rows(paths: RunPaths, dataset: DatasetSpec) -> int:
    rows: int = read_json(StagePaths(paths.folder / dataset_name(dataset)).done)["rows"]
    return rows
