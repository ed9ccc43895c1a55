"""Finished sweeps for all tests that only read them."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.analysis import Analysis, analyse, analysed
from fgrpo_bench.analysis.results import PointResult, SweepResults
from tests.support.report import made_of_tasks, mixed_sweep, small_sweep
from tests.support.staged import staged_sweep


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> SweepResults:
    """The small group-size sweep, all of it done; not to be changed."""
    return small_sweep(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def analysis(finished) -> Analysis:
    """The same, analysed."""
    return analyse(finished)


EQUAL_PROMPTS = (
    "experiment=countdown-prompts",
    "sweep.grid.group_size=[8,32]",
    "sweep.cells=[{algorithm: grpo, group_size: 8, focal_gamma: 0.5}]",
    "experiment.train.save_every=5",
    "experiment.checkpoints=every",
)
BY_STEP = {0: 0.1, 5: 0.2, 10: 0.6, 15: 0.4, 20: 0.3}
FOCAL_BY_STEP = {5: 0.3, 10: 0.4, 15: 0.9, 20: 0.2}


def best_in_the_middle(point: PointResult, rng: np.random.Generator, n_problems: int) -> np.ndarray:
    """Success rates that are best at step 10 without a focal weight and at 15 with one."""
    by_step = FOCAL_BY_STEP if point.cell is not None and point.cell.focal_gamma else BY_STEP
    return np.full(n_problems, by_step[point.step])


@pytest.fixture(scope="session")
def every_step(tmp_path_factory) -> SweepResults:
    """A sweep at equal prompts with every checkpoint evaluated; not to be changed."""
    root = tmp_path_factory.mktemp("every")
    return small_sweep(root, "groupsize", *EQUAL_PROMPTS, success_rates=best_in_the_middle)


@pytest.fixture(scope="session")
def of_tasks(tmp_path_factory) -> SweepResults:
    """A small sweep on a benchmark of tasks; not to be changed."""
    return made_of_tasks(small_sweep(tmp_path_factory.mktemp("tasks"), "smoke"))


@pytest.fixture(scope="session")
def mixed(tmp_path_factory) -> Analysis:
    """Of a sweep that views could disagree about, stored beside it."""
    return analysed(mixed_sweep(tmp_path_factory.mktemp("mixed")))


@pytest.fixture(scope="session")
def staged(tmp_path_factory) -> SweepResults:
    """Of a sweep whose problems stop once enough draws are correct; not to be changed."""
    return staged_sweep(tmp_path_factory.mktemp("staged"))
