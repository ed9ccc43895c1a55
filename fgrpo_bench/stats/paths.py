"""What one path keeps more of than another at the pass@1 that both reach.

A training run whose checkpoints are evaluated goes a path in the plane of pass@1 and pass@k, from
its base model on. Comparing last checkpoints compares speeds too: a run that has learned less keeps
more. Here two paths of one training seed are compared where their pass@1 is equal.

Rule of monotony: a checkpoint is on the path where its pass@1 is above that of every earlier one,
by more than the luck of their draws explains (`on_path`). So a path is where a run stood when it
first reached a pass@1. Between its checkpoints it is the monotone cubic of Fritsch and Butland
(1984, SIAM Journal on Scientific and Statistical Computing 5(2), 300-304), with the ends of SciPy's
PchipInterpolator; chords would lie below a path that bends downwards, and further below the path of
the faster run, whose checkpoints are further apart.

The gap of a seed is a smooth function of a few means over problems: pass@1 and pass@k of every
checkpoint. To first order it varies with the problems as gap + gradient . (value of the problem -
mean), the linear parts that `Gaps.parts` has; their mean over problems is the gap itself, and they
go through fgrpo_bench.stats.intervals like any other values, so that the estimation of pass@1 is in
the interval (the delta method; van der Vaart 1998, "Asymptotic Statistics", chapter 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVELS = 11
"""Places of a curve, over the range of pass@1 that both paths of every seed reach."""
NODES = 24
"""Of the integral over the range (Gauss and Legendre)."""
APART = 2.0
"""Standard errors of the draws by which a checkpoint is above all earlier ones."""
STEP = 1e-6
"""Of central differences, in pass@1 and pass@k; less where checkpoints are nearer to each other."""
END, MEAN = 0, 1
"""Places of `Gaps.by_seed` before those of the curve: at the highest pass@1 that both reach, and
the mean over the range."""


@dataclass(frozen=True, kw_only=True)
class PassCurve:
    """A cell's evaluated checkpoints on one set of problems, its base model first where there is
    one."""

    pass_at_1: Floats
    """[seeds, checkpoints, problems], without nan."""
    pass_at_k: Floats
    """[seeds, checkpoints, problems, ks], without nan."""
    noise: Floats
    """[seeds, checkpoints], variance of mean pass@1 over the draws; nan where it is unknown."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """pass@k of cells at the pass@1 that all of them reach, weighed and added up, of every seed; of
    two cells new minus old."""

    low: Floats
    """[seeds], pass@1 from which on all paths go."""
    high: Floats
    """[seeds], the highest pass@1 that all reach; at most `low` where ranges do not meet."""
    levels: Floats
    """[levels], pass@1 at the places of the curve; none where the seeds have no range in common."""
    by_seed: Floats
    """[seeds, 2 + levels, ks]: at END, as MEAN, then along the curve."""
    new: Floats
    """[seeds, 2 + levels, ks], pass@k of the first cell there, the new one."""
    parts: tuple[Floats, ...]
    """By set of problems [seeds, problems, 2 + levels, ks], whose mean over problems is by_seed."""
    width: tuple[Floats, ...]
    """Likewise [seeds, problems] of high - low."""
    sides: tuple[tuple[Floats, ...], ...]
    """Likewise, pass@k by problem of every cell where paths are straight between checkpoints:
    fractions, which say how near they are to 0 and 1."""

    @property
    def meet(self) -> bool:
        """Whether the ranges of every seed meet."""
        return bool((self.high > self.low).all())


def on_path(pass_at_1: Floats, noise: Floats) -> NDArray[np.int64]:
    """Which checkpoints are on the path, by rising pass@1; the first one always is.

    pass_at_1: [checkpoints], means over problems; noise: [checkpoints], their variance over the
    draws, nan counts as none.
    """
    kept, noise = [0], np.nan_to_num(noise)
    for i in range(1, len(pass_at_1)):
        last = kept[-1]
        if pass_at_1[i] - pass_at_1[last] > APART * np.sqrt(noise[i] + noise[last]):
            kept.append(i)
    return np.array(kept)


def along(x: Floats, y: Floats, at: Floats) -> Floats:
    """Paths between their checkpoints, [paths, places, ks]; beyond its ends a path goes on as its
    last piece.

    x: [paths, checkpoints], rising; y: [paths, checkpoints, ks]; at: [paths, places].
    """
    if x.shape[1] == 1:
        return np.repeat(y, at.shape[1], axis=1)
    h = np.diff(x, axis=1)[:, :, None]
    chords = np.diff(y, axis=1) / h
    slopes = _slopes(h, chords)
    piece = (at[:, :, None] >= x[:, None, 1:-1]).sum(axis=2)
    of_path = np.arange(len(x))[:, None]
    width = h[of_path, piece]
    u = (at - x[of_path, piece])[:, :, None] / width
    start, end = y[of_path, piece], y[of_path, piece + 1]
    first, last = width * slopes[of_path, piece], width * slopes[of_path, piece + 1]
    cubic = start * (1 + 2 * u) * (1 - u) ** 2 + first * u * (1 - u) ** 2
    return np.asarray(cubic + end * u**2 * (3 - 2 * u) + last * u**2 * (u - 1))


def at_pass_at_1(level: float, pass_at_1: Floats, pass_at_k: Floats) -> float | None:
    """pass@k of one path where it reaches a pass@1; None where it does not. Both [checkpoints],
    fractions."""
    kept = on_path(pass_at_1, np.zeros_like(pass_at_1))
    x, y = pass_at_1[kept], pass_at_k[kept]
    if not x[0] <= level <= x[-1]:
        return None
    return float(along(x[None], y[None, :, None], np.array([[level]]))[0, 0, 0])


def _slopes(h: Floats, chords: Floats) -> Floats:
    """At every checkpoint, [paths, checkpoints, ks]. h: [paths, pieces, 1]; chords: by piece."""
    if chords.shape[1] == 1:
        return np.repeat(chords, 2, axis=1)
    before, after = chords[:, :-1], chords[:, 1:]
    w_before, w_after = h[:, :-1] + 2 * h[:, 1:], 2 * h[:, :-1] + h[:, 1:]
    same = before * after > 0  # where a path turns it is level
    inverse = w_before / np.where(same, before, 1) + w_after / np.where(same, after, 1)
    inner = np.where(same, (w_before + w_after) / np.where(same, inverse, 1), 0)
    first = _end(h[:, 0], h[:, 1], chords[:, 0], chords[:, 1])
    last = _end(h[:, -1], h[:, -2], chords[:, -1], chords[:, -2])
    return np.concatenate([first[:, None], inner, last[:, None]], axis=1)


def _end(h: Floats, h_next: Floats, chord: Floats, next_chord: Floats) -> Floats:
    """Slope at an end by three checkpoints, kept from turning the path."""
    slope = ((2 * h + h_next) * chord - h * next_chord) / (h + h_next)
    slope = np.where(slope * chord <= 0, 0, slope)
    turns = (chord * next_chord <= 0) & (np.abs(slope) > 3 * np.abs(chord))
    return np.asarray(np.where(turns, 3 * chord, slope))


def gaps(new: Sequence[PassCurve], old: Sequence[PassCurve]) -> Gaps:
    """What the new cell keeps more than the old one: `weighed` with 1 and -1."""
    return weighed([new, old], [1.0, -1.0])


def weighed(by_cell: Sequence[Sequence[PassCurve]], weights: Sequence[float]) -> Gaps:
    """A sum over cells of a weight times pass@k at the pass@1 that all of them reach, paired by
    seed.

    by_cell: a Path for each set of problems over which pass@1 and pass@k are averaged, one for a
    benchmark; of the same seeds, in the same order, and problems.
    """
    cells = [_Means.over(paths) for paths in by_cell]
    n_seeds = len(cells[0].x)
    kept = [[on_path(c.x[s], c.noise[s]) for c in cells] for s in range(n_seeds)]
    ends = np.array(
        [
            [(c.x[s, at[0]], c.x[s, at[-1]]) for c, at in zip(cells, kept[s], strict=True)]
            for s in range(n_seeds)
        ]
    )  # [seeds, cells, 2]
    low, high = ends[:, :, 0].max(axis=1), ends[:, :, 1].min(axis=1)
    shared = low.max(), high.min()
    levels = np.linspace(*shared, LEVELS) if shared[0] < shared[1] else np.empty(0)
    n_ks = cells[0].y.shape[2]
    by_seed = np.full((n_seeds, 2 + len(levels), n_ks), np.nan)
    of_new, parts = (
        by_seed.copy(),
        [np.full((n_seeds, p.pass_at_1.shape[2], *by_seed.shape[1:]), np.nan) for p in by_cell[0]],
    )
    sides = [tuple(of_set.copy() for _ in cells) for of_set in parts]
    by_set = list(zip(*by_cell, strict=True))
    width = [_width(paths, kept, ends) for paths in by_set]
    for s in np.flatnonzero(high > low):
        means = [(c.x[s, at], c.y[s, at]) for c, at in zip(cells, kept[s], strict=True)]
        by_seed[s], of_new[s], gradients = _linear(means, levels, weights)
        straight = [_shares(x, low[s], high[s], levels) for x, _ in means]
        for of_set, of_sides, paths in zip(parts, sides, by_set, strict=True):
            of_set[s] = by_seed[s]
            for path, at, (dx, dy), side, shares in zip(
                paths, kept[s], gradients, of_sides, straight, strict=True
            ):
                x, y = path.pass_at_1[s, at], path.pass_at_k[s, at]
                side[s] = np.einsum("qt,tpk->pqk", shares, y)
                of_set[s] += np.einsum("tp,tqk->pqk", x - x.mean(axis=1, keepdims=True), dx)
                of_set[s] += np.einsum("tpk,tqk->pqk", y - y.mean(axis=1, keepdims=True), dy)
    return Gaps(
        low=low, high=high, levels=levels, by_seed=by_seed, new=of_new, parts=tuple(parts),
        width=tuple(width), sides=tuple(sides),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Means:
    """Of a cell, over problems and sets of problems."""

    x: Floats
    """[seeds, checkpoints], pass@1."""
    y: Floats
    """[seeds, checkpoints, ks], pass@k."""
    noise: Floats
    """[seeds, checkpoints]."""

    @classmethod
    def over(cls, paths: Sequence[PassCurve]) -> _Means:
        return cls(
            x=np.mean([path.pass_at_1.mean(axis=2) for path in paths], axis=0),
            y=np.mean([path.pass_at_k.mean(axis=2) for path in paths], axis=0),
            noise=np.sum([path.noise for path in paths], axis=0) / len(paths) ** 2,
        )


def _width(
    paths: Sequence[PassCurve], kept: Sequence[Sequence[NDArray[np.int64]]], ends: Floats
) -> Floats:
    """[seeds, problems], pass@1 where the range of a seed ends less that where it begins."""
    out = np.empty((len(kept), paths[0].pass_at_1.shape[2]))
    for s, of_seed in enumerate(kept):
        begins, ends_at = int(ends[s, :, 0].argmax()), int(ends[s, :, 1].argmin())
        last = paths[ends_at].pass_at_1[s, of_seed[ends_at][-1]]
        out[s] = last - paths[begins].pass_at_1[s, of_seed[begins][0]]
    return out


def _linear(
    means: Sequence[tuple[Floats, Floats]], levels: Floats, weights: Sequence[float]
) -> tuple[Floats, Floats, list[tuple[Floats, Floats]]]:
    """Sum of one seed, pass@k of the first cell there, and the gradient by cell in x and y,
    [checkpoints, 2 + levels, ks] each. means: of every cell, on its path.
    """
    sizes = [len(x) for x, _ in means]
    nearest = min(float(np.diff(x).min()) for x, _ in means if len(x) > 1)
    step = min(STEP, nearest / 20)
    n = 2 * sum(sizes)
    # The first is as it is; then each mean is moved up, then each down.
    moves = np.concatenate([np.zeros((1, n)), step * np.eye(n), -step * np.eye(n)])
    xs, ys, place = [], [], 0
    for (x, y), size in zip(means, sizes, strict=True):
        xs.append(x + moves[:, place : place + size])
        ys.append(y + moves[:, place + size : place + 2 * size, None])
        place += 2 * size
    sums, of_new = _sum(xs, ys, levels, weights)
    slopes = (sums[1 : n + 1] - sums[n + 1 :]) / (2 * step)
    gradients, place = [], 0
    for size in sizes:
        gradients.append((slopes[place : place + size], slopes[place + size : place + 2 * size]))
        place += 2 * size
    return sums[0], of_new[0], gradients


def _shares(x: Floats, low: float, high: float, levels: Floats) -> Floats:
    """Shares of the checkpoints at each place where paths are straight between them,
    [2 + levels, checkpoints]. x: [checkpoints], pass@1."""
    at = _places(np.array([[low]]), np.array([[high]]), levels)[0]
    if len(x) == 1:
        return np.ones((2 + len(levels), 1))
    shares = np.array([np.interp(at, x, share) for share in np.eye(len(x))]).T
    return np.asarray(_placed(shares[None])[0])


def _places(low: Floats, high: Floats, levels: Floats) -> Floats:
    """pass@1 of each place, the mean's nodes one by one, [paths, 1 + NODES + levels]; low, high:
    [paths, 1]."""
    nodes, _ = np.polynomial.legendre.leggauss(NODES)
    over = low + (high - low) * (1 + nodes) / 2
    return np.concatenate([high, over, np.repeat(levels[None], len(low), axis=0)], axis=1)


def _placed(values: Floats) -> Floats:
    """Values there, [paths, 1 + NODES + levels, ...], with the nodes put together."""
    _, weights = np.polynomial.legendre.leggauss(NODES)
    mean = np.einsum("q,bqk->bk", weights / 2, values[:, 1 : 1 + NODES])
    return np.concatenate([values[:, :1], mean[:, None], values[:, 1 + NODES :]], axis=1)


def _sum(
    xs: Sequence[Floats], ys: Sequence[Floats], levels: Floats, weights: Sequence[float]
) -> tuple[Floats, Floats]:
    """[paths, 2 + levels, ks]: the weighed sum over cells, and pass@k of the first one."""
    low = np.max([x[:, 0] for x in xs], axis=0)[:, None]
    high = np.min([x[:, -1] for x in xs], axis=0)[:, None]
    at = _places(low, high, levels)
    placed = [_placed(along(x, y, at)) for x, y in zip(xs, ys, strict=True)]
    return np.tensordot(weights, placed, axes=1), placed[0]
