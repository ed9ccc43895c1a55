"""Means over training seeds and problems with bootstrap intervals of the right width for few seeds.

The data of a cell are crossed: every seed's model is judged on the same problems. The bootstrap
resamples both, independently: problems with replacement and seeds with replacement, and a value
counts (times its seed was drawn) x (times its problem was drawn). This is the pigeonhole bootstrap
(Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 386-411).

Its percentiles alone would not do. For S seeds it holds (S - 1) / S of the variance that is due to
seeds, and counts what is due to neither seeds nor problems up to three times; where only seeds
differ, its 95% interval of three seeds is their range, which holds the true mean of a symmetric
distribution 3 times in 4. So the bootstrap gives the shape of an interval, how far it reaches below
and above the mean, and `fgrpo_bench.stats.spread` its width: standard deviation and degrees of
freedom of Student's t. With one seed that is an interval over problems only and says nothing about
another training run. `python -m tests.calibration` measures what it holds.

Resamples of two seeds reach no further than the seeds do, so with two of them the shape is to
either side no less than that of Student's t itself.

An interval without width says that nothing varied in the data, not that the value is certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.bootstrap import REPLICATES, bootstrap_means, tails
from fgrpo_bench.stats.spread import of_average, spread, variance

LEVEL = 0.95
Limits = tuple[float, float]
FRACTIONS: Limits = (0.0, 1.0)
"""The least and the largest mean that there can be of fractions, e.g. pass@k."""
DIFFERENCES: Limits = (-1.0, 1.0)
"""The same of differences of two fractions."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds and problems (a fraction, or a difference of two)."""

    mean: float | None
    """None where no problem has a value for every seed."""
    low: float | None
    """Lower end of the interval; None, like high, with fewer than two problems."""
    high: float | None
    by_seed: tuple[float, ...]
    """The mean over problems of each seed; empty where mean is None."""
    n_seeds: int
    n_problems: int
    """Problems with a value for every seed; only these count."""
    standard_error: float | None = None
    """Of the mean, over problems and seeds; None like low."""
    degrees: float | None = None
    """Degrees of freedom of its Student's t; None like low."""
    p_value: float | None = None
    """Two-sided, of a mean of 0: 1 less the level of the interval that ends at 0, by the shape of
    that at `level`; None like low. 0 where nothing varied around a mean that is not 0."""


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Means over problems by seed, and means of resampled data: what an Estimate is made of."""

    by_seed: NDArray[np.float64]
    """[seeds, columns]; nan where no problem has a value for every seed."""
    means: NDArray[np.float64]
    """[columns, replicates]; nan with fewer than two such problems."""
    n_problems: NDArray[np.int64]
    """[columns]."""
    spread: NDArray[np.float64]
    """[3, columns], of `fgrpo_bench.stats.spread`; nan likewise."""
    limits: NDArray[np.float64]
    """[2, columns], the least and the largest mean that there can be."""


def estimate(
    values: NDArray[np.float64], *, limits: Limits, level: float = LEVEL
) -> list[Estimate]:
    """Mean, interval and p-value of every column.

    values: float64 [seeds, problems, columns], e.g. pass@k with a column a k; nan where there is
    no value. A problem counts in a column only where every seed has a value there, so that all
    seeds are judged on the same problems. For a difference between two cells pass the difference
    of their values: it is paired over problems and seeds, and both sides are resampled alike.
    limits: FRACTIONS, DIFFERENCES, or infinite ones where nothing bounds the values; no interval
    ends beyond them. level: how often the interval is to hold the truth.
    """
    return conclude(resample(values, limits=limits), level=level)


def resample(values: NDArray[np.float64], *, limits: Limits, stream: int = 0) -> Resampled:
    """The data of `estimate` resampled; another stream resamples its problems independently, and
    seeds as every stream does."""
    by_seed, n_problems, varied = moments(values)
    means = np.full((values.shape[2], REPLICATES), np.nan)
    for columns, known in _of_equal_problems(values):
        if known.shape[1] > 1:
            means[columns] = bootstrap_means(known, stream=stream)
    return Resampled(
        by_seed=by_seed,
        means=means,
        n_problems=n_problems,
        spread=varied,
        limits=np.repeat([[limits[0]], [limits[1]]], values.shape[2], axis=1),
    )


def moments(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """by_seed, n_problems and spread as in `Resampled`, without resamples."""
    n_seeds, _, n_columns = values.shape
    complete = ~np.isnan(values).any(axis=0)
    by_seed, varied = np.full((n_seeds, n_columns), np.nan), np.full((3, n_columns), np.nan)
    for columns, known in _of_equal_problems(values):
        # One by one, so that no last digit depends on how many other seeds there are.
        by_seed[:, columns] = [np.ascontiguousarray(own).mean(axis=0) for own in known]
        if known.shape[1] > 1:
            varied[:, columns] = spread(known)
    return by_seed, complete.sum(axis=0), varied


def _of_equal_problems(
    values: NDArray[np.float64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Columns with a value of every seed for the same problems, and the values of these."""
    complete = np.asarray(~np.isnan(values).any(axis=0))
    # The usual case first: to look for unlike columns takes longer than all else here.
    for mask in complete[:, :1].T if complete.all() else np.unique(complete, axis=1).T:
        if len(values) and mask.any():
            columns = np.flatnonzero((complete == mask[:, None]).all(axis=0))
            yield columns, values[:, mask][:, :, columns]


