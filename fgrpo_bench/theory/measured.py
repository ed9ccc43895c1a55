"""What a sweep measured of the theory: success rates of its base models, and what training lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.question import of_line


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one benchmark of a sweep."""

    name: str
    """For a file, e.g. groupsize-countdown."""
    title: str
    """For a person."""
    success_rates: NDArray[np.float64]
    """Of the base models by problem, means over seeds, those strictly between 0 and 1;
    [problems]."""
    lost: dict[int, float]
    """By group size at gamma = 0: expected share of the problems within the base model's reach that
    the trained model lost, mean over seeds; of the first algorithm."""


def measure(analysis: Analysis, *, benchmark: str | None = None) -> Measured:
    """Look at a sweep; ValueError where its base models have no results yet.

    benchmark: None is the first.
    """
    paths = analysis.results.of_sweep().paths
    benchmark = benchmark or analysis.results.benchmarks[0]
    counts = (
        analysis.problems.filter(cell="base", benchmark=benchmark)
        .drop_nulls("success_rate")
        .group_by("problem_id")
        .agg(pl.col("success_rate").mean())
        .sort("problem_id")
    )
    if not len(counts):
        raise ValueError(
            f"sweep {paths.sweep} has no results of its base models on {benchmark}: let it "
            "run on, or give --success-rate"
        )
    rates = counts["success_rate"].to_numpy()
    rates = rates[(rates > 0) & (rates < 1)]
    if not len(rates):
        raise ValueError(
            f"the base models solve every problem of {benchmark} always or never: no tail to miss"
        )
    return Measured(
        name=f"{paths.sweep}-{paths.experiment}",
        title=f"{benchmark} in {paths.sweep} on {paths.experiment}",
        success_rates=rates,
        lost=_lost(analysis, benchmark),
    )


def _lost(analysis: Analysis, benchmark: str) -> dict[int, float]:
    plain = [cell for cell in analysis.by_cell.values() if cell.focal_gamma == 0]
    covered = {cell: analysis.covered(benchmark, cell, analysis.ks[-1]) for cell in plain}
    first = next((cell for cell in plain if covered[cell] is not None), None)
    return {
        cell.group_size: row.lost_share
        for cell, row in sorted(covered.items(), key=lambda each: each[0].group_size or 0)
        if first is not None and of_line(cell) == of_line(first)
        if cell.group_size is not None and row is not None and row.lost_share is not None
    }
