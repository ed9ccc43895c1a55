"""What a sweep measured of the theory: success rates of its base models, and what training lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one benchmark of a sweep."""

    name: str
    """For a file, e.g. groupsize-countdown."""
    title: str
    """For a person."""
    success_rates: NDArray[np.float64]
    """Of the base models by problem, over all seeds, those strictly between 0 and 1; [problems]."""
    lost: dict[int, float]
    """By group size at gamma = 0: expected share of the problems within the base model's reach that
    the trained model lost at the largest k, mean over seeds; of the first algorithm."""


def measure(analysis: Analysis, *, benchmark: str | None = None) -> Measured:
    """What an analysis says; ValueError where its base models have no results yet, or all of their
    success rates are 0 or 1.

    benchmark: None is the first.
    """
    paths = analysis.results.paths
    benchmark = benchmark or analysis.results.benchmarks[0]
    found = measured(analysis, benchmark)
    if len(found.success_rates):
        return found
    if analysis.problems.filter(benchmark=benchmark, cell="base").is_empty():
        raise ValueError(
            f"sweep {paths.sweep} has no results of its base models on {benchmark}: let it run on, "
            "or give --success-rate"
        )
    raise ValueError(
        f"the base models solve every problem of {benchmark} always or never: no tail to miss"
    )


def measured(analysis: Analysis, benchmark: str) -> Measured:
    """The same, with no success rates and nothing lost where there is nothing to measure."""
    paths = analysis.results.paths
    counts = (
        analysis.problems.filter(benchmark=benchmark, cell="base")
        .group_by("problem_id")
        .agg(pl.col("n_correct", "n_scored").sum())
        .filter(pl.col("n_scored") > 0)
        .sort("problem_id")
    )
    rates = (counts["n_correct"] / counts["n_scored"]).to_numpy()
    plain = [cell for cell in analysis.by_cell.values() if cell.focal_gamma == 0]
    plain = [cell for cell in plain if analysis.covered(benchmark, cell, analysis.ks[-1])]
    lost = {
        cell.group_size: covered.lost_share
        for cell in plain
        if cell.algorithm == plain[0].algorithm
        and (covered := analysis.covered(benchmark, cell, analysis.ks[-1]))
        and covered.lost_share is not None
        and cell.group_size is not None
    }
    return Measured(
        name=f"{paths.sweep}-{paths.experiment}",
        title=f"{benchmark} in {paths.sweep} on {paths.experiment}",
        success_rates=rates[(rates > 0) & (rates < 1)],
        lost=dict(sorted(lost.items())),
    )
