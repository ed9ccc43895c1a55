"""Other readings of the draws than pass@k, a row a cell, and what became of the base models' right
solutions.

In: an Analysis, whose results have the stored grades. Out: tables; those of solutions none where
right answers of a problem are all one, and none at all where draws were left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.readings import (
    BEST,
    BOUNDED,
    DISTINCT,
    FATES,
    MAJ,
    MOST_VOTES,
    READINGS,
    SHARE,
    part_in_words,
    units_in_words,
)
from fgrpo_bench.analysis.rows import ALL, SEVERAL, ReadingRow
from fgrpo_bench.documents.table import (
    NONE,
    Table,
    number_with_interval,
    percent,
    with_interval,
)
from fgrpo_bench.report.tables.main import NAMES, names
from fgrpo_bench.specs.cell import BASE

SHOWN = MOST_VOTES
"""The k of the table of readings, or the largest declared one below it."""


def solution_tables(analysis: Analysis, column: str) -> Iterator[Table]:
    """Readings of a benchmark, then kept, moved to other solutions and lost, each also of the
    problems with several solutions, with intervals; none of an average."""
    rows = {
        (row.problems, row.reading, row.k, row.cell): row
        for row in analysis.rows("readings")
        if row.benchmark == column
    }
    if not rows:
        return
    for part in (ALL, SEVERAL):
        n_problems = {row.n_problems for row in rows.values() if row.problems == part}
        where = part_in_words(part, max(n_problems, default=0))
        of_part = {key[1:]: row for key, row in rows.items() if key[0] == part}
        if len({cell for _, _, cell in of_part}) >= 2:
            yield from filter(
                None,
                (
                    _readings(analysis, column, of_part, where),
                    _fates(analysis, column, of_part, where),
                ),
            )


NOTES = {
    ("pass^k", MAJ): "pass^k: all of k draws are right. maj@k: the most frequent answer of k is.",
    (BEST,): "best@k: the largest reward among k, a number.",
    (DISTINCT, SHARE): "distinct@k: different right solutions among k; share@k: of all that a "
    "problem has.",
    BOUNDED: "Of gini and cover there are bounds, no intervals.",
}
"""What a table of these readings says below itself."""
Rows = dict[tuple[str, int | None, str], ReadingRow]
"""By reading, k and cell."""


def _readings(analysis: Analysis, column: str, rows: Rows, where: str) -> Table | None:
    k = max((k for k in analysis.ks if k <= SHOWN), default=analysis.ks[0])
    at_k = [name for name in READINGS if any((name, k, cell) in rows for cell in analysis.by_cell)]
    if not at_k:
        return None
    bounds = dict.fromkeys(name for (name, _, _), row in rows.items() if row.is_bounds)
    lines = []
    for cell in analysis.by_cell.values():
        if (at_k[0], k, cell.cell) not in rows:
            continue
        line = [*names(cell)]
        line += [_value(rows.get((name, k, cell.cell))) for name in at_k]
        line += [_value(rows.get((name, None, cell.cell))) for name in bounds]
        lines.append(tuple(line))
    return Table(
        title=f"{column}: other readings of the same draws at k = {k}{where}, "
        f"{units_in_words(at_k)} [95% interval]",
        header=(*NAMES, *(name.replace("k", str(k)) for name in at_k), *bounds),
        rows=tuple(lines),
        notes=tuple(
            note for shown, note in NOTES.items() if not set(shown).isdisjoint([*at_k, *bounds])
        ),
    )


def _value(row: ReadingRow | None) -> str:
    if row is None:
        return NONE
    if row.is_bounds:
        return bounds_in_percent(row.low, row.high)
    return reading_shown(row.reading, row.mean, row.low, row.high)


def reading_shown(word: str, mean: float | None, low: float | None, high: float | None) -> str:
    """The mean of a reading with its interval: a fraction in percent, or a number."""
    digits = READINGS[word].digits if word in READINGS else None
    if digits is None:
        return with_interval(mean, low, high)
    return number_with_interval(mean, low, high, digits=digits)


def bounds_in_percent(low: float | None, high: float | None) -> str:
    """e.g. `47.4 to 100.0`"""
    return f"{percent(low)} to {percent(high)}"


def _fates(analysis: Analysis, column: str, rows: Rows, where: str) -> Table | None:
    cells = [cell for cell in analysis.by_cell.values() if (FATES[0], None, cell.cell) in rows]
    if len(cells) < 2:
        return None
    halves = ("Base, half of its draws under the other half", NONE, NONE)
    lines = []
    for cell in cells:
        line = [*(halves if cell.cell == BASE else names(cell))]
        line += [_value(rows[fate, None, cell.cell]) for fate in FATES]
        lines.append((*line, str(len(rows[FATES[0], None, cell.cell].seeds))))
    return fates_table(
        f"{column}: what became of the base models' right solutions",
        where,
        (*NAMES, *FATE_HEADS, "seeds"),
        lines,
    )


FATE_HEADS = ("kept", "moved to other solutions", "lost")
"""Columns of FATES."""


def fates_table(
    title: str, where: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]
) -> Table:
    """FATES of the right solutions of some models, a row those of others, the first row half of
    their own draws under the other half.

    title: whose solutions they are; where: of which problems (`part_in_words`); header: with
    FATE_HEADS.
    """
    return Table(
        title=f"{title}{where}, in percent of draws [95% interval]",
        header=header,
        rows=tuple(rows),
        notes=(
            "Kept is the smaller share of each solution, lost what there is less of in all; the "
            "rest moved to other right solutions of the same problems. The three add up to pass@1 "
            "of those whose solutions they are. Noise of the draws alone makes some look moved or "
            "lost: the first row has how much, of half as many draws.",
        ),
    )
