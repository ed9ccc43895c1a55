"""Which cells are on the front of the plane of pass@k at the smallest and at the largest k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis.comparisons import ROBUST
from fgrpo_bench.analysis.rows import Comparison


@dataclass(frozen=True, kw_only=True)
class Front:
    """Whether a trained cell is on the front of the plane of pass@k at the smallest and the largest
    k: no other is robustly better at one of them and, by the point estimate, not worse at the
    other."""

    column: str
    cell: str
    is_on_front: bool | None
    """Null for a cell that the family compares with no other at either k."""
    dominated_by: tuple[str, ...]
    """Cells that are so; empty on the front."""


def fronts(
    comparisons: Sequence[Comparison],
    cells: Sequence[str],
    columns: Sequence[str],
    ends: Sequence[int],
) -> Iterator[Front]:
    """A row a column and cell. ends: the smallest and the largest k; one where there is one.

    A cell is dominated by another that is robustly better at one of them and, by the point
    estimate, not worse at the other. Robust is a comparison of the family alone, so two cells that
    it does not compare leave each other on the front.
    """
    for column in columns:
        own = [row for row in comparisons if row.column == column and row.k in ends]
        asked = {cell for row in own if row.family is not None for cell in (row.new, row.old)}
        worse = dict.fromkeys(_dominated(own))
        for cell in cells:
            by = tuple(better for lost, better in worse if lost == cell)
            is_on_front = not by if cell in asked else None
            yield Front(column=column, cell=cell, is_on_front=is_on_front, dominated_by=by)


def _dominated(rows: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    """Each dominated cell, and one that dominates it. rows: of one column, at the two k."""
    for row in rows:
        if row.verdict != ROBUST:
            continue
        of_pair = [each for each in rows if (each.new, each.old) == (row.new, row.old)]
        if all(each.difference * row.difference >= 0 for each in of_pair):
            yield (row.old, row.new) if row.difference > 0 else (row.new, row.old)
