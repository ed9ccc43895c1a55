"""A real small sweep on a real SLURM: whole, with faults, and with drivers that die."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench import config
from fgrpo_bench.files import read_json
from fgrpo_bench.paths import RunPaths, StagePaths
from sweeps.freeze import run_paths
from sweeps.slurm import drive, tick
from sweeps.slurm.judge import Decision
from sweeps.slurm.notes import attempts
from tests.slurm.cluster import Cluster
from tests.support.stages import TINY

SLURM = ["profile=slurm", "profile.partition=gpu", "profile.mem_gb=0.5", "profile.time_minutes=5"]


@pytest.fixture(autouse=True)
def controller(cluster: Cluster) -> Cluster:
    return cluster


def sweep(root: Path, *overrides: str) -> RunPaths:
    """Submit the shipped `smoke` sweep, made small."""
    declaration = config.load("smoke", [f"run_root='{root}'", *TINY, *SLURM, *overrides])
    assert drive.run(declaration) == 0
    return run_paths(declaration)


def until(paths: RunPaths, ended: Callable[[Decision], bool], *, patience: float = 120) -> Decision:
    """Tick until a condition holds."""
    deadline = time.monotonic() + patience
    while True:
        decision = tick.tick(paths, say=print)
        if ended(decision):
            return decision
        assert time.monotonic() < deadline, decision.standings
        time.sleep(0.5)


def all_done(decision: Decision) -> bool:
    return {each.state for each in decision.standings.values()} == {"done"}


def began(paths: RunPaths) -> dict[str, list[str]]:
    """Outcomes of the attempts of every stage."""
    return {
        stage["name"]: [
            note.get("outcome", "") for note in attempts(StagePaths(paths.folder / stage["name"]))
        ]
        for stage in read_json(paths.plan)["stages"]
    }


def test_a_sweep_runs_to_its_report_with_no_driver(tmp_path: Path) -> None:
    paths = sweep(tmp_path)
    deadline = time.monotonic() + 120
    while not (paths.report / "report.md").exists():
        assert time.monotonic() < deadline, began(paths)
        time.sleep(0.5)
    decision = tick.tick(paths, say=print)
    assert all_done(decision)
    assert set(map(tuple, began(paths).values())) == {("done",)}
