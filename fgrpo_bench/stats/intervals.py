"""Means over training seeds and problems with bootstrap intervals of the right width for few seeds.

The data of a cell are crossed: every seed's model is judged on the same problems. The bootstrap
resamples both, independently: problems with replacement and seeds with replacement, and a value
counts (times its seed was drawn) x (times its problem was drawn). This is the pigeonhole bootstrap
(Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 386-411).

Where problems have clusters (several targets to one multiset of numbers, several questions to one
passage), clusters are resampled in place of problems: a mean over problems is the ratio of two sums
over clusters, and `by_cluster` has its linear parts.

Its percentiles alone would not do. For S seeds it holds (S - 1) / S of the variance that is due to
seeds, and counts what is due to neither seeds nor problems up to three times; where only seeds
differ, its 95% interval of three seeds is their range, which holds the true mean of a symmetric
distribution 3 times in 4. So the bootstrap gives the shape of an interval, how far it reaches below
and above the mean, and `fgrpo_bench.stats.spread` its width: standard deviation and degrees of
freedom of Student's t. With one seed that is an interval over problems only and says nothing about
another training run. `python -m tests.calibration` measures what it holds.

Resamples of two seeds reach no further than the seeds do, so with two of them the shape is to
either side no less than that of Student's t itself.

Near 0 and near 1 a resample knows too little: where all of 256 problems are solved, all resamples
say 100%, and one problem in a hundred may be unsolvable all the same. So where fewer than NEAR
problems' worth lies off such an end, an interval leaves room there for one problem more than were
seen, as the gamma interval of Fay and Feuer does (1997, Statistics in Medicine 16, 791-801, with
the largest weight w_M = 1 / problems): of 256 problems that are all solved it begins at 98.6%.

A p-value is 1 less the level of the interval that ends at 0, with all of this: no p below 0.05
stands beside a 95% interval that holds 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.spread import Variance, average_spread, spread, variance

REPLICATES = 10_000
"""Resamples."""
SEED = 0
"""Of the resamples, so that a report comes out alike each time."""
BLOCK = 256
"""Columns of all seeds that are resampled at once: enough for the product of matrices to be fast,
and few enough that what it makes (REPLICATES x BLOCK floats) stays small."""

ROWS = 256
"""Resamples that are counted at once."""


def bootstrap_means(
    values: NDArray[Any],
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
    stream: int = 0,
) -> NDArray[Any]:
    """Means of resampled data, [columns, replicates], in the type of the values.

    values: float64 or float32 [seeds, problems, columns] without nan. The same shape, seed and
    stream give the same resamples, whatever the values; streams differ in the problems that they
    draw.
    """
    n_seeds, n_problems, n_columns = values.shape
    counts = _counts(n_problems, replicates, seed, 1 + stream).astype(values.dtype)
    of_seeds = _counts(n_seeds, replicates, seed, 0)
    means = np.empty((n_columns, replicates), values.dtype)
    width = max(1, BLOCK // n_seeds)
    for start in range(0, n_columns, width):
        block = slice(start, start + width)
        # Resamples by columns: the other way round the last digits of one depend on how many others
        # there are.
        by_seed = np.tensordot(counts, values[:, :, block], axes=(1, 1))
        means[block] = np.einsum("bs,bsc->bc", of_seeds, by_seed).T
    means /= n_seeds * n_problems
    return means


@lru_cache(maxsize=12)
def _counts(size: int, replicates: int, seed: int, axis: int) -> NDArray[np.uint16]:
    """How often a resample draws each of `size` things, [replicates, size].

    Whole numbers, divided only at the end, so that a column of ones has the mean 1 exactly.
    """
    rng, counts = np.random.default_rng([seed, axis]), np.empty((replicates, size), np.uint16)
    for start in range(0, replicates, ROWS):  # what fits into the processor's cache
        rows = counts[start : start + ROWS]
        drawn = rng.integers(0, size, rows.shape)
        drawn += size * np.arange(len(rows))[:, None]
        rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
    counts.setflags(write=False)
    return counts


def tails(means: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """The quantiles `tail` and 1 - `tail` of every row, [2, rows]; straight between two resamples,
    as np.quantile, which takes many times as long.

    means: [rows, replicates], without nan.
    """
    places = np.array([tail, 1 - tail]) * (means.shape[1] - 1)
    below, above = np.floor(places).astype(int), np.ceil(places).astype(int)
    placed = np.partition(means, np.union1d(below, above), axis=1)
    low, high = placed[:, below], placed[:, above]
    return np.asarray((low + (high - low) * (places - below)).T)


Floats = NDArray[np.float64]
Clusters = NDArray[np.int64] | None
LEVEL = 0.95
"""Of every interval and band."""
Limits = tuple[float, float]
FRACTIONS: Limits = (0.0, 1.0)
"""The least and the largest mean that there can be of fractions, e.g. pass@k."""
DIFFERENCES: Limits = (-1.0, 1.0)
"""The same of differences of two fractions."""
NEAR = 5.0
"""Problems' worth off an end below which an interval leaves room there: at 5 the resamples reach as
far as Poisson's distribution of that mean does. The room lessens in proportion from none to 5."""
LEAST_TAIL = 1e-100
"""Half the least p-value beside 0: SciPy's quantiles of Student's t are wrong from 1e-150 on."""


