"""Which cells are compared with which, how they differ, and the pair that every view opens on.

In: the analysis of a sweep, or of evaluations. Out: pairs and their rows, at last checkpoints or,
where the question is declared so, at equal pass@1. Next: compare.py and draws.py, which show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis import INCONCLUSIVE, SIGNIFICANT, SUGGESTIVE, Analysis
from fgrpo_bench.analysis.rows import Comparison, EqualPassAt1

QUESTION = "question"
"""Value of `against`: the pairs of the sweep's own question."""
VERDICTS = (SIGNIFICANT, SUGGESTIVE, INCONCLUSIVE)
"""The strongest first."""
MOST = 5
"""Comparisons that are drawn, so that they stand above the fold; the table has all."""


@dataclass(frozen=True, kw_only=True)
class ComparedCells:
    """Two cells that are compared, new minus old."""

    new: str
    old: str


def compared_cells(row: Comparison) -> ComparedCells:
    """The two that a row compares."""
    return ComparedCells(new=row.new, old=row.old)


def _declared(analysis: Analysis) -> list[ComparedCells]:
    """Those that the sweep's question asks for and that have results; at equal pass@1 also those
    whose ranges of pass@1 do not meet."""
    pairs = [(row.new, row.old) for row in analysis.in_question]
    if analysis.at_equal_pass_at_1:
        pairs += [(reach.new, reach.old) for reach in analysis.off_paths]
    return [ComparedCells(new=new, old=old) for new, old in dict.fromkeys(pairs)]


def list_pairs(analysis: Analysis, against: str) -> list[ComparedCells]:
    """Those of the question, or every other cell with one."""
    if against == QUESTION:
        return _declared(analysis)
    return [ComparedCells(new=new, old=against) for new in analysis.by_cell if new != against]


def pairs_by_address(pairs: Sequence[ComparedCells], against: str) -> dict[str, ComparedCells]:
    """By their value in an address."""
    if against == QUESTION:
        return {f"{pair.new}:{pair.old}": pair for pair in pairs}
    return {pair.new: pair for pair in pairs}


def last_rows(
    analysis: Analysis, column: str, pairs: Sequence[ComparedCells], ks: Sequence[int]
) -> list[Comparison]:
    """The pairs at their last checkpoints, at the last k, then at those before it; pairs without a
    seed in common are left out."""
    comparisons = [
        analysis.comparison(column, k, pair.new, pair.old) for k in reversed(ks) for pair in pairs
    ]
    return [row for row in comparisons if row is not None]


def path_rows(
    analysis: Analysis, column: str, pairs: Sequence[ComparedCells], k: int
) -> list[EqualPassAt1]:
    """The pairs at the highest pass@1 that both reach; pairs whose ranges of pass@1 do not meet are
    left out, and at k = 1 there is none."""
    rows: Sequence[EqualPassAt1] = analysis.rows("equal_pass_at_1")
    by_pair = {compared_cells(row): row for row in rows if (row.column, row.k) == (column, k)}
    return [by_pair[pair] for pair in pairs if pair in by_pair]


def strongest_pair(rows: Sequence[Comparison]) -> ComparedCells | None:
    """The pair that says most: the strongest verdict, then the largest difference."""
    return compared_cells(min(rows, key=_weight)) if rows else None


def strongest(rows: Sequence[Comparison]) -> list[Comparison]:
    """Those that a chart has room for: all of a few, or the MOST that say most, at the largest k
    first."""
    if len(rows) <= MOST:
        return list(rows)
    return sorted(sorted(rows, key=_weight)[:MOST], key=lambda row: -row.k)


def _weight(row: Comparison) -> tuple[int, float]:
    """The strongest verdict first, then the largest difference."""
    return VERDICTS.index(row.verdict), -abs(row.difference)


def in_front(analysis: Analysis) -> ComparedCells | None:
    """The pair that every view opens on: what says most of the question at the largest k; None
    where nothing can be compared yet."""
    column, k, pairs = analysis.columns[0], analysis.ks[-1], _declared(analysis)
    on_paths = path_rows(analysis, column, pairs, k) if analysis.at_equal_pass_at_1 else []
    return strongest_pair(on_paths or last_rows(analysis, column, pairs, [k]))
