"""Sequences of correct and wrong draws under a stopping rule, counted exactly in whole numbers.

A problem is drawn `before` times; it goes on only where fewer than `enough` of these draws are
correct, and then gets `last` more. Correct draws are never taken back, so whoever has too few after
`before` draws had too few at every stage before, and the sequences with c correct draws in all are

    W(c) = sum over i < enough of C(before, i) C(last, c - i).

Those among them whose first k draws are all wrong are the same number without these k draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import comb
from typing import NamedTuple


class DrawPath(NamedTuple):
    """How a problem's draws lie around the decision to go on for the last time."""

    before: int
    """Draws before the last stage that was made; 0 where the first stage is the last."""
    last: int
    """Draws of that last stage."""
    enough: int
    """With fewer correct draws than this among those before, the problem went on."""

    def without(self, k: int) -> DrawPath:
        """The path without its first k draws; `last` is below 0 where there are not so many."""
        return DrawPath(max(0, self.before - k), self.last - max(0, k - self.before), self.enough)

    def counts(self, n_correct: Iterable[int]) -> list[int]:
        """W at every one of these numbers of correct draws; 0 where no sequence has so many."""
        if self.last < 0:
            return [0 for _ in n_correct]
        ways = [comb(self.before, i) for i in range(min(self.enough, self.before + 1))]
        row = _row(self.last)
        return [
            sum(
                way * row[in_last]
                for in_last, way in zip(range(c, c - len(ways), -1), ways, strict=True)
                if 0 <= in_last <= self.last
            )
            for c in n_correct
        ]


@lru_cache(maxsize=32)
def _row(n: int) -> tuple[int, ...]:
    """C(n, 0) .. C(n, n)."""
    row = [1]
    for i in range(n):
        row.append(row[-1] * (n - i) // (i + 1))
    return tuple(row)


def estimates(path: DrawPath, n_correct: Sequence[int], k: int, n_unscored: int = 0) -> list[float]:
    """1 - W_k / W at each of these numbers of correct draws, rounded once.

    n_unscored: draws that were not judged, any of those that are not correct with equal chance. The
    value is then that of all of them right, by the sequences whose first k draws are judged wrong.
    """
    total, out = path.before + path.last, []
    for c, ways, failing in _paired(path, n_correct, k):
        if n_unscored:
            ways *= comb(total - c, n_unscored)
            failing *= comb(total - c - k, n_unscored) if failing else 0
        out.append((ways - failing) / ways)
    return out


def variances(path: DrawPath, n_correct: Sequence[int], k: int) -> list[float]:
    """(W_k / W)^2 - W_2k / W at each of these numbers of correct draws, rounded once."""
    twice = path.without(2 * k).counts(n_correct)
    return [
        (failing * failing - both * ways) / (ways * ways)
        for (_, ways, failing), both in zip(_paired(path, n_correct, k), twice, strict=True)
    ]


def _paired(path: DrawPath, n_correct: Sequence[int], k: int) -> Iterator[tuple[int, int, int]]:
    """Correct draws, W and W_k."""
    return zip(n_correct, path.counts(n_correct), path.without(k).counts(n_correct), strict=True)
