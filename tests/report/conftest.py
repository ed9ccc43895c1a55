"""One finished sweep for all tests that only read it."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.results import SweepResults
from tests.support.graded import reported_sweep
from tests.support.report import small_sweep


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> SweepResults:
    """The small group-size sweep, all of it done; not to be changed."""
    return small_sweep(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def analysis(finished) -> Analysis:
    """The same, analysed."""
    return analyse(finished)


@pytest.fixture(scope="session")
def reported(tmp_path_factory) -> SweepResults:
    """A sweep of two points whose grades are of its draws, reported; not to be changed."""
    return reported_sweep(tmp_path_factory.mktemp("reported"))
