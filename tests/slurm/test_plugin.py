"""A sweep whose task and grader another package brings, run by jobs from the frozen code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from sweeps import REPOSITORY
from tests.plugin.overrides import MODULE, PARITY
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import SLURM

FEW = ["steps=4", "save_every=2", "eval_every=0", "warmup.steps=4"]


@pytest.mark.slow
def test_jobs_load_the_plugin_from_the_frozen_code(tmp_path: Path, cluster: Cluster) -> None:
    few = [f"experiment.train.{each}" for each in FEW]
    chosen = [f"plugins=[{MODULE}]", f"run_root='{tmp_path}'", *PARITY, *few, *SLURM]
    run = [sys.executable, "-m", "sweeps", "run", "smoke", *chosen]
    subprocess.run(run, cwd=REPOSITORY, check=True)
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="countdown-tiny", version="v1")
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
    (code,) = (path for path in paths.code.iterdir() if path.is_dir())
    assert (code / MODULE.replace(".", "/") / "__init__.py").exists()
    for stage in read_json(paths.plan)["stages"]:
        marker = read_json(StagePaths(paths.folder / stage["name"]).done)
        assert marker["plugins"] == {MODULE: "0.3"}
    assert (paths.report / "results.csv").exists()
