"""How far a mean over training seeds and problems varies: analysis of variance of a crossed table.

A value of seed s on problem p is a mean, an effect of the seed, one of the problem, and what is
left. With S seeds and P problems the mean of all varies by

    var(seeds) / S + var(problems) / P + var(left) / (S P),

which mean squares estimate without bias as (MS_seeds + MS_problems - MS_left) / (S P) (Searle,
Casella and McCulloch 1992, "Variance Components", chapter 4). Satterthwaite's degrees of freedom
(1946, Biometrics Bulletin 2(6), 110-114) are its square over the sum of the squares of all three
mean squares, each over its own degrees: near S - 1 where the seeds differ as wholes, near P - 1
where problems do. So three seeds that disagree give Student's t with 2 degrees.

They are degrees of the true variances. From estimates of few seeds the interval is too narrow,
because seeds that agree by chance make the variance small and the degrees many: for normal parts
95% are 92.2% with three seeds at the worst proportion of parts, 87.5% with two. Where each part has
its own Student's t and the squares of the widths are added (Banerjee 1960, Sankhya 22, 357-358), it
holds at least what it promises, up to 97.8% and 98.8%. For two seeds that is the width; for more
the square of the width is halfway between both, which holds 94.6 to 96.9% with three seeds and 94.9
to 96.0% with five.

The rule is one of every level: the degrees that give its width at 95% are not those at 99.9%, where
Student's t of the seeds' few degrees reaches much further. So a p-value is the level at which the
interval ends at 0, with the quantiles of that level; p-values by the degrees of 95% were up to 29
times too small with three seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ENDLESS = 1e9
"""Degrees of freedom where nothing bounds them."""
FARTHEST = 1e150
"""Standard deviations that a t lies from 0 at most; their squares are finite."""


@dataclass(frozen=True, kw_only=True)
class Variance:
    """Of a mean over training seeds and problems, in the parts that its interval is made of,
    [columns] each."""

    n_seeds: int
    seeds: Floats
    """Due to seeds, with what is left of each seed's own mean; 0 with one seed."""
    problems: Floats
    """Due to problems, and as much of what is left as the seeds do not show."""
    degrees_of_problems: Floats
    satterthwaite: Floats
    """Degrees of freedom of both parts together."""

    @property
    def total(self) -> Floats:
        """Variance of the mean."""
        return self.seeds + self.problems

    def for_columns(self, columns: NDArray[np.int64]) -> Variance:
        """The same of these columns alone."""
        return Variance(
            n_seeds=self.n_seeds,
            seeds=self.seeds[columns],
            problems=self.problems[columns],
            degrees_of_problems=self.degrees_of_problems[columns],
            satterthwaite=self.satterthwaite[columns],
        )

    def half_width(self, tail: Floats | float) -> Floats:
        """Half the width of the interval of level 1 - 2 tail, [columns]; the interval's ends are
        as likely to be passed as `tail` each. tail: of each column, or of all, between 0 and 1/2.
        """
        # By hypot, since the squares of a far tail's t with one degree overflow.
        width = _beyond(self.degrees_of_problems, tail, self.problems)
        if self.n_seeds > 1:
            width = np.hypot(width, _beyond(self.n_seeds - 1, tail, self.seeds))
        if self.n_seeds > 2:
            width = np.hypot(width, _beyond(self.satterthwaite, tail, self.total)) / np.sqrt(2)
        return np.asarray(width)

    def degrees(self, tail: float) -> Floats:
        """Degrees of freedom of the Student's t whose interval of level 1 - 2 tail is as wide,
        [columns]; those of the seeds where only these differ, ENDLESS where nothing does."""
        from scipy.special import stdtridf

        varies = self.total > 0
        t = self.half_width(tail) / np.sqrt(np.where(varies, self.total, 1.0))
        degrees = stdtridf(1 - tail, np.where(varies, t, 2.0))
        return np.asarray(np.where(varies, np.clip(degrees, 1.0, ENDLESS), ENDLESS))


