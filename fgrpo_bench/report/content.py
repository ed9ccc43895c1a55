"""What a report holds, in order: the narrative, then tables and figures. Below every table stands
which checkpoints it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.blocks import Block, Figure, Heading
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_table
from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import terminal
from fgrpo_bench.report.against_paper import against_paper
from fgrpo_bench.report.further import (
    equal_budget_tables,
    front_table,
    grader_tables,
    selection_table,
    task_tables,
)
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.narrative import heading, narrative
from fgrpo_bench.report.notes import notes
from fgrpo_bench.report.tables import (
    all_ks,
    comparison_table,
    compute_table,
    coverage_table,
    first_loss_table,
    interval_table,
    training_table,
)


def content(
    analysis: Analysis, figures: Sequence[Figure] = (), *, compare_paper: bool = False
) -> list[Block]:
    """The whole report below its title, which is `narrative.heading`.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    return [
        *narrative(analysis),
        *main_tables(analysis),
        *(table for column in analysis.columns for table in _details(analysis, column)),
        *_further(analysis, compare_paper=compare_paper),
        *([Heading(text="Figures")] if figures else []),
        *figures,
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
    """The words, the main tables, and the tables that this sweep alone has, for a screen."""
    several = len(analysis.results.benchmarks) > 1
    blocks = [
        *narrative(analysis),
        *(main_tables(analysis) if several else []),
        *(interval_table(analysis, column) for column in analysis.headline),
        *_beside(analysis, compare_paper=compare_paper),
    ]
    return terminal(heading(analysis), blocks)


def latex(analysis: Analysis, *, compare_paper: bool = False) -> str:
    r"""The tables for a paper, to be read with \input: the main ones, intervals and every k, what
    is lost over all k, what was retained, lost and gained where benchmarks stand for all, and
    further ones. No seconds, so that the same results give the same file."""
    budget = escape_latex(heading(analysis))
    tables = [
        *main_tables(analysis),
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
    parts = [f"{PREAMBLE} Made from stored results; do not edit."]
    for table in tables:
        parts.append(latex_table(table, caption=f"{escape_latex(table.title)}. {budget}."))
    return "\n".join(parts)
