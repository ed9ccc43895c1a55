"""Differences over all k at once, and where along k training falls behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.read import Floats, Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import Band, FirstLoss
from fgrpo_bench.stats.bands import GRID as GRID
from fgrpo_bench.stats.bands import band, first_loss, grid, in_words
from fgrpo_bench.stats.intervals import DIFFERENCES, Resampled, average, resample
from fgrpo_bench.stats.passk import pass_at_k


def bands(
    resamples: Resamples, compared: Sequence[Compared], columns: Sequence[str], ks: Sequence[int]
) -> Iterator[Band]:
    """Rows by column, pair and k of fgrpo_bench.stats.bands.grid, of the pairs that have a seed in
    common. Where too few problems have k judged draws, there is no row."""
    over = grid(ks)
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for each in compared:
            seeds = resamples.seeds(column, each.new, each.old)
            if not seeds or any(resamples.seeds(n, each.new, each.old) != seeds for n in names):
                continue
            parts = []
            for name in names:
                new, old = resamples.paired(name, each.new, each.old)
                parts.append(_resampled(new, old, over, resamples.streams[name]))
            whole = parts[0] if len(parts) == 1 else average(parts)
            means = whole.by_seed.mean(axis=0)
            for k, mean, low, high in zip(over, means, *band(whole), strict=True):
                if not np.isnan(low):
                    yield Band(
                        column=column,
                        new=each.new[0],
                        old=each.old[0],
                        k=k,
                        difference=float(mean),
                        low=float(low),
                        high=float(high),
                    )


def _resampled(new: Scores, old: Scores, ks: Sequence[int], stream: int) -> Resampled:
    return resample(_curves(new, ks) - _curves(old, ks), limits=DIFFERENCES, stream=stream)


def _curves(scores: Scores, ks: Sequence[int]) -> Floats:
    """pass@k at these k, [seeds, problems, ks]; nan where fewer than k draws are judged."""
    n, c = scores.n_scored[:, :, None], scores.n_correct[:, :, None]
    return np.asarray(pass_at_k(n_samples=n, n_correct=c, k=np.array(ks)))


def first_losses(rows: Sequence[Band]) -> Iterator[FirstLoss]:
    """A row a column and pair."""
    for (column, new, old), own in groupby(rows, key=lambda row: (row.column, row.new, row.old)):
        yield first_loss_of(column, new, old, list(own))


def first_loss_of(column: str, new: str, old: str, own: Sequence[Band]) -> FirstLoss:
    """What the band of one pair says; own: its rows by rising k."""
    ks = [row.k for row in own]
    low, high = np.array([[row.low, row.high] for row in own]).T
    first, certain = first_loss(ks, low, high)
    return FirstLoss(
        column=column, new=new, old=old, low=first, high=certain, words=in_words(ks, low, high)
    )
