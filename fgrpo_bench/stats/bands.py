"""A difference in pass@k over all k at once, and from which k on it is a loss.

Intervals at single k hold their truth one by one; a band holds the whole curve in as many cases.
The bootstrap of seeds and problems says how much wider that is: the largest deviation over k of
each resample, in standard deviations of the resamples at that k, lies below `c` as often as the
band is to hold. A normal variable does so for a single k with the probability 1 - 2 Phi(-c), so at
this level every k is given Student's interval, with the standard error and the degrees of freedom
of `fgrpo_bench.stats.spread`. The band is simultaneous over k, not over pairs of cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.intervals import LEVEL, Resampled
from fgrpo_bench.stats.spread import variance

Floats = NDArray[np.float64]
SINGLE = 16
"""Up to here a band has every k."""
STEPS = 8
"""And from there so many equal steps a doubling."""
GRID = f"every k up to {SINGLE}, from there {STEPS} a doubling, and the k of the evaluation"
"""The k of a band in words."""


def grid(ks: Sequence[int]) -> tuple[int, ...]:
    """The k of a band, rising: from 1 to the largest of `ks`, and all of these."""
    out, start = set(ks) | set(range(1, min(SINGLE, max(ks)) + 1)), SINGLE
    while start < max(ks):
        out |= {k for k in range(start, 2 * start, start // STEPS) if k < max(ks)}
        start *= 2
    return tuple(sorted(out))


def band(resampled: Resampled, *, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Lower and upper end at every column, each [columns].

    resampled: a column a k. nan in a column without resamples, which the others do without.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    means = resampled.by_seed.mean(axis=0)
    low, high = np.full((2, len(means)), np.nan)
    own = np.flatnonzero(~np.isnan(resampled.means[0]))
    if own.size:
        largest = _largest_deviation(resampled.means[:, own] - means[own])
        c = max(float(np.quantile(largest, level)), float(ndtri((1 + level) / 2)))
        of_mean, degrees = variance(resampled.by_seed[:, own], resampled.spread[:, own])
        reach = stdtrit(degrees, ndtr(c)) * np.sqrt(of_mean)
        low[own], high[own] = np.clip([means[own] - reach, means[own] + reach],
                                      *resampled.limits[:, None, own])  # fmt: skip
    return low, high


def _largest_deviation(deviations: Floats) -> Floats:
    """Over columns, of every resample, in standard deviations of the column, [replicates]."""
    sd = deviations.std(axis=0)
    scaled = np.divide(np.abs(deviations), sd, out=np.zeros_like(deviations), where=sd > 0)
    return np.asarray(scaled.max(axis=1))


def first_loss(ks: Sequence[int], low: Floats, high: Floats) -> tuple[int | None, int | None]:
    """The first k whose band reaches below 0, and the first whose band lies wholly below it.

    None where there is no such k. If the band holds the truth at every k, the first k of a loss is
    between these two.
    """
    reaches, lies = np.flatnonzero(low < 0), np.flatnonzero(high < 0)
    return (
        int(ks[reaches[0]]) if reaches.size else None,
        int(ks[lies[0]]) if lies.size else None,
    )


def in_words(ks: Sequence[int], low: Floats, high: Floats) -> str:
    """e.g. `better for k up to 4, undecided from 5 to 30, worse from 32`."""
    verdicts = np.where(low > 0, "better", np.where(high < 0, "worse", "undecided"))
    return ", ".join(_stretches(ks, verdicts.tolist()))


def _stretches(ks: Sequence[int], verdicts: Sequence[str]) -> Iterator[str]:
    for verdict, places in groupby(range(len(ks)), key=lambda i: verdicts[i]):
        own = [ks[i] for i in places]
        first, last = own[0], own[-1]
        if len(own) == len(ks):
            yield f"{verdict} at every k"
        elif first == last:
            yield f"{verdict} at {first}"
        elif first == ks[0]:
            yield f"{verdict} for k up to {last}"
        elif last == ks[-1]:
            yield f"{verdict} from {first}"
        else:
            yield f"{verdict} from {first} to {last}"