def resample_together(
    cells: Sequence[NDArray[np.float64]], *, limits: Limits, stream: int = 0
) -> list[Resampled]:
    """`resample` of each cell's data, many times faster than one after the other: cells of as many
    seeds and problems are columns of one array. Ends differ from its own in the last digits."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, values in enumerate(cells):
        alike.setdefault(values.shape[:2], []).append(i)
    by_place: dict[int, Resampled] = {}
    for places in alike.values():
        columns = np.concatenate([cells[i] for i in places], axis=2)
        stacked = resample(columns, limits=limits, stream=stream)
        ends = np.cumsum([cells[i].shape[2] for i in places])
        for i, end in zip(places, ends, strict=True):
            own = slice(end - cells[i].shape[2], end)
            by_place[i] = Resampled(
                by_seed=stacked.by_seed[:, own],
                means=stacked.means[own],
                n_problems=stacked.n_problems[own],
                spread=stacked.spread[:, own],
                limits=stacked.limits[:, own],
            )
    return [by_place[i] for i in range(len(cells))]


def difference(new: Resampled, old: Resampled, values: NDArray[np.float64]) -> Resampled:
    """`resample` of the values of two cells' difference, from the resamples of both: where both
    have the same seeds, and in every column a value for every problem, these are the same ones.

    values: new minus old, [seeds, problems, columns].
    """
    return Resampled(
        by_seed=new.by_seed - old.by_seed,
        means=new.means - old.means,
        n_problems=new.n_problems,
        spread=spread(values),
        limits=np.repeat([[DIFFERENCES[0]], [DIFFERENCES[1]]], values.shape[2], axis=1),
    )


def average(parts: Sequence[Resampled]) -> Resampled:
    """The plain mean over several sets of problems (at least one), each of the same seeds and
    columns and, for independent problems, of a stream of its own."""
    return Resampled(
        by_seed=np.mean([part.by_seed for part in parts], axis=0),
        means=np.mean([part.means for part in parts], axis=0),
        n_problems=np.sum([part.n_problems for part in parts], axis=0),
        spread=of_average([part.spread for part in parts]),
        limits=np.mean([part.limits for part in parts], axis=0),
    )


def conclude(resampled: Resampled, *, level: float = LEVEL) -> list[Estimate]:
    """Mean, interval and p-value of every column."""
    by_column = np.ascontiguousarray(resampled.by_seed.T)
    n_seeds, values = by_column.shape[1], by_column.tolist()
    drawn = np.flatnonzero(~np.isnan(resampled.means[:, 0]))
    rows = _ends(resampled, drawn, level).T if drawn.size else ()
    ends = {int(column): tuple(map(float, row)) for column, row in zip(drawn, rows, strict=True)}
    if not n_seeds:
        return [_nothing(0) for _ in values]
    out = []
    for column, mean in enumerate(by_column.mean(axis=1).tolist()):
        if math.isnan(mean):
            out.append(_nothing(n_seeds))
            continue
        lowest, highest, p_value, error, degrees = ends.get(column, (None,) * 5)
        out.append(
            Estimate(
                mean=mean,
                low=lowest,
                high=highest,
                by_seed=tuple(values[column]),
                n_seeds=n_seeds,
                n_problems=int(resampled.n_problems[column]),
                p_value=p_value,
                standard_error=error,
                degrees=degrees,
            )
        )
    return out


def _ends(resampled: Resampled, columns: NDArray[np.int64], level: float) -> NDArray[np.float64]:
    """Both ends of the interval, p, standard error and its degrees, [5, len(columns)]."""
    from scipy.special import ndtri, stdtr, stdtrit

    by_seed, means = resampled.by_seed[:, columns], resampled.means[columns]
    mean, tail = by_seed.mean(axis=0), (1 - level) / 2
    spans = np.abs(ndtri(tail)) * means.std(axis=1)
    low, high = tails(means, tail)
    # How far the bootstrap reaches to either side, in standard deviations of a normal one.
    shape = np.zeros((2, len(columns)))
    np.divide(np.maximum([mean - low, high - mean], 0), spans, out=shape, where=spans > 0)
    if len(by_seed) == 2:
        shape = np.maximum(shape, 1.0)
    of_mean, degrees = variance(by_seed, resampled.spread[:, columns])
    reach = shape * np.sqrt(of_mean)
    ends = mean + np.array([[-1], [1]]) * stdtrit(degrees, 1 - tail) * reach
    towards_0 = np.where(mean > 0, reach[0], reach[1])
    away = np.divide(np.abs(mean), towards_0, out=np.full(len(mean), np.inf), where=towards_0 > 0)
    p = np.where(mean == 0, 1.0, np.minimum(2 * stdtr(degrees, -away), 1))
    return np.stack([*np.clip(ends, *resampled.limits[:, columns]), p, np.sqrt(of_mean), degrees])


def _nothing(n_seeds: int) -> Estimate:
    return Estimate(mean=None, low=None, high=None, by_seed=(), n_seeds=n_seeds, n_problems=0)
