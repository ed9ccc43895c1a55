"""Which design makes the fewest draws for a wanted precision, given success rates of problems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.staged import StagedDesign

Floats = NDArray[np.float64]
FIRST_STAGES = (16, 32, 64, 128, 256)
ENOUGH = (2, 4, 8, 16, 32)
"""Correct draws that stop a problem, of the designs that are tried."""
LONGER = (1, 1.1, 1.25, 1.5, 2, 4)
"""Last stages that are tried, in multiples of the fixed draws that are precise enough."""
MOST_FIXED = 4_096
"""The largest fixed number that is tried."""
QUANTILES = 200


def beta_rates(a: float, b: float) -> Floats:
    """Success rates of problems that are distributed as Beta(a, b): its quantiles, rising."""
    from scipy.stats import beta

    return np.asarray(beta.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, a, b))


def fewest_draws(*, ks: Sequence[int], rates: Floats, variance: float) -> int | None:
    """The fewest draws, the same for every problem, whose pass@k is precise enough at every k.

    rates: success rates of problems, [problems]. variance: the largest that the variance of a
    problem's pass@k over its draws may be, as a mean over these problems. None where MOST_FIXED
    are too few.
    """
    low = high = max(ks)
    while not _suffices(_fixed(high), ks, rates, variance):
        low, high = high + 1, high * 2
        if high > MOST_FIXED:
            return None
    while low < high:
        middle = (low + high) // 2
        suffices = _suffices(_fixed(middle), ks, rates, variance)
        low, high = (low, middle) if suffices else (middle + 1, high)
    return low


def cheapest_design(
    *, ks: Sequence[int], rates: Floats, variance: float, fixed: int
) -> StagedDesign:
    """The design with the fewest expected draws that is precise enough, as of `fewest_draws`.

    fixed: the fewest fixed draws, which the design makes where no other that is tried is cheaper.
    Tried are stages that double from FIRST_STAGES on up to a last one, and ENOUGH correct draws.
    """
    by_cost = {design: float(design.expected_draws(rates).mean()) for design in _tried(fixed)}
    for design in sorted(by_cost, key=by_cost.__getitem__):
        if by_cost[design] < fixed and _suffices(design, ks, rates, variance):
            return design
    return _fixed(fixed)


def _fixed(n_samples: int) -> StagedDesign:
    return StagedDesign(stages=(n_samples,), enough=1)


def _tried(fixed: int) -> Iterator[StagedDesign]:
    """Of last stages that can be precise enough: at least as many as the fixed draws."""
    for last in (math.ceil(fixed * times) for times in LONGER):
        for first in (stage for stage in FIRST_STAGES if stage < last):
            stages = [first << i for i in range(last.bit_length()) if first << i < last]
            for enough in ENOUGH:
                yield StagedDesign(stages=(*stages, last), enough=enough)


def _suffices(design: StagedDesign, ks: Sequence[int], rates: Floats, variance: float) -> bool:
    return all(design.draw_moments(k=k, success_rate=rates)[1].mean() <= variance for k in ks)