def _beyond(degrees: Floats | int, tail: Floats | float, variance: Floats) -> Floats:
    """How far from its mean a Student's t of this variance passes with probability `tail`."""
    from scipy.special import stdtrit

    # Below one degree SciPy's t of a far tail can be infinite, of either sign (0.64656907 degrees
    # at 1e-100); times a variance of 0 that would be nan.
    return np.asarray(np.minimum(np.abs(stdtrit(degrees, tail)), FARTHEST) * np.sqrt(variance))


def spread(values: Floats) -> Floats:
    """The parts of the variance of a mean that its means by seed do not show, [3, columns].

    They are the part due to problems, at least 0 (with one seed all that there is), the part due to
    what is left (0 with one seed), and the sum of the squares of both mean squares, of problems and
    of what is left, over their degrees of freedom. values: float64 [seeds, problems, columns]
    without nan, at least two problems; where problems have clusters, [seeds, clusters, columns] of
    `fgrpo_bench.stats.intervals.by_cluster`.
    """
    n_seeds, n_problems, _ = values.shape
    by_problem = values.mean(axis=0)
    problems = by_problem.var(axis=0, ddof=1) / n_problems
    left, squares = np.zeros_like(problems), problems**2 / (n_problems - 1)
    if n_seeds > 1:
        residuals = (
            values - by_problem - values.mean(axis=1, keepdims=True) + by_problem.mean(axis=0)
        )
        degrees = (n_seeds - 1) * (n_problems - 1)
        left = (residuals * residuals).sum(axis=(0, 1)) / (degrees * n_seeds * n_problems)
        # an estimate of a variance by a difference can be negative: no part is below 0
        problems, squares = np.maximum(problems - left, 0.0), squares + left**2 / degrees
    return np.stack([problems, left, squares])


def average_spread(parts: Sequence[Floats]) -> Floats:
    """The same for the plain mean over several sets of problems, independent of each other."""
    n = len(parts)
    return np.asarray(np.sum(parts, axis=0) / np.array([[n**2], [n**2], [n**4]]))


def variance(by_seed: Floats, parts: Floats) -> Variance:
    """Of the mean. by_seed: [seeds, columns], the mean over problems of every seed; parts: of
    `spread`."""
    n_seeds, (problems, left, squares) = len(by_seed), parts
    seeds, of_problems = np.zeros_like(problems), degrees_of_problems(parts)
    satterthwaite = of_problems
    if n_seeds > 1:
        seeds = by_seed.var(axis=0, ddof=1) / n_seeds
        # Seeds that agree by chance do not lessen what is due to neither.
        problems = np.maximum(problems, left - seeds)
        satterthwaite = _over((seeds + problems) ** 2, squares + seeds**2 / (n_seeds - 1))
    return Variance(
        n_seeds=n_seeds,
        seeds=seeds,
        problems=problems,
        degrees_of_problems=of_problems,
        satterthwaite=satterthwaite,
    )


def normal_variance(
    *, n_seeds: int, seeds: Floats, problems: Floats | float, n_problems: NDArray[np.int64] | int
) -> Variance:
    """Of a mean whose parts are known to be those of normal seeds and problems, in the shape of
    `seeds`: its part due to seeds, at least 2. problems: its part due to problems. n_problems:
    behind it, one more than its degrees of freedom."""
    of_problems = np.maximum(np.asarray(n_problems) - 1, 1).astype(float)
    squares = problems**2 / of_problems + seeds**2 / (n_seeds - 1)
    total = (seeds + problems) ** 2
    satterthwaite = np.full_like(seeds, ENDLESS)
    np.divide(total, squares, out=satterthwaite, where=squares > total / ENDLESS)
    return Variance(
        n_seeds=n_seeds,
        seeds=seeds,
        problems=np.broadcast_to(problems, seeds.shape),
        degrees_of_problems=np.broadcast_to(of_problems, seeds.shape),
        satterthwaite=satterthwaite,
    )


def degrees_of_problems(parts: Floats) -> Floats:
    """Degrees of freedom of the part due to problems, [columns]. parts: of `spread`."""
    return _over((parts[0] + parts[1]) ** 2, parts[2])


def _over(squares: Floats, bound: Floats) -> Floats:
    """squares / bound, ENDLESS at most."""
    degrees = np.full_like(squares, ENDLESS)
    np.divide(squares, bound, out=degrees, where=bound > 0)
    return np.minimum(degrees, ENDLESS)
