"""A difference in pass@k over all k at once, and from which k on it is a loss.

Intervals at single k hold their truth one by one; a band holds the whole curve as often as it says.
It adds the squares of two widths, one for the problems and one for the seeds, as
`fgrpo_bench.stats.spread` does for two seeds.

Problems: the resamples of problems say how far a curve strays. The largest deviation over k, in
standard deviations at each k, is below `c` in 95% of them; a normal variable is at one k with the
probability 1 - 2 Phi(-c), and at this level Student's t of the problems' degrees is the width.

Seeds: resamples of two or three seeds do not say how curves of seeds stray, and where these cross
by chance their spread nearly vanishes. So at no k is the spread of seeds taken for less than its
share over all k (in proportion to what is due to problems and to neither, averaged over log k), and
its width is Student's t of S - 1 degrees, or that of the twice as many that the borrowing gives,
times c / 1.96, whichever is wider. Made like the width for problems, with Satterthwaite's degrees
at each k, a band of three seeds held the curve in 87 to 97% and one of two in 82 to 97% on the five
kinds of planted truths on which this one held it in 94 to 99% and 98 to 100%
(`python -m tests.calibration` has one of them).

Nowhere is a band narrower than Student's interval at that k, and near 0 and 100% it has the room of
an interval there. It is simultaneous over k, not over pairs of cells. With one seed it is a band
over problems only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.intervals import LEVEL, with_room
from fgrpo_bench.stats.spread import degrees_of_problems, variance

Floats = NDArray[np.float64]
SINGLE = 16
"""Up to here a band is computed at every k."""
STEPS = 8
"""And from there at so many equal steps a doubling."""
GRID = (
    f"computed at every k up to {SINGLE}, from there at {STEPS} a doubling and at the k of the "
    "evaluation, and straight in log k between these"
)
"""The k of a band in words."""


def grid(ks: Sequence[int]) -> tuple[int, ...]:
    """The k of a band, rising: from 1 to the largest of `ks`, and all of these."""
    largest, start = max(ks), SINGLE
    out = {*ks, *range(1, min(SINGLE, largest) + 1)}
    while start < largest:
        out |= {k for k in range(start, 2 * start, start // STEPS) if k < largest}
        start *= 2
    return tuple(sorted(out))


def band_halfwidth(
    ks: Sequence[int],
    *,
    by_seed: Floats,
    parts: Floats,
    largest_deviations: Floats,
    room: Floats,
    level: float = LEVEL,
) -> Floats:
    """How far the band reaches below and above the difference, [2, ks].

    by_seed: [seeds, ks], the mean over problems of every seed. parts: [3, ks], of
    `fgrpo_bench.stats.spread`. largest_deviations: of `largest`, of resampled problems, each at
    its mean over seeds. room: [2, 3, ks], of `fgrpo_bench.stats.intervals.room_of_difference`.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    n_seeds, (problems, left, _), upper = len(by_seed), parts, (1 + level) / 2
    normal = float(ndtri(upper))
    # no k alone may be narrower than a normal interval: over one k the quantile is about that
    c = max(float(np.quantile(largest_deviations, level)), normal)
    squares = stdtrit(degrees_of_problems(parts), ndtr(c)) ** 2 * problems
    if n_seeds > 1:
        of_seeds, stable = by_seed.var(axis=0, ddof=1) / n_seeds, problems + left
        # at no k less than the share of seeds over all k: curves of few seeds cross by chance
        weights = np.gradient(np.log(ks)) if len(ks) > 1 else np.ones(1)
        share = (of_seeds @ weights) / (stable @ weights) if (stable > 0).any() else 0.0
        # S - 1 degrees, or the twice as many that the borrowing gives times c / 1.96: the wider
        t = max(stdtrit(n_seeds - 1, upper), c / normal * stdtrit(2 * (n_seeds - 1), upper))
        squares += t**2 * np.maximum(of_seeds, share * stable)
    varied = variance(by_seed, parts)
    width = varied.half_width(1 - upper)
    # and never narrower than the interval at that k
    wider = np.maximum(np.sqrt(squares), width)
    return np.stack(
        [
            with_room(wider, width=width, variance=varied.total, room=side, tail=1 - upper)
            for side in room
        ]
    )


def largest(directions: Floats, resampled: Floats) -> Floats:
    """How far each resample's curve strays from the mean at most, in standard deviations at each k,
    [replicates].

    directions @ resampled are the deviations from the mean: [ks, directions], [directions,
    replicates].
    """
    varied = np.einsum(
        "kd,de,ke->k", directions, np.atleast_2d(np.cov(resampled, ddof=0)), directions
    )
    scale = np.sqrt(np.divide(1, varied, out=np.zeros_like(varied), where=varied > 0))
    scaled = (directions * scale[:, None]).astype(resampled.dtype) @ resampled
    return np.asarray(np.abs(scaled, out=scaled).max(axis=0, initial=0.0))


def first_loss(ks: Sequence[int], low: Floats, high: Floats) -> tuple[int | None, int | None]:
    """The first k whose band reaches below 0, and the first whose band lies wholly below it.

    ks: of a band, rising; low, high: its ends there. None where there is no such k. Where the band
    holds the truth, the first k of a loss is between these two; without a second one there may be
    no loss, and without a first one there is none.
    """
    every, low, high = _at_every_k(ks, low, high)
    reaches, lies = np.flatnonzero(low < 0), np.flatnonzero(high < 0)
    return (
        int(every[reaches[0]]) if reaches.size else None,
        int(every[lies[0]]) if lies.size else None,
    )


def describe_band(ks: Sequence[int], low: Floats, high: Floats) -> str:
    """e.g. `better for k up to 4, undecided from 5 to 30, worse from 31`; as `first_loss`."""
    every, low, high = _at_every_k(ks, low, high)
    verdicts = np.where(low > 0, "better", np.where(high < 0, "worse", "undecided"))
    return ", ".join(_stretches(every.tolist(), verdicts.tolist()))


def _at_every_k(
    ks: Sequence[int], low: Floats, high: Floats
) -> tuple[NDArray[np.int64], Floats, Floats]:
    every, known = np.arange(ks[0], ks[-1] + 1), np.log(ks)
    return every, np.interp(np.log(every), known, low), np.interp(np.log(every), known, high)


def _stretches(ks: Sequence[int], verdicts: Sequence[str]) -> Iterator[str]:
    for verdict, places in groupby(range(len(ks)), key=lambda i: verdicts[i]):
        ks_below = [ks[i] for i in places]
        first, last = ks_below[0], ks_below[-1]
        if len(ks_below) == len(ks):
            yield f"{verdict} at every k"
        elif first == last:
            yield f"{verdict} at {first}"
        elif first == ks[0]:
            yield f"{verdict} for k up to {last}"
        elif last == ks[-1]:
            yield f"{verdict} from {first}"
        else:
            yield f"{verdict} from {first} to {last}"
