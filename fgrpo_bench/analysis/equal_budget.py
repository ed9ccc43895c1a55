"""Focal weight at a small N against the base algorithm at another N, at the same rollouts.

Where every cell gets equal prompts a step, a larger N costs more, and comparing the ends of runs
compares budgets too. Earlier checkpoints of the dearer run make the comparison fair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis.checkpoints import Checkpoint
from fgrpo_bench.analysis.comparisons import Compared
from fgrpo_bench.analysis.families import Family
from fgrpo_bench.analysis.pairs import Pair, of_line
from fgrpo_bench.analysis.rows import CellRow

NEAR = 0.01
"""Runs whose rollouts differ by no more than this share cost the same; the other comparisons have
them already."""
FAMILY = "focal weight against other group sizes at equal rollouts"


def matches(cells: Sequence[CellRow], checkpoints: Sequence[Checkpoint]) -> Iterator[Compared]:
    """Every focal cell with every base cell of its algorithm that cost otherwise, both at the
    latest evaluated checkpoint within the rollouts of the cheaper of the two."""
    of_cell: dict[str, list[Checkpoint]] = {}
    for row in checkpoints:
        of_cell.setdefault(row.cell, []).append(row)
    for new in cells:
        for old in cells:
            if not new.focal_gamma or old.focal_gamma != 0 or new.cell not in of_cell:
                continue
            if of_line(new) != of_line(old) or new.group_size == old.group_size:
                continue
            if old.cell not in of_cell:
                continue
            ends = of_cell[new.cell][-1].rollouts, of_cell[old.cell][-1].rollouts
            if max(ends) - min(ends) <= NEAR * max(ends):
                continue
            at = [
                max(
                    (row.step for row in of_cell[cell.cell] if row.rollouts <= min(ends)), default=0
                )
                for cell in (new, old)
            ]
            if all(at):
                yield Compared(
                    new=(new.cell, at[0]),
                    old=(old.cell, at[1]),
                    pair=Pair(
                        kind="equal_budget",
                        group=FAMILY,
                        name=f"{new.label} against {old.label}",
                        new=new,
                        old=old,
                    ),
                )


def budget_family(pairs: Sequence[Pair], ks: Sequence[int], columns: Sequence[str]) -> Family:
    """These comparisons at the smallest and the largest k, which are corrected by themselves."""
    ends = tuple(sorted({ks[0], ks[-1]}))
    return Family(name=FAMILY, pairs=tuple(pairs), ks=ends, columns=tuple(columns))
