"""What `run` does before it sends a sweep: fetch its files here, where there is a network, and see
that they hold enough."""

from __future__ import annotations

import os
import subprocess
import sys

from fgrpo_bench import engines
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.commands import REPOSITORY, StageCommand, stage_environment
from sweeps.plan import Plan
from sweeps.slurm.arrays import FETCH
from sweeps.stages import dataset_stage_name


def fetch_files(plan: Plan, paths: RunPaths, command: StageCommand) -> None:
    """Run the stages that fetch; OSError where one fails, ValueError where a dataset is too
    small for the epochs of a point."""
    profile = plan.declaration.profile
    for stage in plan.stages:
        if stage.kind != FETCH:
            continue
        folder = paths.folder / stage.name
        asked = command(stage.kind, folder, profile, stage.environment)
        environment = stage_environment(profile, paths, os.environ)
        done = subprocess.run([sys.executable, *asked[1:]], cwd=REPOSITORY, env=environment)
        if done.returncode:
            raise OSError(
                f"{stage.name} was not fetched, so nothing was submitted; its reason stands above"
            )
    check_sizes(plan, paths)


def check_sizes(plan: Plan, paths: RunPaths) -> None:
    """ValueError where a fetched dataset has fewer problems than an epoch of a point, or than its
    evaluation during training."""
    for point in plan.points:
        try:
            engines.of(point.train).check_sizes(point, lambda dataset: _rows(paths, dataset))
        except ValueError as error:
            raise ValueError(f"{error}; nothing was submitted") from None


def _rows(paths: RunPaths, dataset: DatasetSpec) -> int:
    rows: int = read_json(StagePaths(paths.folder / dataset_stage_name(dataset)).done)["rows"]
    return rows
