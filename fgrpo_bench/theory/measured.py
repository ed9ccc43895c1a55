"""What a sweep measured of the theory: success rates of its base models, and what training lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.report.covered import fates
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.results import SweepResults


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
    the trained model lost, mean over seeds; of the first algorithm."""


def measure(results: SweepResults, *, benchmark: str | None = None) -> Measured:
    """Read a sweep; ValueError where its base models have no results yet.

    benchmark: None is the first.
    """
    summary = summarise(results)
    benchmark = benchmark or results.benchmarks[0]
    bases = [cell for cell in summary.cells if cell.is_base]
    scores = summary.scores[benchmark, bases[0]] if bases else None
    if scores is None or not scores.seeds:
        raise ValueError(
            f"sweep {results.paths.sweep} has no results of its base models on {benchmark}: let it "
            "run on, or give --success-rate"
        )
    drawn = scores.n_scored.sum(axis=0)
    rates = scores.n_correct.sum(axis=0)[drawn > 0] / drawn[drawn > 0]
    rates = rates[(rates > 0) & (rates < 1)]
    if not len(rates):
        raise ValueError(
            f"the base models solve every problem of {benchmark} always or never: no tail to miss"
        )
    trained = {c: f for c, f in fates(summary, benchmark).items() if c.focal_gamma == 0}
    first = next(iter(trained), None)
    lost = {
        cell.group_size: float(
            np.mean([f.lost.sum() / (f.lost.sum() + f.retained.sum()) for f in by_seed])
        )
        for cell, by_seed in trained.items()
        if cell.group_size is not None and first is not None and cell.algorithm == first.algorithm
    }
    return Measured(
        name=f"{results.paths.sweep}-{results.paths.experiment}",
        title=f"{benchmark} in {results.paths.sweep} on {results.paths.experiment}",
        success_rates=rates,
        lost=dict(sorted(lost.items())),
    )
