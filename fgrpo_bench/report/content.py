"""What a report holds, in order: the narrative, then tables and figures. Below every table stands
which checkpoints it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.blocks import Block, Figure, Heading, Paragraph
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_table
from fgrpo_bench.documents.table import Table, without_zeros
from fgrpo_bench.documents.terminal import plain, terminal
from fgrpo_bench.report.against_paper import against_paper
from fgrpo_bench.report.answer import answer, front_in_words
from fgrpo_bench.report.comparisons import (
    comparison_table,
    comparison_tables,
    first_loss_table,
    question_table,
)
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.narrative import answered, explained, heading
from fgrpo_bench.report.notes import notes
from fgrpo_bench.report.optional_tables import (
    equal_budget_tables,
    front_table,
    grader_tables,
    selection_table,
    task_tables,
)
from fgrpo_bench.report.tables import (
    all_ks,
    compute_table,
    coverage_table,
    interval_table,
    training_table,
)

FIRST = ("differences-", "plane-", "curves-")
"""Beginnings of the names of figures that stand with the answer, in their order."""
ROWS = 12
"""Most rows of a table on a screen."""
CORRECTED = "Robust: holds after Holm's correction over the question's comparisons. "
VERDICTS = (
    "Suggestive: the 95% interval excludes 0. Inconclusive: neither, which is not the same as no "
    "difference."
)


def content(
    analysis: Analysis, figures: Sequence[Figure] = (), *, compare_paper: bool = False
) -> list[Block]:
    """The whole report below its title, which is `narrative.heading`.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    first = [each for kind in FIRST for each in figures if each.name.startswith(kind)]
    further = [figure for figure in figures if figure not in first]
    return [
        *answered(analysis),
        *first,
        *explained(analysis),
        *main_tables(analysis),
        *(table for column in analysis.columns for table in _details(analysis, column)),
        *_further(analysis, compare_paper=compare_paper),
        *([Heading(text="Figures")] if further else []),
        *further,
        training_table(analysis),
        compute_table(analysis),
        Heading(text="Notes"),
        notes(analysis),
    ]


def _details(analysis: Analysis, column: str) -> Iterator[Table]:
    yield interval_table(analysis, column)
    yield all_ks(analysis, column)
    yield comparison_table(analysis, column)
    further = (front_table, first_loss_table, coverage_table)
    yield from filter(None, (table(analysis, column) for table in further))


def _further(analysis: Analysis, *, compare_paper: bool) -> list[Table]:
    return [*_beside(analysis, compare_paper=compare_paper), *task_tables(analysis)]


def _beside(analysis: Analysis, *, compare_paper: bool) -> list[Table]:
    return [
        *grader_tables(analysis),
        *selection_table(analysis),
        *equal_budget_tables(analysis),
        *(against_paper(analysis) if compare_paper else ()),
    ]


def terminal_text(analysis: Analysis, *, compare_paper: bool = False) -> str:
    """What fits a screen: the answer, a table for each column that stands for all, the plane, and
    the tables that were asked for; a sweep of many cells has those of the question and the best."""
    asked_for = [*selection_table(analysis)]
    if compare_paper:
        asked_for += against_paper(analysis)
    blocks: list[Block] = [*answered(analysis)]
    for column in analysis.headline:
        blocks.append(_short(analysis, column))
        plane = front_in_words(analysis, column)
        blocks += [Paragraph(text=plane)] if plane else []
    blocks.append(Paragraph(text=(CORRECTED if analysis.has_family else "") + VERDICTS))
    return terminal(heading(analysis), [*blocks, *asked_for])


def _short(analysis: Analysis, column: str) -> Table:
    """The table with intervals; of more than ROWS cells the base models, those that the question
    compares others with, and the best at the largest k."""
    table, cells = interval_table(analysis, column), list(analysis.by_cell)
    if len(cells) <= ROWS:
        return table
    olds = {row.old for row in analysis.in_question} | {"base"}

    def rank(cell: str) -> tuple[bool, float]:
        mean = analysis.estimate(column, cell, analysis.ks[-1]).mean
        return cell not in olds, 0.0 if mean is None else -mean

    kept = set(sorted(cells, key=rank)[:ROWS])
    rows = tuple(row for cell, row in zip(cells, table.rows, strict=True) if cell in kept)
    left_out = (
        f"{len(cells) - ROWS} further cells, none better at the largest k, stand in the report."
    )
    return replace(table, rows=rows, notes=(left_out, *table.notes))


def latex(analysis: Analysis, *, compare_paper: bool = False) -> str:
    r"""The tables for a paper, to be read with \input: the main ones, the differences of the
    question, intervals and every k, what is lost over all k, what was retained, lost and gained
    where benchmarks stand for all, and further ones; every difference last, for an appendix. No
    seconds, so that the same results give the same file."""
    answer_line, budget = " ".join(answer(analysis)), escape_latex(heading(analysis))
    tables = [
        *main_tables(analysis),
        *filter(None, (question_table(analysis, column) for column in analysis.columns)),
        *(
            table
            for column in analysis.columns
            for table in (interval_table(analysis, column), all_ks(analysis, column))
        ),
        *(
            table
            for column in analysis.headline
            for table in (first_loss_table(analysis, column), coverage_table(analysis, column))
            if table is not None
        ),
        *_further(analysis, compare_paper=compare_paper),
    ]

    def floating(table: Table) -> str:
        return latex_table(without_zeros(table), caption=f"{escape_latex(table.title)}. {budget}.")

    lines = [f"{PREAMBLE} Made from stored results; do not edit.", f"% {plain(answer_line)}"]
    lines += map(floating, tables)
    lines.append("% For an appendix: every difference.")
    for column in analysis.columns:
        lines.append(r"\clearpage")  # LaTeX holds so many floats only
        lines += map(floating, comparison_tables(analysis, column))
    return "\n".join(lines)
