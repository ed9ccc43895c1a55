"""A sweep whose runs have five evaluated checkpoints each, on planted paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fgrpo_bench.analysis.results import PointResult, SweepResults
from tests.support.planted import log_odds, rate_of
from tests.support.report import small_sweep

PLAIN, FOCAL, SLOW = "grpo-n8-g0", "grpo-n8-g1", "grpo-n8-g0.5"
STILL = "grpo-n32-g0"
SPEED = {PLAIN: 1.0, FOCAL: 0.6, SLOW: 0.5, STILL: 0.0}
STRETCH = {PLAIN: 1.6, FOCAL: 0.2, SLOW: 1.6, STILL: 1.6}
PATHS = (
    "experiment.checkpoints=every",
    "experiment.train.save_every=4",
    "experiment.evaluation.benchmarks.countdown.n_problems=120",
)
OVERRIDES = (*PATHS, "sweep.grid.group_size=[8,32]")
AT = "sweep.family={pairs: [focal], cells: [], ks: null, columns: null, at: equal_pass_at_1}"


def along_a_path(point: PointResult, rng: np.random.Generator, n_problems: int) -> np.ndarray:
    """Success rates [n_problems]: gamma = 1 is slower and keeps more, gamma = 0.5 goes the path of
    gamma = 0 at half its speed, and N = 32 stands still."""
    base = log_odds(np.random.default_rng([4, point.seed]).beta(0.7, 3.0, n_problems))
    if point.cell is None:
        return rate_of(base)
    progress = SPEED[point.label] * point.step / 20
    stretch = 1 + STRETCH[point.label] * progress**2
    return rate_of(1.5 * progress + stretch * (base + 1) - 1)


def sweep_on_paths(root: Path, *overrides: str) -> SweepResults:
    """Three seeds of each cell."""
    return small_sweep(root, "groupsize", *OVERRIDES, *overrides, success_rates=along_a_path)
