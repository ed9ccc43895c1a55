"""Would a repetition of a sweep on other training seeds print the same verdicts? By simulation.

In: what the comparisons of a family showed (`AcrossSeeds`). Out: of each the chance that as many
new seeds on the same problems give the same verdict in the same direction (`Chance`).

What a few seeds showed is not the truth. So worlds are drawn that may have led to it: the variance
between seeds by the chi-square of its degrees of freedom, then the true difference around the mean
that was seen. In each world repetitions are drawn, with normal seeds whose differences vary
together as they were seen to, and judged by the rule of the report: the interval of
`fgrpo_bench.stats.spread` and Holm's correction. The chance is the mean over worlds; its range is
where it lies in 80% of them. Had the differences that were seen been taken for true, the chance
would be too high: what is significant by luck is seen too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.power import LEVEL
from fgrpo_bench.stats.spread import normal_variance

Floats = NDArray[np.float64]

WORLDS, IN_EACH = 50, 60
"""That are simulated, and repetitions in each: the Monte Carlo error of a chance is at most 6
points, mostly 2."""
SEED = 20260206
"""Of the simulation, so that the same results give the same line."""
WITHIN = 0.8
"""Share of the worlds in which the chance lies in its range."""


@dataclass(frozen=True, kw_only=True)
class AcrossSeeds:
    """A comparison of a family, as a sweep showed it."""

    by_seed: tuple[float, ...]
    """The difference of each seed, at least 2."""
    problems: float
    """Variance of the mean that is due to its problems, which a repetition has too."""
    n_problems: int
    verdict: int
    """2 significant, 1 suggestive, 0 inconclusive; below 0 where the difference is."""


@dataclass(frozen=True, kw_only=True)
class Chance:
    """That a repetition gives the same verdict, 0 to 1."""

    chance: float
    low: float
    """Of the range, as `high`."""
    high: float


@lru_cache(maxsize=64)
def chances(observed: tuple[AcrossSeeds, ...], *, family: int) -> tuple[Chance, ...]:
    """Of each comparison. observed: those of one declared family, of the same number of seeds.

    family: how many were declared; those without results count in the correction, as in the report.
    """
    rng = np.random.default_rng(SEED)
    by_seed = np.array([row.by_seed for row in observed]).T
    n_seeds, degrees = len(by_seed), len(by_seed) - 1
    deviations = by_seed - by_seed.mean(axis=0)
    scales = np.sqrt(degrees / rng.chisquare(degrees, (WORLDS, len(observed))))
    of_means = _vary(rng, deviations, (WORLDS,)) / np.sqrt(n_seeds)
    truths = by_seed.mean(axis=0) + scales * of_means
    of_seeds = _vary(rng, deviations, (WORLDS * IN_EACH, n_seeds))
    repeated = np.repeat(truths, IN_EACH, 0)[:, None] + np.repeat(scales, IN_EACH, 0)[:, None] * (
        of_seeds
    )
    same = verdicts(
        repeated,
        problems=np.array([row.problems for row in observed]),
        n_problems=np.array([row.n_problems for row in observed]),
        family=family,
    ) == [row.verdict for row in observed]
    by_world = same.reshape(WORLDS, IN_EACH, -1).mean(axis=1)
    low, high = np.quantile(by_world, [(1 - WITHIN) / 2, (1 + WITHIN) / 2], axis=0)
    ends = zip(by_world.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Chance(chance=chance, low=start, high=end) for chance, start, end in ends)


def _vary(rng: np.random.Generator, deviations: Floats, shape: tuple[int, ...]) -> Floats:
    """Normal numbers of mean 0, [*shape, columns], that covary as the rows of `deviations`."""
    varied = np.zeros((*shape, deviations.shape[1]))
    for deviation in deviations:  # one by one: a product of matrices would sum in another order
        varied += rng.standard_normal(shape)[..., None] * deviation
    return np.asarray(varied / np.sqrt(len(deviations) - 1))


def verdicts(
    by_seed: Floats, *, problems: Floats, n_problems: NDArray[np.int64], family: int
) -> NDArray[np.int8]:
    """Of families of comparisons, [families, comparisons], as in `AcrossSeeds`.

    by_seed: differences, [families, seeds, comparisons]. problems, n_problems: of each comparison.
    """
    means, n_seeds = by_seed.mean(axis=1), by_seed.shape[1]
    seeds = by_seed.var(axis=1, ddof=1) / n_seeds
    variance = normal_variance(
        n_seeds=n_seeds, seeds=seeds, problems=problems, n_problems=n_problems
    )

    def excludes_0(error: Floats | float) -> NDArray[np.bool_]:
        return np.asarray(np.abs(means) > variance.half_width(error / 2))

    # Holm: each that is rejected leaves one comparison less to correct the others over
    rejected = np.zeros(means.shape, np.bool_)
    while True:
        left = np.maximum(family - rejected.sum(axis=1, keepdims=True), 1)
        further = excludes_0(np.broadcast_to((1 - LEVEL) / left, means.shape))
        if (further <= rejected).all():
            break
        rejected |= further
    sizes = excludes_0(1 - LEVEL).astype(np.int8) + rejected
    return np.asarray(np.sign(means) * sizes, np.int8)
