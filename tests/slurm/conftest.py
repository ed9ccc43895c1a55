"""The session's private SLURM cluster. Where SLURM is missing its tests fail, never skip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster

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
