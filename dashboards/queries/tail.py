"""The theory over positions of sliders, and what a sweep measured of it.

Every curve that the page can show is computed here by fgrpo_bench.theory; the browser only looks
them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dashboards.queries.analysis import Floats, analysis_of, inputs
from dashboards.queries.memo import remembered
from fgrpo_bench.results import SweepResults
from fgrpo_bench.theory import mean_advantage, most_dangerous_group_size, tail_miss_probability
from fgrpo_bench.theory.measured import Measured, measure

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
class MeasuredTail:
    """What a sweep says, of one benchmark."""

    of: Measured
    histogram: Floats = field(repr=False)
    """Share of its success rates in each of BINS equal parts of [0, 1]."""
    curves: Floats = field(repr=False)
    """[tail shares, group sizes], the prediction averaged over these rates."""
    peaks: tuple[int, ...]
    """By tail share: the N, of all whole numbers, where that average is highest."""


@lru_cache(maxsize=1)
def explorer() -> tuple[Floats, dict[tuple[int, int], int]]:
    """For every position of the sliders the probability that the tail is missed, [success rates,
    tail shares, group sizes], and the most dangerous N."""
    mu = np.asarray(SUCCESS_RATES)[:, None, None]
    rho = np.asarray(TAIL_SHARES)[None, :, None]
    n = np.asarray(GROUP_SIZES)[None, None, :]
    peaks = {
        (i, j): most_dangerous_group_size(rate, rate * share)
        for i, rate in enumerate(SUCCESS_RATES)
        for j, share in enumerate(TAIL_SHARES)
    }
    return np.asarray(tail_miss_probability(n, mu, mu * rho)), peaks


def advantages() -> Floats:
    """Mean absolute advantage [GAMMAS, RATES]."""
    return np.asarray([mean_advantage(np.asarray(RATES), gamma) for gamma in GAMMAS])


@remembered(inputs)
def measured(results: SweepResults, benchmark: str) -> MeasuredTail | None:
    """The theory over the base models' own success rates; None where there are none yet between 0
    and 1."""
    analysis = analysis_of(results)  # outside: what cannot be read is said
    try:
        measurement = measure(analysis, benchmark=benchmark)
    except ValueError:
        return None
    rates = measurement.success_rates
    curves = np.stack([_averaged(GROUP_SIZES, rates, share) for share in TAIL_SHARES])
    return MeasuredTail(
        of=measurement,
        histogram=np.histogram(rates, bins=BINS, range=(0, 1))[0] / len(rates),
        curves=curves,
        peaks=tuple(_peak(rates, *pair) for pair in zip(TAIL_SHARES, curves, strict=True)),
    )


def _averaged(group_sizes: Sequence[int], rates: Floats, share: float) -> Floats:
    """The prediction averaged over success rates, [group sizes]."""
    n = np.asarray(group_sizes)[:, None]
    return np.asarray(tail_miss_probability(n, rates, rates * share).mean(axis=1))


def _peak(rates: Floats, share: float, curve: Floats) -> int:
    """The highest whole N around the highest of GROUP_SIZES."""
    at = int(np.argmax(curve))
    low, high = GROUP_SIZES[max(at - 1, 0)], GROUP_SIZES[min(at + 1, len(GROUP_SIZES) - 1)]
    return low + int(np.argmax(_averaged(range(low, high + 1), rates, share)))
