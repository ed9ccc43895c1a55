"""What a planned sweep can show, before anything runs: as far as its draws go, and with its seeds.

The draws (`smallest_effect`, `draws_needed`): their noise alone, for given problems and models, and
at its largest, as if every problem had the success rate at which pass@k is least certain. No number
of draws makes up for training seeds.

The seeds (`power_with_seeds` and its inverses): how often a true difference between two cells is
significant, in a family of so many comparisons, by the interval of `fgrpo_bench.stats.spread`. For
planning the whole family is held to the first step of Holm's correction, level 0.05 / m; later
steps ask for less. Seeds and problems are taken to be normal. The mean of the seeds' differences is
then independent of their variance, so power is the chance that the mean passes the half width, over
the distribution of that half width: chi-square with S - 1 degrees for the seeds' part, while the
problems' part is taken as known. Where seeds differ in nothing but what is left of their problems,
the interval has a lower bound that is not counted here: the power is then up to 6 points less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.spread import normal_variance
from fgrpo_bench.stats.staged import (
    MOST_FIXED,
    StagedDesign,
    beta_rates,
    cheapest_design,
    fewest,
    fewest_draws,
    fixed_design,
)

Floats = NDArray[np.float64]

LEVEL = 0.95
"""Of the interval that must exclude 0."""
POWER = 0.8
"""In which share of repetitions it is to."""
MOST_DRAWS = 16_384
"""Where `draws_needed` gives up."""
MOST_SEEDS = 1_000
"""Where `seeds_needed` gives up."""
QUANTILES = 400
"""Of the seeds' estimated variance, over which power is a mean."""
RATES = np.exp(np.linspace(math.log(1e-6), math.log(0.999), 240))
"""Success rates that are tried; the variance is flat around its largest value."""


@lru_cache(maxsize=256)
def worst_variance(design: StagedDesign, k: int) -> float:
    """The largest variance of a problem's pass@k over its draws, at whatever success rate.

    0.25 for n = k: a problem's value is 0 or 1 then, a coin flip.
    """
    return float(design.draw_moments(k=k, success_rate=RATES)[1].max())


def smallest_effect(
    *,
    design: StagedDesign,
    k: int,
    n_problems: int | Sequence[int],
    level: float = LEVEL,
    power: float = POWER,
) -> float:
    """The difference in pass@k between two models that a two-sided test shows with this power, at
    most; a fraction.

    (z_(1 - alpha/2) + z_power) sqrt(2 v / problems), v the worst variance of a problem.
    n_problems: several are those of the benchmarks of a plain average.
    """
    sizes = [n_problems] if isinstance(n_problems, int) else n_problems
    z = _quantile((1 + level) / 2) + _quantile(power)
    variance = worst_variance(design, k) * sum(1 / size for size in sizes) / len(sizes) ** 2
    return z * math.sqrt(2 * variance)


def half_width(*, design: StagedDesign, k: int, n_problems: int, level: float = LEVEL) -> float:
    """Half the width of an interval for one model's pass@k, at most; a fraction."""
    return _quantile((1 + level) / 2) * math.sqrt(worst_variance(design, k) / n_problems)


def draws_needed(
    *, k: int, n_problems: int, target_half_width: float, level: float = LEVEL
) -> int | None:
    """Fewest draws per problem whose interval is surely no wider; None above MOST_DRAWS."""

    def suffices(n_samples: int) -> bool:
        design = fixed_design(n_samples)
        return (
            half_width(design=design, k=k, n_problems=n_problems, level=level) <= target_half_width
        )

    return fewest(suffices, least=k, most=MOST_DRAWS)


def advice(
    *,
    design: StagedDesign,
    k: int,
    n_problems: int | Sequence[int],
    with_seeds: Smallest | None = None,
) -> str:
    """One line for a person, e.g. of `sweeps plan`. n_problems: as of `smallest_effect`.
    with_seeds: the difference that is shown with the planned training seeds; the line then says
    which of both limits. None: nothing of seeds is known."""
    effect = smallest_effect(design=design, k=k, n_problems=n_problems)
    first, most = design.stages[0], design.stages[-1]
    draws = f"{most}" if design.is_fixed else f"{first} to {most}"
    flip = "; n = k makes each problem a coin flip, draw 2k" if most == k else ""
    of = n_problems if isinstance(n_problems, int) else " + ".join(map(str, n_problems))
    return (
        f"pass@{k} of {of} problems from {draws} draws each: detectable "
        f"difference {100 * effect:.1f} points as far as the draws go (95% level, 80% "
        f"power, their noise at its largest); {_which_limits(effect, with_seeds)}{flip}"
    )


def _which_limits(effect: float, with_seeds: Smallest | None) -> str:
    if with_seeds is None:
        return "training seeds limit beside them"
    if with_seeds.difference is None or with_seeds.difference > effect:
        return f"the training seeds limit: {with_seeds} points with these"
    return f"at that noise the draws limit more than the training seeds: {with_seeds} points"


def design_advice(
    *, ks: Sequence[int], n_problems: int, target_half_width: float, beta: tuple[float, float]
) -> str:
    """The design with the fewest expected draws for this half width at every k, in one line.

    beta: parameters of the distribution of the problems' success rates.
    """
    rates = beta_rates(*beta)
    variance = n_problems * (target_half_width / _quantile((1 + LEVEL) / 2)) ** 2
    fixed = fewest_draws(ks=ks, rates=rates, variance=variance)
    of = "pass@" + ", ".join(map(str, ks))
    goal = f"{of} +-{100 * target_half_width:g} points at 95%, rates as of Beta{beta}: "
    if fixed is None:
        return f"{goal}not even {max(MOST_FIXED, *ks)} draws are enough"
    design = cheapest_design(ks=ks, rates=rates, variance=variance, fixed=fixed)
    if design.is_fixed:
        return f"{goal}{fixed} draws per problem; no design that stops makes fewer"
    stages = ", ".join(map(str, design.stages))
    return (
        f"{goal}stages [{stages}], enough {design.enough}: "
        f"{design.expected_draws(rates).mean():.0f} draws per problem on average, {fixed} if fixed"
    )


