"""Finished sweeps for all tests that only read them, and figures that take no time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.documents import style
from tests.analysis.conftest import analysis as analysis
from tests.analysis.conftest import every_step as every_step
from tests.analysis.conftest import finished as finished
from tests.analysis.conftest import of_tasks as of_tasks
from tests.analysis.conftest import staged as staged
from tests.support.graded import reported_sweep
from tests.support.report import ONE_SEED, copy, nine_benchmarks

PLAIN = {
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><g id="axes_1"/>\n<path d="M 10 20"/></svg>',
    "pdf": b"%PDF-1.4 10 20",
}
"""In place of every figure, which takes a quarter of a second."""


@contextmanager
def drawing_plainly() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "drawings", lambda _, kinds=style.KINDS: {k: PLAIN[k] for k in kinds})
        yield patch


@pytest.fixture
def plain_figures() -> Iterator[pytest.MonkeyPatch]:
    """All figures are PLAIN while a test runs; what is made once for many tests comes before."""
    with drawing_plainly() as patch:
        yield patch


@pytest.fixture(scope="session")
def reported(tmp_path_factory) -> SweepResults:
    """A sweep of two points whose grades are of its draws, reported with PLAIN in place of figures;
    not to be changed."""
    with drawing_plainly():
        return reported_sweep(tmp_path_factory.mktemp("reported"))


@pytest.fixture
def results(reported, tmp_path) -> SweepResults:
    """A copy of it, to be changed."""
    return copy(reported, tmp_path)


@pytest.fixture(scope="session")
def nine(tmp_path_factory) -> Analysis:
    """Of a sweep on the paper's nine benchmarks with gamma = 0, 1 and 2, one seed."""
    grid = [ONE_SEED, "sweep.grid.algorithm=[grpo]", "sweep.grid.focal_gamma=[0,1,2]"]
    return analyse(nine_benchmarks(tmp_path_factory.mktemp("nine"), "gamma", *grid))
