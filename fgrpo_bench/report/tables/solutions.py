"""What became of the base models' right solutions, a row a cell.

In: an Analysis, whose results have the stored grades. Out: a table, none where right answers of a
problem are all one or draws were left behind.
"""

from __future__ import annotations

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.solutions import solution_masses
from fgrpo_bench.documents.table import NONE, Table, with_interval
from fgrpo_bench.report.tables.main import NAMES, names
from fgrpo_bench.specs.cell import BASE


def solution_table(analysis: Analysis, benchmark: str) -> Table | None:
    """Kept, moved to other solutions and lost, with intervals. None for an average too."""
    if benchmark not in analysis.results.benchmarks:
        return None
    halves = ("Base, half of its draws under the other half", NONE, NONE)
    rows = tuple(
        (
            *(halves if of.cell == BASE else names(analysis.by_cell[of.cell])),
            *(with_interval(p.mean, p.low, p.high) for p in (of.kept, of.moved, of.lost)),
            str(of.kept.n_seeds),
        )
        for of in solution_masses(analysis.results.checkpoints, benchmark)
        if of.cell in analysis.by_cell
    )
    if len(rows) < 2:
        return None
    return Table(
        title=f"{benchmark}: what became of the base models' right solutions, in percent of draws "
        "[95% interval]",
        header=(*NAMES, "kept", "moved to other solutions", "lost", "seeds"),
        rows=rows,
        notes=(
            "Kept is the smaller share of each solution, lost what there is less of in all; the "
            "rest moved to other right solutions of the same problems. The three add up to the "
            "base models' pass@1. Noise of the draws alone makes some look moved or lost: the "
            "first row has how much, of half as many draws.",
        ),
    )
