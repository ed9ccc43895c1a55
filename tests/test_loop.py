"""The whole loop with the real engine, through the command a user types."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from sweeps import REPOSITORY
from tests.support.faults import check_attempts, contents, run_with_kills
from tests.support.stages import TINY

DEAD_SERVER = "http://127.0.0.1:9"
RESULTS = (
    "**/checkpoints/*/model.safetensors",
    "**/draws.parquet",
    "**/grades.*.parquet",
    "**/passk.parquet",
    "report/results.csv",
    "report/report.tex",
)


def start(root: Path, log: Path) -> subprocess.Popen[bytes]:
    """`fgrpo-bench sweep run smoke` with few steps, and a tracking server that is down."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "sweeps", "run", "smoke", f"run_root='{root}'", *TINY],
            cwd=REPOSITORY,
            env=os.environ | {"OMP_NUM_THREADS": "1", "MLFLOW_TRACKING_URI": DEAD_SERVER},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def paths(root: Path) -> RunPaths:
    return RunPaths(root=root, sweep="smoke", experiment="countdown-tiny", version="v1")


@pytest.mark.slow
@pytest.mark.rare
def test_ten_kills_of_drivers_and_workers_end_with_the_same_bytes(tmp_path):
    calm, hurt = tmp_path / "calm", tmp_path / "hurt"
    assert start(calm, tmp_path / "calm.log").wait(timeout=120) == 0
    log = (tmp_path / "calm.log").read_text()
    assert "countdown: pass@k in percent with 95% intervals" in log
    assert "warning: MLflow was not synced" in log and DEAD_SERVER in log and "syncs again" in log

    killed = run_with_kills(
        lambda: start(hurt, tmp_path / "hurt.log"),
        paths(hurt),
        kills=10,
        pause=(0.0, 1.5),
        rng=random.Random(3),
        patience=180,
    )
    assert len(killed) == 10 and set(killed) == {"driver", "worker"}
    check_attempts(paths(hurt))
    want = contents(paths(calm), *RESULTS)
    assert len(want) > 15
    assert contents(paths(hurt), *RESULTS) == want
    made = [read_json(path)["draws_made"] for path in sorted(hurt.rglob("eval/**/DONE.json"))]
    assert len(made) == 3
