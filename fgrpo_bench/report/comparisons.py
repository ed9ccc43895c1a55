"""Tables of the differences between cells: every one, those of the question, and over all k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.numbers import p_value, points
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.report.footnotes import family_note, footnotes, rule_note
from fgrpo_bench.report.narrative import band_legend

ROWS = 40
"""Most differences of a table on paper."""


def comparison_table(analysis: Analysis, column: str) -> Table:
    """Every difference that is asked for on a benchmark or average, with its interval, the single
    seeds and the verdict."""
    return Table(
        title=f"{column}: differences in percentage points",
        header=(
            *("comparison", "", "k", "difference", "95% interval"),
            *("by seed", "same sign", "p", "p Holm", "p BH", "p draws", "verdict"),
        ),
        rows=tuple(
            (
                str(row.group),
                str(row.name),
                str(row.k),
                points(row.difference),
                NONE if row.low is None else f"[{points(row.low)}, {points(row.high)}]",
                ", ".join(map(points, row.by_seed)),
                f"{row.agreeing} of {len(row.seeds)}",
                *map(p_value, (row.p, row.p_holm, row.p_bh, row.p_draws)),
                row.verdict,
            )
            for row in analysis.asked
            if row.column == column
        ),
        n_words=2,
        is_folded=True,
        notes=(
            family_note(analysis),
            *footnotes(analysis, list(analysis.by_cell.values()), column),
        ),
    )


def comparison_tables(analysis: Analysis, column: str) -> Iterator[Table]:
    """The same for paper, a table each for what is asked, so that letters keep their size: without
    the columns that say nothing there, and with ROWS at most."""
    full = comparison_table(analysis, column)
    groups = dict.fromkeys(row[0] for row in full.rows)
    pages = [
        (group, rows[i : i + ROWS])
        for group in groups
        for rows in [[row for row in full.rows if row[0] == group]]
        for i in range(0, len(rows), ROWS)
    ]
    for number, (group, rows) in enumerate(pages, start=1):
        kept = [i for i in range(1, len(full.header)) if any(row[i] != NONE for row in rows)]
        of = f" {number} of {len(pages)}" if len(pages) > 1 else ""
        yield replace(
            full,
            title=f"{column}: differences{of} in percentage points, {group}",
            header=tuple(full.header[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in rows),
            n_words=1,
        )


def question_table(analysis: Analysis, column: str) -> Table | None:
    """The differences that the question is about, for a paper; None where it has none on this
    column."""
    rows = tuple(
        (
            f"{row.group}: {row.name}",
            str(row.k),
            f"{points(row.difference)} "
            + (NONE if row.low is None else f"[{points(row.low)}, {points(row.high)}]"),
            p_value(row.p_holm),
            row.verdict,
        )
        for row in analysis.in_question
        if row.column == column
    )
    if not rows:
        return None
    return Table(
        title=f"{column}: differences that the question is about, in percentage points",
        header=("comparison", "k", "difference [95% interval]", "p Holm", "verdict"),
        rows=rows,
        notes=(
            family_note(analysis),
            *footnotes(analysis, list(analysis.by_cell.values()), column),
        ),
    )


def first_loss_table(analysis: Analysis, column: str) -> Table | None:
    """From which k on each pair's difference is a loss; None where no pair has a band."""
    asked = {(row.new, row.old): row for row in analysis.asked if row.column == column}
    losses = {pair: analysis.first_loss_of(column, *pair) for pair in asked}
    rows = tuple(
        (
            str(asked[pair].group),
            str(asked[pair].name),
            loss.words,
            *(NONE if k is None else str(k) for k in (loss.low, loss.high)),
        )
        for pair, loss in losses.items()
        if loss is not None
    )
    if not rows:
        return None
    return Table(
        title=f"{column}: over all k at once",
        header=("comparison", "", "by the band", "first loss from", "to"),
        rows=rows,
        n_words=3,
        notes=(band_legend(), "A dash: there is no such k.", rule_note(analysis)),
    )
