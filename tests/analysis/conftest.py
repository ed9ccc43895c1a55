"""One finished sweep for all tests that only read it."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis import Analysis, analyse, analysed
from fgrpo_bench.analysis.results import SweepResults
from tests.support.report import mixed_sweep, small_sweep
from tests.support.staged import staged_sweep


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> SweepResults:
    """The small group-size sweep, all of it done; not to be changed."""
    return small_sweep(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def analysis(finished) -> Analysis:
    """The same, analysed."""
    return analyse(finished)


@pytest.fixture(scope="session")
def mixed(tmp_path_factory) -> Analysis:
    """Of a sweep that views could disagree about, stored beside it."""
    return analysed(mixed_sweep(tmp_path_factory.mktemp("mixed")))


@pytest.fixture(scope="session")
def staged(tmp_path_factory) -> SweepResults:
    """Of a sweep whose problems stop once enough draws are correct; not to be changed."""
    return staged_sweep(tmp_path_factory.mktemp("staged"))
