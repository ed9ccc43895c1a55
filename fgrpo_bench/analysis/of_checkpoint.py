"""One checkpoint alone: its mean pass@k with an interval over problems.

The frames are about cells, whose intervals hold training seeds too; who passes a single model's
results on needs this one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.analysis.read import cluster_numbers
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.stats.intervals import FRACTIONS, estimate
from fgrpo_bench.tables import BOUNDS


@dataclass(frozen=True, kw_only=True)
class CheckpointEstimate:
    """Mean pass@k of one checkpoint on one benchmark, as fractions."""

    k: int
    mean: float | None
    """Over problems; None where none has a value."""
    low: float | None
    """Of the 95% interval over problems, like high; None with fewer than two problems."""
    high: float | None
    standard_error: float | None
    n_problems: int
    """With a value."""
    all_wrong: float | None
    """The mean were all draws that the grader could not judge wrong."""
    all_right: float | None
    """Were they all right."""


def checkpoint_estimates(
    checkpoint: EvaluatedCheckpoint, benchmark: str
) -> list[CheckpointEstimate]:
    """A row a k; none where the evaluation is not complete."""
    table = checkpoint.passk(benchmark).sort("problem_id", "k")
    ks = table["k"].unique().sort().to_list()
    values, low, high = (
        table[name].fill_null(float("nan")).to_numpy().reshape(-1, len(ks))
        for name in ("pass_at_k", *BOUNDS)
    )
    clusters = cluster_numbers(table.filter(k=ks[0])["cluster"].to_list()) if ks else None
    over_problems = estimate(values[None], limits=FRACTIONS, clusters=clusters) if ks else []
    return [
        CheckpointEstimate(
            k=k,
            mean=over.mean,
            low=over.low,
            high=over.high,
            standard_error=over.standard_error,
            n_problems=over.n_problems,
            all_wrong=_mean(low[:, i]),
            all_right=_mean(high[:, i]),
        )
        for i, (k, over) in enumerate(zip(ks, over_problems, strict=True))
    ]


def _mean(values: NDArray[np.float64]) -> float | None:
    return None if np.isnan(values).any() else float(values.mean())
