"""How far a mean over training seeds and problems varies: analysis of variance of a crossed table.

A value of seed s on problem p is a mean, an effect of the seed, one of the problem, and what is
left. With S seeds and P problems the mean of all varies by

    var(seeds) / S + var(problems) / P + var(left) / (S P),

which mean squares estimate without bias as (MS_seeds + MS_problems - MS_left) / (S P) (Searle,
Casella and McCulloch 1992, "Variance Components", chapter 4). Its degrees of freedom are
Satterthwaite's (1946, Biometrics Bulletin 2(6), 110-114): near S - 1 where the seeds differ as
wholes, near P - 1 where problems do. So three seeds that disagree give Student's t with 2 degrees.
How far two seeds differ is known so badly that two that agree by chance would pass for seeds that
always agree; for them each part has its own Student's t, and the squares of their widths are added
(Banerjee 1960, Sankhya 22, 357-358), which for normal parts holds at least what it promises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ENDLESS = 1e9
"""Degrees of freedom where nothing bounds them."""
UPPER = 0.975
"""Where Student's t of two seeds is that of Banerjee's width: the end of a 95% interval."""


def spread(values: Floats) -> Floats:
    """The parts of the variance of a mean that its means by seed do not show, [3, columns].

    They are the part due to problems, at least 0 (with one seed all that there is), the part due to
    what is left (0 with one seed), and the square of the first over its degrees of freedom.
    values: float64 [seeds, problems, columns] without nan, at least two problems.
    """
    n_seeds, n_problems, _ = values.shape
    by_problem = values.mean(axis=0)
    problems = by_problem.var(axis=0, ddof=1) / n_problems
    left = np.zeros_like(problems)
    if n_seeds > 1:
        rest = values - by_problem - values.mean(axis=1, keepdims=True) + by_problem.mean(axis=0)
        degrees = (n_seeds - 1) * (n_problems - 1)
        left = (rest * rest).sum(axis=(0, 1)) / (degrees * n_seeds * n_problems)
        problems = np.maximum(problems - left, 0.0)
    return np.stack([problems, left, problems**2 / (n_problems - 1)])


def of_average(parts: Sequence[Floats]) -> Floats:
    """The same for the plain mean over several sets of problems, independent of each other."""
    n = len(parts)
    return np.asarray(np.sum(parts, axis=0) / np.array([[n**2], [n**2], [n**4]]))


def variance(by_seed: Floats, parts: Floats) -> tuple[Floats, Floats]:
    """Variance of the mean and its degrees of freedom, [columns] each.

    by_seed: [seeds, columns], the mean over problems of every seed; parts: of `spread`.
    """
    n_seeds, (problems, left, bound) = len(by_seed), parts
    seeds = np.zeros_like(problems)
    if n_seeds > 1:
        seeds = by_seed.var(axis=0, ddof=1) / n_seeds
        bound = bound + seeds**2 / (n_seeds - 1)
    whole = seeds + problems
    degrees = np.full_like(whole, ENDLESS)
    np.divide(whole**2, bound, out=degrees, where=bound > 0)
    if n_seeds == 2:
        degrees = _of_two_seeds(seeds, parts)
    # Seeds that agree by chance do not lessen what is due to neither.
    return np.maximum(whole, left), np.minimum(degrees, ENDLESS)


def degrees_of_problems(parts: Floats) -> Floats:
    """Degrees of freedom of the part due to problems, [columns]. parts: of `spread`."""
    degrees = np.full_like(parts[0], ENDLESS)
    np.divide(parts[0] ** 2, parts[2], out=degrees, where=parts[2] > 0)
    return degrees


def _of_two_seeds(seeds: Floats, parts: Floats) -> Floats:
    """Degrees of freedom that give Banerjee's width; 1 where only seeds differ."""
    from scipy.special import stdtridf, stdtrit

    problems = parts[0]
    of_problems = stdtrit(degrees_of_problems(parts), UPPER)
    squares = stdtrit(1.0, UPPER) ** 2 * seeds + of_problems**2 * problems
    widths = np.full_like(seeds, stdtrit(ENDLESS, UPPER) ** 2)
    np.divide(squares, seeds + problems, out=widths, where=seeds + problems > 0)
    return np.asarray(np.clip(stdtridf(UPPER, np.sqrt(widths)), 1.0, ENDLESS))
