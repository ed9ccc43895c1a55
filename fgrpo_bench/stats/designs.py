"""What designs cost and how precise they are, given success rates of problems, and which makes the
fewest draws for a wanted precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.stats.staged_arguments import MOST_DRAWS

Floats = NDArray[np.float64]
FIRST_STAGES = (16, 32, 64, 128, 256)
"""Draws of the first stage, of the designs that are tried."""
ENOUGH = (2, 4, 8, 16, 32)
"""Correct draws that stop a problem, of the designs that are tried."""
LONGER = (1, 1.1, 1.25, 1.5, 2, 4)
"""Last stages that are tried, in multiples of the fixed draws that are precise enough."""
MOST_FIXED = 4_096
"""The largest fixed number that is tried."""
QUANTILES = 200
"""Success rates that stand for the Beta distribution."""
PRIOR = (0.5, 0.5)
"""Parameters of the Beta distribution that success rates are taken from where nothing is graded."""


def beta_rates(a: float, b: float) -> Floats:
    """Success rates of problems that are distributed as Beta(a, b): its quantiles, rising."""
    from scipy.special import betaincinv  # as scipy.stats.beta.ppf, whose import takes long

    return np.asarray(betaincinv(a, b, (np.arange(QUANTILES) + 0.5) / QUANTILES))


@lru_cache(maxsize=64)
def draws_by_prior(design: StagedDesign) -> float:
    """Expected draws of a problem whose success rate is as of PRIOR."""
    return float(design.expected_draws(beta_rates(*PRIOR)).mean())


def mean_variance(
    design: StagedDesign, k: int, rates: Floats, weights: Floats | None = None
) -> float:
    """Of a problem's pass@k over its draws, as a mean over problems of these success rates,
    [problems]; over their number it is the variance of mean pass@k. weights: of the problems, None
    for the same of all."""
    distinct, index = np.unique(rates, return_inverse=True)
    variance = design.draw_moments(k=k, success_rate=distinct)[1]
    return float(np.average(variance, weights=np.bincount(index, weights)))


def fewest_draws(*, ks: Sequence[int], rates: Floats, variance: float) -> int | None:
    """The fewest draws, the same for every problem, whose pass@k is precise enough at every k.

    rates: success rates of problems, [problems]. variance: the largest that the variance of a
    problem's pass@k over its draws may be, as a mean over these problems. None where MOST_FIXED
    are too few.
    """
    return fewest(
        lambda n: _suffices(fixed_design(n), ks, rates, variance), least=max(ks), most=MOST_FIXED
    )


def fewest(suffices: Callable[[int], bool], *, least: int, most: int) -> int | None:
    """The smallest number from `least` on that suffices, where all above one that does suffice too;
    None where `most` does not, or `least` where that is larger."""
    low = high = least
    while not suffices(high):
        if high >= most:
            return None
        low, high = high + 1, min(high * 2, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
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
    return fixed_design(fixed)


def fixed_design(n_samples: int) -> StagedDesign:
    """The design under which every problem makes as many draws."""
    return StagedDesign(stages=(n_samples,), enough=1)


def _tried(fixed: int) -> Iterator[StagedDesign]:
    """Of last stages that can be precise enough: at least as many as the fixed draws."""
    lasts = (math.ceil(fixed * times) for times in LONGER)
    for last in (last for last in lasts if last <= MOST_DRAWS):
        for first in (stage for stage in FIRST_STAGES if stage < last):
            stages = [first << i for i in range(last.bit_length()) if first << i < last]
            for enough in ENOUGH:
                yield StagedDesign(stages=(*stages, last), enough=enough)


def _suffices(design: StagedDesign, ks: Sequence[int], rates: Floats, variance: float) -> bool:
    return all(mean_variance(design, k, rates) <= variance for k in ks)
