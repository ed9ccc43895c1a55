"""Differences over all k at once, and where along k training falls behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.read import At, Floats, Ints, Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.stats.bands import GRID as GRID
from fgrpo_bench.stats.bands import first_loss, grid, in_words, largest, reach
from fgrpo_bench.stats.bootstrap import bootstrap_means
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    by_cluster,
    moments,
    room_of_average,
    room_of_difference,
)
from fgrpo_bench.stats.spread import of_average

PRECISION = 1e-10
"""Share of the squares of curves that directions may leave out, each."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """A difference over all k at once: in 95% the truth is within the band at every k together.

    Simultaneous over k, not over pairs of cells or columns. Every pair that a question asks for has
    one, computed at every k up to 16, from there at 8 a doubling and at the k of the evaluation;
    it ends where fewer than half of the problems have k judged draws."""

    column: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    k: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class FirstLoss:
    """Where along k a cell falls behind another, by the band."""

    column: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    low: int | None
    """First k whose band reaches below 0; null where none does: no loss at any k. Between the k of
    the band its ends are straight in log k."""
    high: int | None
    """First k whose band lies wholly below 0; null where none does: no loss is possible."""
    words: str
    """e.g. `better for k up to 4, undecided from 8 to 32, worse from 64`."""


@dataclass(frozen=True, kw_only=True)
class _Curves:
    """The difference of two cells on one benchmark, over the k of the grid."""

    by_seed: Floats
    """[seeds, ks]; nan where the band has ended."""
    parts: Floats
    """[3, ks], of fgrpo_bench.stats.spread."""
    room: Floats
    """[2, 3, ks], of fgrpo_bench.stats.intervals."""
    is_complete: NDArray[np.bool_]
    """[problems] or [clusters], those with a value up to the end of the band; the rest does not
    count for c."""
    by_problem: Floats
    """[problems, ks] or [clusters, ks], the mean over seeds of these, less their mean; 0 for the
    rest and beyond."""


def bands(
    resamples: Resamples, compared: Sequence[Compared], columns: Sequence[str], ks: Sequence[int]
) -> Iterator[Band]:
    """Rows by column, pair and k of fgrpo_bench.stats.bands.grid; an average only where all its
    benchmarks have the seeds that the pair has in common.

    At each k those problems count that have a value there, as in a comparison. A band ends where
    these are fewer than half, and fewer than two: where k is near the number of judged draws.
    """
    over = grid(ks)
    pairs = [(each.new, each.old) for each in compared]
    curves = {name: _of_pairs(resamples, name, pairs, over) for name in resamples.scores}
    directions = _directions([each for of_pair in curves.values() for each in of_pair.values()])
    drawn = {
        name: _resampled(of_pair, directions, resamples.streams[name])
        for name, of_pair in curves.items()
    }
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for pair in pairs:
            own = [curves[name][pair] for name in names if pair in curves[name]]
            seeds = {resamples.seeds(name, *pair) for name in names}
            if len(own) == len(names) and len(seeds) == 1:
                mean = np.mean([drawn[name][pair] for name in names], axis=0)
                yield from _rows(column, pair, over, own, directions, mean)


def _of_pairs(
    resamples: Resamples, name: str, pairs: Sequence[tuple[At, At]], ks: tuple[int, ...]
) -> dict[tuple[At, At], _Curves]:
    """Of the pairs with a seed in common, and two problems that have a value."""
    known: dict[tuple[At, tuple[int | None, ...]], Floats] = {}

    def of_cell(at: At, scores: Scores) -> Floats:
        key = at, scores.seeds
        if key not in known:  # a cell is in many pairs
            known[key] = scores.pass_at_ks(ks)
        return known[key]

    curves, clusters = {}, resamples.clusters(name)
    for new, old in pairs:
        after, before = resamples.paired(name, new, old)
        own = _curves(of_cell(new, after), of_cell(old, before), clusters)
        if own is not None:
            curves[new, old] = own
    return curves


def _curves(new: Floats, old: Floats, clusters: Ints | None) -> _Curves | None:
    """new, old: [seeds, problems, ks]; clusters: Scores.clusters."""
    values = new - old
    by_seed, n_problems, parts = moments(values, clusters=clusters)
    within = (n_problems >= 2) & (2 * n_problems >= n_problems[0])
    if not len(by_seed) or not within[0]:
        return None
    by_seed[:, ~within] = np.nan
    is_complete = np.asarray(~np.isnan(values[:, :, within]).any(axis=(0, 2)))
    known = values[:, is_complete][:, :, within].mean(axis=0)
    if clusters is not None:
        n_clusters, present = clusters.max() + 1, clusters[is_complete]
        known = by_cluster(known[None], present)[0]
        is_complete = np.isin(np.arange(n_clusters), present)
    by_problem = np.zeros((len(is_complete), values.shape[2]))
    by_problem[np.ix_(is_complete, within)] = known - known.mean(axis=0)
    return _Curves(
        by_seed=by_seed,
        parts=parts,
        room=room_of_difference(new, old, clusters=clusters),
        is_complete=is_complete,
        by_problem=by_problem,
    )


def _directions(curves: Sequence[_Curves]) -> Floats:
    """The few directions that all curves lie in, orthogonal, [ks, directions]: resamples of these
    are resamples at every k, at a fifth of the cost."""
    if not curves:
        return np.empty((0, 0))
    squares = np.sum([each.by_problem.T @ each.by_problem for each in curves], axis=0)
    sizes, vectors = np.linalg.eigh(squares)
    return np.asarray(vectors[:, sizes > PRECISION * sizes[-1]])


def _resampled(
    curves: Mapping[tuple[At, At], _Curves], directions: Floats, stream: int
) -> dict[tuple[At, At], Floats]:
    """Means of resampled problems less their mean, along the directions, [directions, replicates].

    The same resamples as of an interval: a problem that is not whole counts 0 times."""
    if not curves:
        return {}
    values = [
        np.concatenate([each.by_problem @ directions, each.is_complete[:, None]], axis=1)
        for each in curves.values()
    ]
    together = np.concatenate(values, axis=1, dtype=np.float32)
    means = bootstrap_means(together[None], stream=stream)
    by_pair = np.split(means, len(values))
    return {
        pair: own[:-1] / np.maximum(own[-1:], 1e-9)
        for pair, own in zip(curves, by_pair, strict=True)
    }


def _rows(
    column: str,
    pair: tuple[At, At],
    ks: Sequence[int],
    curves: Sequence[_Curves],
    directions: Floats,
    resampled: Floats,
) -> Iterator[Band]:
    by_seed = np.mean([each.by_seed for each in curves], axis=0)
    parts = of_average([each.parts for each in curves])
    n = int((~np.isnan(by_seed[0])).sum())
    strays = largest(directions[:n], resampled)
    below, above = reach(
        ks[:n],
        by_seed=by_seed[:, :n],
        parts=parts[:, :n],
        strays=strays,
        room=room_of_average([each.room for each in curves])[:, :, :n],
    )
    means = by_seed[:, :n].mean(axis=0)
    ends = np.clip([means - below, means + above], *DIFFERENCES)
    for k, mean, low, high in zip(ks[:n], means.tolist(), *ends.tolist(), strict=True):
        yield Band(
            column=column,
            new=pair[0][0],
            old=pair[1][0],
            k=k,
            difference=mean,
            low=low,
            high=high,
        )


def first_losses(rows: Sequence[Band]) -> Iterator[FirstLoss]:
    """A row a column and pair. rows: of `bands`."""
    for (column, new, old), group in groupby(rows, key=lambda row: (row.column, row.new, row.old)):
        own = list(group)
        ks = [row.k for row in own]
        low, high = np.array([[row.low, row.high] for row in own]).T
        first, certain = first_loss(ks, low, high)
        yield FirstLoss(
            column=column, new=new, old=old, low=first, high=certain, words=in_words(ks, low, high)
        )