@dataclass(frozen=True, kw_only=True)
class IntervalEstimate:
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
    that at `level`; None like low. 0 where nothing varied around a mean that is not 0, nor left
    room for it."""


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Means over problems by seed, and means of resampled data: what an Estimate is made of."""

    by_seed: Floats
    """[seeds, columns]; nan where no problem has a value for every seed."""
    means: Floats
    """[columns, replicates]; nan with fewer than two such problems."""
    n_problems: NDArray[np.int64]
    """[columns]."""
    spread: Floats
    """[3, columns], of `fgrpo_bench.stats.spread`; nan likewise."""
    limits: Floats
    """[2, columns], the least and the largest mean that there can be."""
    room: Floats
    """[2, 3, columns], towards the low end and towards the high one: how far the mean lies off the
    end that leaves room, the weight of a problem that was not seen, and its square; the latter two
    are 0 where there is no room to leave."""


def estimate(
    values: Floats, *, limits: Limits, level: float = LEVEL, clusters: Clusters = None
) -> list[IntervalEstimate]:
    """Mean, interval and p-value of every column.

    values: float64 [seeds, problems, columns], e.g. pass@k with a column a k; nan where there is
    no value. A problem counts in a column only where every seed has a value there, so that all
    seeds are judged on the same problems. limits: FRACTIONS, DIFFERENCES, or infinite ones where
    nothing bounds the values; no interval ends beyond them, and near those of FRACTIONS there is
    room. level: how often the interval is to hold the truth. clusters: as of `resample`.
    """
    return conclude(resample(values, limits=limits, clusters=clusters), level=level)


def estimate_difference(
    new: Floats, old: Floats, *, level: float = LEVEL, clusters: Clusters = None
) -> list[IntervalEstimate]:
    """The same of the difference of two cells' fractions, new minus old, [seeds, problems, columns]
    each: it is paired over problems and seeds, and both sides are resampled alike."""
    room = room_of_difference(new, old, clusters=clusters)
    values = resample(new - old, limits=DIFFERENCES, clusters=clusters, room=room)
    return conclude(values, level=level)


def resample(
    values: Floats,
    *,
    limits: Limits,
    stream: int = 0,
    clusters: Clusters = None,
    room: Floats | None = None,
    replicates: int = REPLICATES,
) -> Resampled:
    """The data of `estimate` resampled; another stream resamples its problems independently, and
    seeds as every stream does.

    clusters: a number for every problem, alike where problems have something in common; None where
    no two have. room: of `Resampled`; None is that of fractions, and none under other limits.
    """
    by_seed, n_problems, varied = moments(values, clusters=clusters)
    means = np.full((values.shape[2], replicates), np.nan)
    for columns, known in _columns_by_problems(values, clusters):
        if known.shape[1] > 1:
            means[columns] = bootstrap_means(known, stream=stream, replicates=replicates)
    if room is None and limits == FRACTIONS:
        room = room_of_fractions(values, clusters=clusters)
    return Resampled(
        by_seed=by_seed,
        means=means,
        n_problems=n_problems,
        spread=varied,
        limits=np.repeat([[limits[0]], [limits[1]]], values.shape[2], axis=1),
        room=np.zeros((2, 3, values.shape[2])) if room is None else room,
    )


