"""One finished sweep for all tests that only read it."""

from __future__ import annotations

import pytest

from fgrpo_bench.report.comparisons import Comparison, compare
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.results import SweepResults
from tests.support.graded import reported_sweep
from tests.support.report import small_sweep


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> SweepResults:
    """The small group-size sweep, all of it done; not to be changed."""
    return small_sweep(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def summary(finished) -> Summary:
    """The same, read."""
    return summarise(finished)


@pytest.fixture(scope="session")
def comparisons(summary) -> list[Comparison]:
    """The same, compared."""
    return compare(summary)


@pytest.fixture(scope="session")
def reported(tmp_path_factory) -> SweepResults:
    """A sweep of two points whose grades are of its draws, reported; not to be changed."""
    return reported_sweep(tmp_path_factory.mktemp("reported"))
