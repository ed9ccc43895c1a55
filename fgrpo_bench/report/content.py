"""What a report says, in order and without any markup: headings, words, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgrpo_bench.documents.blocks import Block, Figure, Heading, Notes, Outline, Paragraph
from fgrpo_bench.documents.table import Table
from fgrpo_bench.report import covered, tables, verdict
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.footnotes import RULE
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.selected import rule_in_words
from fgrpo_bench.report.summary import Summary

EFFECTS = "Differences in percentage points [95% interval], and how many seeds have that sign"


def content(
    summary: Summary,
    comparisons: Sequence[Comparison],
    figures: Sequence[Figure],
    further: Sequence[Table] = (),
) -> list[Block]:
    """The whole report below its title, which is `verdict.heading`. Below every table stands which
    checkpoints it is about.

    further: tables that stand behind those of the benchmarks.
    """
    missing = verdict.incomplete(summary)
    sections = tuple((title, tuple(lines)) for title, lines in verdict.answer(summary, comparisons))
    blocks: list[Block] = [
        *([Paragraph(text=missing, strong=True)] if missing else []),
        Paragraph(text=verdict.budget(summary)),
        Heading(text="Question"),
        Paragraph(text=question(summary)),
        Heading(text="Answer"),
        Paragraph(text=f"{EFFECTS}."),
        *([Outline(sections=sections)] if sections else []),
        Paragraph(text=f"{verdict.counted(comparisons)} {verdict.seeds_caveat(summary)}"),
        *main_tables(summary, comparisons),
        *(block for column in summary.columns for block in _details(summary, comparisons, column)),
        *further,
        *([Heading(text="Figures")] if figures else []),
        *figures,
        tables.compute_table(summary),
        Heading(text="Notes"),
        Notes(lines=tuple(verdict.notes(summary, comparisons))),
    ]
    return [_ruled(block, summary) if isinstance(block, Table) else block for block in blocks]


def _ruled(table: Table, summary: Summary) -> Table:
    """The table with the rule that chose the checkpoints among its notes."""
    if any(note.startswith(RULE) for note in table.notes):
        return table
    rule = f"{RULE}{rule_in_words(summary.results)}."
    return replace(table, notes=(*table.notes, rule))


def _details(summary: Summary, comparisons: Sequence[Comparison], column: str) -> Iterator[Block]:
    yield tables.interval_table(summary, column)
    yield tables.all_ks(summary, column)
    yield tables.comparison_table(summary, comparisons, column)
    if covered.has_fates(summary, column):
        yield covered.coverage_table(summary, column)


def latex_tables(
    summary: Summary, comparisons: Sequence[Comparison], further: Sequence[Table] = ()
) -> list[Table]:
    """The tables for a paper: the main ones, intervals and every k, what was retained, lost and
    gained where benchmarks stand for all, and further ones. No seconds, so that the same results
    give the same file."""
    found = [
        *main_tables(summary, comparisons),
        *(
            table
            for column in summary.columns
            for table in (tables.interval_table(summary, column), tables.all_ks(summary, column))
        ),
        *(
            covered.coverage_table(summary, column)
            for column in summary.headline
            if covered.has_fates(summary, column)
        ),
        *further,
    ]
    return [_ruled(table, summary) for table in found]


def question(summary: Summary) -> str:
    """The declared question in words."""
    return str(summary.results.declaration["declaration"]["sweep"]["question"])
