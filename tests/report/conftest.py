"""Finished sweeps for all tests that only read them."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis.results import SweepResults
from tests.analysis.conftest import analysis as analysis
from tests.analysis.conftest import finished as finished
from tests.support.graded import reported_sweep


@pytest.fixture(scope="session")
def reported(tmp_path_factory) -> SweepResults:
    """A sweep of two points whose grades are of its draws, reported; not to be changed."""
    return reported_sweep(tmp_path_factory.mktemp("reported"))
