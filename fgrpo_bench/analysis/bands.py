"""Differences over all k at once, and where along k training falls behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import Band, FirstLoss


def bands(
    resamples: Resamples, compared: Sequence[Compared], columns: Sequence[str]
) -> Iterator[Band]:
    """Rows by column, pair and k."""
    return iter(())


def first_losses(rows: Sequence[Band]) -> Iterator[FirstLoss]:
    """A row a column and pair."""
    return iter(())
