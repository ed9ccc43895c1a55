"""The theory over positions of sliders, and what a sweep measured of it.

Every curve that the page can show is computed here by fgrpo_bench.theory; the browser only looks
them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from dashboards.queries.counts import Floats, counts
from dashboards.queries.forgetting import fates
from dashboards.queries.memo import remembered
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import SweepResults
from fgrpo_bench.theory import (
    mean_advantage,
    most_dangerous_group_size,
    tail_miss_probability,
)

SUCCESS_RATES = (0.01, 0.02, 0.05, *(round(0.1 * i, 1) for i in range(1, 10)), 0.95, 0.98, 0.99)
TAIL_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Parts of the right answers that are the tail: rho = tau / mu."""
GROUP_SIZES = tuple(sorted({round(2 ** (i / 4)) for i in range(4, 41)}))
"""2 to 1,024."""
GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
RATES = tuple(round(i / 100, 2) for i in range(101))
BINS = 20
"""Of the histogram of measured success rates."""


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """Curves over GROUP_SIZES for every position of the sliders."""

    curves: Floats = field(repr=False)
    """[success rates, tail shares, group sizes], probability that the tail is missed."""
    peaks: dict[tuple[int, int], int] = field(repr=False)
    """The most dangerous N by positions."""


@dataclass(frozen=True, kw_only=True)
class MeasuredTail:
    """What a sweep says, of one benchmark."""

    success_rates: Floats = field(repr=False)
    """Of the base models by problem over all seeds, those strictly between 0 and 1."""
    histogram: Floats = field(repr=False)
    """Share of these in each of BINS equal parts of [0, 1]."""
    curves: Floats = field(repr=False)
    """[tail shares, group sizes], the prediction averaged over success_rates; no rows without."""
    peaks: tuple[int, ...]
    """By tail share: the N, of all whole numbers, where that average is highest; likewise."""
    lost: dict[int, float]
    """By group size at gamma = 0 of the first algorithm: share of the problems within the base
    model's reach that were lost, mean over seeds."""


@lru_cache(maxsize=1)
def explorer() -> Explorer:
    """All curves and their peaks."""
    mu = np.asarray(SUCCESS_RATES)[:, None, None]
    rho = np.asarray(TAIL_SHARES)[None, :, None]
    n = np.asarray(GROUP_SIZES)[None, None, :]
    return Explorer(
        curves=np.asarray(tail_miss_probability(n, mu, mu * rho)),
        peaks={
            (i, j): most_dangerous_group_size(rate, rate * share)
            for i, rate in enumerate(SUCCESS_RATES)
            for j, share in enumerate(TAIL_SHARES)
        },
    )


def advantages() -> Floats:
    """Mean absolute advantage [GAMMAS, RATES]."""
    return np.asarray([mean_advantage(np.asarray(RATES), gamma) for gamma in GAMMAS])


def _files(results: SweepResults, benchmark: str, k: int) -> Iterable[Path]:
    for point in results.points:
        yield point.evaluate.done
        yield point.evaluate.benchmark(benchmark).passk


@remembered(_files)
def measured(results: SweepResults, benchmark: str, k: int) -> MeasuredTail:
    """Success rates of the base models, and losses at k by group size."""
    found = counts(results, benchmark)
    bases = [i for i, point in enumerate(found.points) if point.algorithm is None]
    drawn, correct = found.n_scored[bases].sum(axis=0), found.n_correct[bases].sum(axis=0)
    rates = correct[drawn > 0] / drawn[drawn > 0]
    rates = rates[(rates > 0) & (rates < 1)]
    rho = np.asarray(TAIL_SHARES)[:, None, None]
    n = np.asarray(GROUP_SIZES)[None, :, None]
    curves = np.zeros((0, len(GROUP_SIZES)))
    if len(rates):
        curves = np.asarray(tail_miss_probability(n, rates, rates * rho).mean(axis=2))
    peaks = [_peak(rates, *pair) for pair in zip(TAIL_SHARES, curves, strict=False)]
    counted = np.histogram(rates, bins=BINS, range=(0, 1))[0]
    return MeasuredTail(
        success_rates=rates,
        histogram=counted / max(len(rates), 1),
        curves=curves,
        peaks=tuple(peaks),
        lost=_lost(results, benchmark, k),
    )


def _peak(rates: Floats, share: float, curve: Floats) -> int:
    """The highest whole N around the highest of GROUP_SIZES."""
    at = int(np.argmax(curve))
    low, high = GROUP_SIZES[max(at - 1, 0)], GROUP_SIZES[min(at + 1, len(GROUP_SIZES) - 1)]
    sizes = np.arange(low, high + 1)
    made = tail_miss_probability(sizes[:, None], rates, rates * share).mean(axis=1)
    return int(sizes[np.argmax(made)])


def _lost(results: SweepResults, benchmark: str, k: int) -> dict[int, float]:
    found = fates(results, benchmark, k)
    plain = [(at, Cell.of(found.counts.points[row])) for at, row in enumerate(found.trained)]
    plain = [(at, cell) for at, cell in plain if cell.focal_gamma == 0]
    shares: dict[int, list[float]] = {}
    for at, cell in plain:
        if cell.algorithm == plain[0][1].algorithm and cell.group_size is not None:
            lost, kept = (found.shares[name][at].sum() for name in ("lost", "retained"))
            shares.setdefault(cell.group_size, []).append(float(lost / (lost + kept)))
    return {size: float(np.mean(values)) for size, values in sorted(shares.items())}
