"""What `run` does before it sends a sweep: fetch its files here, where there is a network, and see
that they hold enough."""

from __future__ import annotations

import os
import subprocess
import sys

from fgrpo_bench.engines.openrlhf.arguments import batches
from fgrpo_bench.kinds import KINDS
from fgrpo_bench.kinds.kind import dataset_name
from fgrpo_bench.specs import DatasetSpec, OpenRLHFTrain
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.commands import REPOSITORY, StageCommand, stage_environment
from sweeps.plan import Plan


def fetch_files(plan: Plan, paths: RunPaths, command: StageCommand) -> None:
    """Run the stages that fetch; OSError where one fails, ValueError where a dataset is too
    small for the epochs of a point."""
    profile = plan.declaration.profile
    for stage in plan.stages:
        if not KINDS[stage.kind].fetches:
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
        train = point.train
        if not isinstance(train, OpenRLHFTrain) or train.dataset is None:
            continue
        rows, wanted = _rows(paths, train.dataset), batches(point).prompts_per_epoch
        if rows < wanted:
            raise ValueError(
                f"an epoch of {point.point_id} has {wanted} prompts (prompts a step x steps / "
                f"epochs), but dataset {train.dataset.name} has {rows}: raise "
                "experiment.train.epochs, or lower steps or the prompts a step; nothing was "
                "submitted"
            )
        if train.eval_dataset is None or not train.eval_every:
            continue
        rows = _rows(paths, train.eval_dataset)
        if rows < train.eval_n_problems:
            raise ValueError(
                f"eval_n_problems={train.eval_n_problems}, but eval_dataset "
                f"{train.eval_dataset.name} has {rows}: ask for fewer; nothing was submitted"
            )


def _rows(paths: RunPaths, dataset: DatasetSpec) -> int:
    rows: int = read_json(StagePaths(paths.folder / dataset_name(dataset)).done)["rows"]
    return rows
