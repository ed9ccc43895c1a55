"""The paper's tables from whatever was run: methods against benchmarks, and what a sweep varies.

The main table has every cell and benchmark. Where there are averages, a table of these alone
stands beside it for each question that the sweep asks: group size, focal exponent, controls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fgrpo_bench.documents.numbers import percent_value
from fgrpo_bench.documents.table import NONE, Rows, Table, Value, explained, grid, with_best
from fgrpo_bench.report import rare
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.footnotes import BOLD, footnotes, is_incomplete
from fgrpo_bench.report.pairs import base_method
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.tables import NAMES, names
from fgrpo_bench.stats.intervals import LEVEL
from fgrpo_bench.stats.multiplicity import holm


@dataclass(frozen=True, kw_only=True)
class _Question:
    title: str
    cells: tuple[Cell, ...]
    columns: tuple[str, ...]


def main_tables(summary: Summary, comparisons: Sequence[Comparison]) -> list[Table]:
    """The main table, then one for each question that it does not ask itself."""
    asked = list(_questions(summary))
    titles = [one.title for one in asked if one.cells == _cells(summary)]
    title = titles[0] if titles else "Methods"
    whole = _Question(title=title, cells=_cells(summary), columns=summary.columns)
    others = [one for one in asked if one.columns != summary.columns]
    first, *more = [_table(summary, comparisons, one) for one in (whole, *others)]
    return [rare.beside(first, summary), *more]


def _cells(summary: Summary) -> tuple[Cell, ...]:
    """All cells, those of an algorithm together: with focal weight behind without."""
    order = list(dict.fromkeys(cell.algorithm for cell in summary.cells))
    return tuple(sorted(summary.cells, key=lambda cell: order.index(cell.algorithm)))


def _questions(summary: Summary) -> Iterator[_Question]:
    trained = [cell for cell in summary.cells if not cell.is_base]

    def question(title: str, cells: Sequence[Cell], columns: tuple[str, ...]) -> _Question:
        chosen = tuple(cell for cell in _cells(summary) if cell.is_base or cell in cells)
        return _Question(title=title, cells=chosen, columns=columns)

    several = {
        name
        for name in {cell.algorithm for cell in trained}
        if len({c.group_size for c in trained if (c.algorithm, c.focal_gamma) == (name, 0)}) > 1
    }
    if several:
        of_sizes = [cell for cell in trained if cell.algorithm in several]
        yield question("Group size", of_sizes, summary.headline)
    gammas: dict[tuple[str | None, int | None], set[float | None]] = {}
    for cell in trained:
        gammas.setdefault((cell.algorithm, cell.group_size), set()).add(cell.focal_gamma)
    of_gammas = [c for c in trained if len(gammas[c.algorithm, c.group_size]) > 2]
    if of_gammas:
        yield question("Sensitivity to gamma", of_gammas, summary.headline)
    controlled = {
        cell: old
        for cell in trained
        if not cell.focal_gamma and (old := _base_method(summary, cell)) is not None
    }
    if controlled:
        bases = set(controlled.values())
        beside = [
            cell
            for cell in trained
            if cell in controlled or cell in bases or _base_method(summary, cell) in bases
        ]
        yield question("Controls", beside, summary.headline)


def _table(summary: Summary, comparisons: Sequence[Comparison], asked: _Question) -> Table:
    ends = sorted({0, len(summary.ks) - 1})
    family = _family(summary, comparisons, asked)
    significant = _significant(family)

    def value(cell: Cell, column: str, end: int) -> Value:
        mean = summary.estimates(column, cell)[end].mean
        return percent_value(
            mean,
            significant=(cell, column, summary.ks[end]) in significant,
            incomplete=mean is not None and is_incomplete(summary, cell, column, end),
        )

    rows: Rows = {
        names(cell): {
            column: tuple(value(cell, column, end) for end in ends)
            for column in asked.columns
            if any(summary.estimates(column, cell)[end].mean is not None for end in ends)
        }
        for cell in asked.cells
    }
    bases = {names(cell) for cell in asked.cells if cell.is_base}
    made = with_best(rows, columns=asked.columns, among=lambda key: None if key in bases else 0)
    benchmarks = [
        name for column in asked.columns for name in summary.averages.get(column, (column,))
    ]
    averages = ", averages" if asked.columns != summary.columns else ""
    ks = " / ".join(f"pass@{summary.ks[end]}" for end in ends)
    legend = [BOLD]
    if family:
        legend.append((Value(text="underlined", significant=True), _meaning(summary, len(family))))
    contents = [row.get(column, NONE) for row in made.values() for column in asked.columns]
    legend += explained(contents)
    return grid(
        title=f"{asked.title}{averages}: {ks} in percent",
        names=NAMES,
        columns=asked.columns,
        rows=made,
        notes=tuple(footnotes(summary, asked.cells, list(dict.fromkeys(benchmarks)))),
        legend=tuple(legend),
        breaks=summary.headline,
    )


def _meaning(summary: Summary, m: int) -> str:
    over = "problems and training seeds" if summary.n_seeds > 1 else "problems, one training seed"
    return (
        "differs from its base method (the same without focal weight; for a control the algorithm "
        f"without it), p < {1 - LEVEL:.2g} after Holm's correction over the {m} comparisons of "
        f"this table (over {over})"
    )


_Where = tuple[Cell, str, int]


def _family(
    summary: Summary, comparisons: Sequence[Comparison], asked: _Question
) -> dict[_Where, float]:
    """p of each cell of the table against its base method."""
    bases = {cell: _base_method(summary, cell) for cell in asked.cells}
    return {
        (one.pair.new, one.benchmark, one.k): one.difference.p_value
        for one in comparisons
        if one.benchmark in asked.columns
        and one.pair.new in bases
        and one.pair.old == bases[one.pair.new]
        and one.difference.p_value is not None
    }


def _significant(family: dict[_Where, float]) -> set[_Where]:
    corrected = holm(list(family.values()))
    return {where for where, p in zip(family, corrected, strict=True) if p < 1 - LEVEL}


def _base_method(summary: Summary, cell: Cell) -> Cell | None:
    declared = summary.results.declaration["declaration"].get("algorithms", {})
    return base_method(cell, summary.cells, declared)
