"""The terminal text and the LaTeX tables of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from fgrpo_bench.documents.blocks import Block, Outline, Paragraph
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_table
from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import terminal as rendered
from fgrpo_bench.report import tables, verdict
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.content import EFFECTS, latex_tables, question
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.summary import Summary


def terminal(summary: Summary, comparisons: Sequence[Comparison]) -> str:
    """The words, then the main table, for a screen or a log."""
    missing = verdict.incomplete(summary)
    sections = tuple((title, tuple(lines)) for title, lines in verdict.answer(summary, comparisons))
    several = len(summary.results.benchmarks) > 1
    words = [
        verdict.budget(summary),
        *([missing] if missing else []),
        "",
        f"Question: {question(summary)}",
        "",
        f"{EFFECTS}:",
    ]
    blocks: list[Block] = [
        *(Paragraph(text=text) for text in words),
        Outline(sections=sections),
        Paragraph(text=f"{verdict.counted(comparisons)} {verdict.seeds_caveat(summary)}"),
        *(main_tables(summary, comparisons) if several else []),
        *(tables.interval_table(summary, column) for column in summary.headline),
    ]
    return rendered(verdict.heading(summary), blocks)


def latex(
    summary: Summary, comparisons: Sequence[Comparison], further: Sequence[Table] = ()
) -> str:
    r"""The tables for a paper, to be read with \input."""
    budget = escape_latex(verdict.heading(summary))
    parts = [f"{PREAMBLE} Made from stored results; do not edit."]
    for table in latex_tables(summary, comparisons, further):
        parts.append(latex_table(table, caption=f"{escape_latex(table.title)}. {budget}."))
    return "\n".join(parts)