def _quantile(p: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Of the variance of a paired difference in pass@k between two cells, as fractions squared."""

    seeds: float
    """Of one training seed's difference, its mean over the problems: between seeds, with what is
    left of each seed's own mean. Over the number of seeds it is their part of the mean's."""
    problems: float
    """Of the mean's, due to its problems, which no number of seeds lessens."""
    n_problems: int
    """Behind it, at least 2: one more than its degrees of freedom."""


def power_with_seeds(
    difference: float, *, n_seeds: int, parts: Parts, family: int = 1, level: float = LEVEL
) -> float:
    """How often a true difference is significant, by its corrected p-value; 0 to 1.

    difference: in pass@k, a fraction. n_seeds: training seeds, at least 2: of one nothing can be
    said about others (ValueError). family: comparisons that are corrected together.
    """
    widths = _half_widths(n_seeds, parts, family, level)
    return _power(difference, widths, parts.seeds / n_seeds + parts.problems)


def smallest_difference(
    *, n_seeds: int, parts: Parts, family: int = 1, level: float = LEVEL, power: float = POWER
) -> float | None:
    """The inverse: the true difference that is significant with this power, a fraction; None where
    that of all problems, 1, is not. Arguments as of `power_with_seeds`."""
    widths = _half_widths(n_seeds, parts, family, level)
    variance = parts.seeds / n_seeds + parts.problems
    low, high = 0.0, 1.0
    if _power(high, widths, variance) < power:
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        is_enough = _power(middle, widths, variance) >= power
        low, high = (low, middle) if is_enough else (middle, high)
    return high


WITHIN = 0.8
"""How often the range of `smallest_range` holds what true variances would give."""


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """The smallest difference that is shown with POWER; a fraction, None where that of all problems
    is not."""

    difference: float | None
    ends: tuple[float | None, float | None] | None = None
    """Of its range; None where the variance between seeds is not an estimate."""

    def __str__(self) -> str:
        """In points, e.g. `8.2 (5.6 to 14.1)`."""
        if self.ends is None:
            return _points(self.difference)
        return f"{_points(self.difference)} ({' to '.join(map(_points, self.ends))})"


def _points(value: float | None) -> str:
    return "more than 100" if value is None else f"{100 * value:.1f}"


def smallest_range(*, n_seeds: int, parts: Parts, family: int = 1, degrees: int = 0) -> Smallest:
    """`smallest_difference`, and what it is at the ends of the interval of the variance between
    seeds. degrees: of freedom, by which that is estimated; 0 where it is given or assumed."""
    from scipy.special import gammaincinv

    def smallest(variance: float) -> float | None:
        return smallest_difference(
            n_seeds=n_seeds, parts=replace(parts, seeds=variance), family=family
        )

    difference = smallest(parts.seeds)
    if not degrees:
        return Smallest(difference=difference)
    chances = ((1 + WITHIN) / 2, (1 - WITHIN) / 2)
    low, high = (
        smallest(parts.seeds * degrees / 2 / gammaincinv(degrees / 2, chance)) for chance in chances
    )
    return Smallest(difference=difference, ends=(low, high))


def seeds_needed(
    difference: float,
    *,
    parts: Parts,
    family: int = 1,
    level: float = LEVEL,
    power: float = POWER,
) -> int | None:
    """The fewest training seeds, at least 2, with which a true difference is significant with this
    power; None above MOST_SEEDS. Arguments as of `power_with_seeds`."""

    def suffices(n_seeds: int) -> bool:
        reached = power_with_seeds(
            difference, n_seeds=n_seeds, parts=parts, family=family, level=level
        )
        return reached >= power

    return fewest(suffices, least=2, most=MOST_SEEDS)


def _half_widths(n_seeds: int, parts: Parts, family: int, level: float) -> Floats:
    """Of the interval whose level is corrected for the family, [QUANTILES]: at the quantiles of
    the seeds' estimated variance, each as likely as the others, rising."""
    from scipy.special import gammaincinv

    if n_seeds < 2:
        raise ValueError(
            f"n_seeds={n_seeds}: the spread of training seeds cannot be estimated from fewer than "
            "2; plan at least 2, better 3"
        )
    degrees = n_seeds - 1
    chances = (np.arange(QUANTILES) + 0.5) / QUANTILES
    seeds = parts.seeds / n_seeds * 2 * gammaincinv(degrees / 2, chances) / degrees
    variance = normal_variance(
        n_seeds=n_seeds, seeds=seeds, problems=parts.problems, n_problems=parts.n_problems
    )
    return variance.half_width((1 - level) / family / 2)


def _power(difference: float, half_widths: Floats, variance: float) -> float:
    """How often a normal mean of this variance passes the half width to either side."""
    from scipy.special import ndtr

    if variance == 0:  # nothing varies: any difference is one
        return float(difference != 0)
    error = math.sqrt(variance)
    above = ndtr((difference - half_widths) / error)
    return float(np.mean(above + ndtr((-difference - half_widths) / error)))
