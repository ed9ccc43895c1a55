"""What Compare opens on: the comparisons that the sweep declares, or all cells against one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis import OPEN, ROBUST, SUGGESTIVE, Analysis
from fgrpo_bench.analysis.rows import Comparison

QUESTION = "question"
"""Value of `against`: the pairs of the sweep's own question."""
VERDICTS = (ROBUST, SUGGESTIVE, OPEN)
"""The strongest first."""
FEW = 6
"""Pairs that are shown at the smallest k too; of more only the chosen k."""

MOST = 5
"""Comparisons that are drawn, so that they stand above the fold; the table has all."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two cells that are compared, new minus old."""

    new: str
    old: str


def declared(analysis: Analysis) -> list[Pair]:
    """Those that the sweep's question asks for and that have results."""
    return list(dict.fromkeys(Pair(new=row.new, old=row.old) for row in analysis.in_question))


def pairs_of(analysis: Analysis, against: str) -> list[Pair]:
    """Those of the question, or every other cell with one."""
    if against == QUESTION:
        return declared(analysis)
    return [Pair(new=new, old=against) for new in analysis.by_cell if new != against]


def named(pairs: Sequence[Pair], against: str) -> dict[str, Pair]:
    """By their value in an address."""
    if against == QUESTION:
        return {f"{pair.new}:{pair.old}": pair for pair in pairs}
    return {pair.new: pair for pair in pairs}


def rows_of(
    analysis: Analysis, column: str, pairs: Sequence[Pair], ks: Sequence[int]
) -> list[Comparison]:
    """The pairs at the last k, then at those before it; pairs without a seed in common are left
    out."""
    comparisons = [
        analysis.comparison(column, k, pair.new, pair.old) for k in reversed(ks) for pair in pairs
    ]
    return [row for row in comparisons if row is not None]


def foremost(rows: Sequence[Comparison]) -> Pair | None:
    """The pair that says most: the strongest verdict, then the largest difference."""
    if not rows:
        return None
    row = min(rows, key=_weight)
    return Pair(new=row.new, old=row.old)


def telling(rows: Sequence[Comparison]) -> list[Comparison]:
    """Those that a chart has room for: all of a few, or the MOST that say most, at the largest k
    first."""
    if len(rows) <= MOST:
        return list(rows)
    return sorted(sorted(rows, key=_weight)[:MOST], key=lambda row: -row.k)


def _weight(row: Comparison) -> tuple[int, float]:
    """The strongest verdict first, then the largest difference."""
    return VERDICTS.index(row.verdict), -abs(row.difference)


def in_front(analysis: Analysis) -> Pair | None:
    """The pair that every view opens on: what says most of the question at the largest k; None
    where nothing can be compared yet."""
    return foremost(rows_of(analysis, analysis.columns[0], declared(analysis), [analysis.ks[-1]]))
