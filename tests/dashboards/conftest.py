"""A sweep with draws, made once, and a client of its dashboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dashboards.app import make_app
from fgrpo_bench.analysis.results import SweepResults
from tests.support.dashboard import HOSTILE, sweep_with_draws


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    """A finished sweep with harmless draws; read it only."""
    return sweep_with_draws(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    """The same whose model output tries to be markup; read it only."""
    return sweep_with_draws(tmp_path_factory.mktemp("hostile"), texts=HOSTILE)


def client_of(root: Path) -> TestClient:
    """A browser's side of the dashboard over a root."""
    return TestClient(make_app(root), base_url="http://127.0.0.1")


@pytest.fixture(scope="session")
def client(finished: SweepResults) -> TestClient:
    return client_of(finished.paths.root)
