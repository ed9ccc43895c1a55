"""The session's private SLURM cluster. Where SLURM is missing its tests fail, never skip."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from sweeps import REPOSITORY
from sweeps.freeze import run_paths
from tests.slurm.cluster import Cluster
from tests.slurm.running import LONG, RESULTS, STEPS
from tests.support.fake_sweep import fake_sweep
from tests.support.faults import contents

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slurm")


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[Cluster]:
    with Cluster() as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture
def cluster(session_cluster: Cluster) -> Iterator[Cluster]:
    """The session's cluster: idle at the start of each test, brought back to that at its end."""
    yield session_cluster
    session_cluster.reset()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of the RESULTS of a sweep as LONG has it that nothing befell, run without SLURM."""
    root = tmp_path_factory.mktemp("undisturbed")
    overrides = [f"run_root='{root}'", *LONG]
    command = [sys.executable, "-m", "sweeps", "run", "smoke", *overrides]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return contents(run_paths(config.load("smoke", overrides)), *RESULTS)


@pytest.fixture(scope="session")
def fake_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same of a sweep of fake stages: digests of their result.json."""
    sweep = fake_sweep(tmp_path_factory.mktemp("undisturbed-fake"), FAKE_STEPS=str(STEPS))
    assert sweep.run() == 0
    return contents(sweep.paths, "**/result.json")
