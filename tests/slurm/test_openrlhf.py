"""Real OpenRLHF on a real SLURM: into its evaluation, over two nodes, and when one of them fails.

The stages run in the environment of `make setup-openrlhf-cpu`; without it these tests fail and say
so.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from fgrpo_bench import config
from fgrpo_bench.files import read_json
from fgrpo_bench.paths import RunPaths
from sweeps.freeze import run_paths
from sweeps.slurm import drive, tick
from sweeps.slurm.notes import attempts
from tests.slurm.cluster import Cluster
from tests.slurm.processes import kill, wait_until
from tests.slurm.running import check_begun_once, logs, until
from tests.support.ticking import all_done

pytestmark = [pytest.mark.openrlhf, pytest.mark.usefixtures("cluster")]

SMALL = [
    "profile=slurm",
    "profile.partition=gpu",
    "profile.mem_gb=12",
    "profile.time_minutes=10",
    "sweep.grid.algorithm=[grpo]",
    "sweep.grid.focal_gamma=[0.5]",
    "experiment.train.warmup.steps=40",
    "experiment.train.steps=2",
    "experiment.train.eval_every=0",
]
POINT = "grpo-n4-g0.5-s11"


def start(root: Path, *overrides: str) -> RunPaths:
    """Submit the sweep `rehearsal` of one point."""
    declaration = config.load("rehearsal", [f"run_root='{root}'", *SMALL, *overrides])
    assert drive.run(declaration) == 0
    return run_paths(declaration)


def test_two_points_go_from_training_into_their_evaluations_with_no_driver(
    tmp_path: Path, cluster: Cluster
) -> None:
    paths = start(tmp_path, "sweep.grid.focal_gamma=[0.0,0.5]")
    wait_until(lambda: not cluster.squeue(), what="the last job's end", within_s=300)
    assert all_done(tick.tick(paths, say=print)), "\n".join(logs(paths.point(POINT)))
    check_begun_once(paths)
    sent = [file.read_text() for file in paths.folder.glob("slurm/*evaluate*/*_submission.sh")]
    assert any("--dependency=aftercorr:" in text for text in sent)
    assert (paths.report / "report.md").exists()
    assert read_json(paths.point(POINT).done)["engine"]["engine"] == "openrlhf"