def moments(
    values: Floats, *, clusters: Clusters = None
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """by_seed, n_problems and spread as in `Resampled`, without resamples."""
    n_seeds, _, n_columns = values.shape
    complete = ~np.isnan(values).any(axis=0)
    by_seed, varied = np.full((n_seeds, n_columns), np.nan), np.full((3, n_columns), np.nan)
    for columns, known in _columns_by_problems(values, clusters):
        # One by one, so that no last digit depends on how many other seeds there are.
        by_seed[:, columns] = [np.ascontiguousarray(entry).mean(axis=0) for entry in known]
        if known.shape[1] > 1:
            varied[:, columns] = spread(known)
    return by_seed, complete.sum(axis=0), varied


def by_cluster(values: Floats, clusters: NDArray[np.int64]) -> Floats:
    """What clusters contribute to the mean over problems, [seeds, clusters, columns].

    Their mean is that over problems, and their variance is, to first order, that of the ratio of
    sums over clusters: mean + clusters / problems * (sum over the cluster of value - mean), Cochran
    1977, "Sampling Techniques", section 9A.7. values: [seeds, problems, columns] without nan;
    clusters: [problems], any numbers.
    """
    labels = np.unique(clusters)
    belongs = (clusters == labels[:, None]).astype(float)  # [clusters, problems]
    means = values.mean(axis=1, keepdims=True)
    return np.asarray(means + belongs @ (values - means) * (len(labels) / len(clusters)))


def room_of_fractions(values: Floats, *, clusters: Clusters = None) -> Floats:
    """`Resampled.room` of a mean of fractions: near 0 towards the high end, near 1 towards the low
    one. values, clusters: as of `resample`."""
    complete = np.asarray(~np.isnan(values).any(axis=0))
    return np.stack([_room(off, complete, clusters) for off in (1 - values, values)])


def room_of_difference(new: Floats, old: Floats, *, clusters: Clusters = None) -> Floats:
    """The same of the difference of two means of fractions: towards both ends where both are near
    0 or both near 1, and back from 1 or -1 where one is near 0 and the other near 1."""
    complete = np.asarray(~(np.isnan(new) | np.isnan(old)).any(axis=0))
    # By problem how far the one of both that is further lies off an end: both of 0, both of 1, all
    # that was solved lost (-1), all that was not solved gained (1).
    near_0, near_1, near_lost, near_gained = (
        _room(np.maximum(after.mean(axis=0), before.mean(axis=0))[None], complete, clusters)
        for after, before in ((new, old), (1 - new, 1 - old), (new, 1 - old), (1 - new, old))
    )

    def nearest(*rooms: Floats) -> Floats:
        # by the distance, the first row: the end that the values lie nearer to
        return np.where(rooms[0][0] <= rooms[1][0], rooms[0], rooms[1])

    alike = nearest(near_0, near_1)
    return np.stack([nearest(alike, near_gained), nearest(alike, near_lost)])


def _room(off: Floats, complete: NDArray[np.bool_], clusters: Clusters) -> Floats:
    """[3, columns]. off: how far values lie off an end, [seeds, problems, columns]; complete:
    [problems, columns], those that count."""
    n_problems = np.maximum(complete.sum(axis=0), 1)
    distance = np.where(complete, off, 0).sum(axis=(0, 1)) / (n_problems * max(len(off), 1))
    n_units = n_problems
    if clusters is not None:
        n_units = np.array([max(len(np.unique(clusters[column])), 1) for column in complete.T])
    weight = np.clip(1 - n_units * distance / NEAR, 0, 1) / n_units
    return np.stack([distance, weight, weight**2])


def room_of_average(parts: Sequence[Floats]) -> Floats:
    """The same of the plain mean over several sets of problems."""
    shares = np.array([1, 1, len(parts)])[:, None] * len(parts)
    return np.asarray(np.sum(parts, axis=0) / shares)


def _columns_by_problems(
    values: Floats, clusters: Clusters
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Columns with a value of every seed for the same problems, and the values of these, of
    problems or `by_cluster`."""
    complete = np.asarray(~np.isnan(values).any(axis=0))
    # The usual case first: to look for unlike columns takes longer than all else here.
    for mask in complete[:, :1].T if complete.all() else np.unique(complete, axis=1).T:
        if len(values) and mask.any():
            columns = np.flatnonzero((complete == mask[:, None]).all(axis=0))
            complete_values = values[:, mask][:, :, columns]
            yield (
                columns,
                complete_values
                if clusters is None
                else by_cluster(complete_values, clusters[mask]),
            )


def resample_together(
    cells: Sequence[Floats], *, limits: Limits, stream: int = 0, clusters: Clusters = None
) -> list[Resampled]:
    """`resample` of each cell's data, many times faster than one after the other: cells of as many
    seeds and problems are columns of one array. Ends differ from its own in the last digits."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, values in enumerate(cells):
        alike.setdefault(values.shape[:2], []).append(i)
    by_place: dict[int, Resampled] = {}
    for places in alike.values():
        columns = np.concatenate([cells[i] for i in places], axis=2)
        stacked = resample(columns, limits=limits, stream=stream, clusters=clusters)
        ends = np.cumsum([cells[i].shape[2] for i in places])
        for i, end in zip(places, ends, strict=True):
            own_columns = slice(end - cells[i].shape[2], end)
            by_place[i] = Resampled(
                by_seed=stacked.by_seed[:, own_columns],
                means=stacked.means[own_columns],
                n_problems=stacked.n_problems[own_columns],
                spread=stacked.spread[:, own_columns],
                limits=stacked.limits[:, own_columns],
                room=stacked.room[:, :, own_columns],
            )
    return [by_place[i] for i in range(len(cells))]


def difference(new: Resampled, old: Resampled, values: Floats, room: Floats) -> Resampled:
    """`resample` of the values of two cells' difference, from the resamples of both: where both
    have the same seeds, and in every column a value for every problem, these are the same ones.

    values: new minus old, [seeds, problems, columns], or `by_cluster` of it. room: of
    `room_of_difference`.
    """
    return Resampled(
        by_seed=new.by_seed - old.by_seed,
        means=new.means - old.means,
        n_problems=new.n_problems,
        spread=spread(values),
        limits=np.repeat([[DIFFERENCES[0]], [DIFFERENCES[1]]], values.shape[2], axis=1),
        room=room,
    )


def average(parts: Sequence[Resampled]) -> Resampled:
    """The plain mean over several sets of problems (at least one), each of the same seeds and
    columns and, for independent problems, of a stream of its own."""
    return Resampled(
        by_seed=np.mean([part.by_seed for part in parts], axis=0),
        means=np.mean([part.means for part in parts], axis=0),
        n_problems=np.sum([part.n_problems for part in parts], axis=0),
        spread=average_spread([part.spread for part in parts]),
        limits=np.mean([part.limits for part in parts], axis=0),
        room=room_of_average([part.room for part in parts]),
    )


def conclude(resampled: Resampled, *, level: float = LEVEL) -> list[IntervalEstimate]:
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
            IntervalEstimate(
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


def _ends(resampled: Resampled, columns: NDArray[np.int64], level: float) -> Floats:
    """Both ends of the interval, p, standard error and its degrees, [5, len(columns)]."""
    from scipy.special import ndtri

    by_seed, means = resampled.by_seed[:, columns], resampled.means[columns]
    mean, tail = by_seed.mean(axis=0), (1 - level) / 2
    spans = np.abs(ndtri(tail)) * means.std(axis=1)
    low, high = tails(means, tail)
    # How far the bootstrap reaches to either side, in standard deviations of a normal one.
    shape = np.zeros((2, len(columns)))
    np.divide(np.maximum([mean - low, high - mean], 0), spans, out=shape, where=spans > 0)
    if len(by_seed) == 2:  # resamples of two seeds reach no further than the seeds do
        shape = np.maximum(shape, 1.0)
    varied, room = variance(by_seed, resampled.spread[:, columns]), resampled.room[:, :, columns]
    ends = mean + np.stack(
        [-_reach(varied, shape[0], room[0], tail), _reach(varied, shape[1], room[1], tail)]
    )
    towards_0 = (mean < 0).astype(int), np.arange(len(mean))
    p = _level_at_0(mean, varied, shape[towards_0], room.transpose(0, 2, 1)[towards_0].T)
    ends = np.clip(ends, *resampled.limits[:, columns])
    return np.stack([*ends, p, np.sqrt(varied.total), varied.degrees(tail)])


def _reach(varied: Variance, shape: Floats, room: Floats, tail: Floats | float) -> Floats:
    """How far an interval of level 1 - 2 tail reaches to one side of the mean, [columns]."""
    width = varied.half_width(tail)
    return with_room(shape * width, width=width, variance=varied.total, room=room, tail=tail)


def with_room(
    reach: Floats, *, width: Floats, variance: Floats, room: Floats, tail: Floats | float
) -> Floats:
    """How far an interval of level 1 - 2 tail reaches to one side with room for one problem more,
    [columns]; the same where there is no room to leave.

    reach: without it. width: Student's, half of it; variance: of the mean; room: [3, columns], as
    of `Resampled` towards this side. With that problem the mean and its variance are those of a
    gamma distribution, whose quantile gives the shape. No more is added than where nothing lies off
    the end: -log(tail) problems, 3.69 for 95%; seeds that differ need no further room.
    """
    from scipy.special import gammainccinv, ndtri

    distance, weight, square = room
    if not (weight > 0).any():
        return reach
    # moments of the gamma: its shape is the square of the mean over the variance
    count = (distance + weight) ** 2 / np.maximum(variance + square, LEAST_TAIL)
    quantile = (gammainccinv(count, tail) - count) / np.sqrt(count)
    further = weight + quantile * np.hypot(width / -ndtri(tail), np.sqrt(square))
    # at most what one problem more could add where nothing lies off the end; never less than before
    further = np.minimum(further, reach - weight * np.log(tail))
    return np.where(weight > 0, np.maximum(reach, further), reach)


def _level_at_0(mean: Floats, varied: Variance, shape: Floats, room: Floats) -> Floats:
    """1 less the level of the interval that ends at 0, [columns]; shape, room: towards 0."""
    from scipy.optimize.elementwise import find_root

    far, p = np.abs(mean), np.ones(len(mean))
    ends = np.log(LEAST_TAIL), np.log(0.4999)

    def beyond(log_tail: Floats, at: NDArray[np.int64]) -> Floats:
        """Logarithm of how many times as far as 0 the interval reaches."""
        part = varied.for_columns(at)
        reach = _reach(part, shape[at], room[:, at], np.exp(log_tail))
        return np.asarray(np.log(np.maximum(reach, LEAST_TAIL)) - np.log(far[at]))

    at = np.flatnonzero(far > 0)
    widest, narrowest = (beyond(np.full(len(at), end), at) for end in ends)
    p[at[widest <= 0]] = 0.0  # even the widest interval ends before 0
    at = at[(widest > 0) & (narrowest < 0)]
    if at.size:
        p[at] = 2 * np.exp(find_root(beyond, ends, args=(at,)).x)
    return p


def _nothing(n_seeds: int) -> IntervalEstimate:
    return IntervalEstimate(
        mean=None, low=None, high=None, by_seed=(), n_seeds=n_seeds, n_problems=0
    )
