"""What `run` does before it sends a sweep: fetch its files here, where there is a network, and see
that they hold enough."""

from __future__ import annotations

import os
import subprocess
import sys

from fgrpo_bench.files import read_json
from fgrpo_bench.paths import RunPaths, StagePaths
from fgrpo_bench.specs import OpenRLHFTrain
from fgrpo_bench.training.openrlhf.arguments import batches
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
    """ValueError where an epoch of a point has more prompts than its fetched dataset."""
    for point in plan.points:
        train = point.train
        if not isinstance(train, OpenRLHFTrain) or train.dataset is None:
            continue
        stage = StagePaths(paths.folder / dataset_stage_name(train.dataset))
        rows, wanted = read_json(stage.done)["rows"], batches(point).prompts_per_epoch
        if rows < wanted:
            raise ValueError(
                f"an epoch of {point.point_id} has {wanted} prompts (prompts a step x steps / "
                f"epochs), but dataset {train.dataset.name} has {rows}: raise "
                "experiment.train.epochs, or lower steps or the prompts a step; nothing was "
                "submitted"
            )
