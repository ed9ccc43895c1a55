"""Writing a report: the one place of the package that touches the report folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fgrpo_bench.files import write_json, write_text
from fgrpo_bench.report import by_task, documents, provenance, tables
from fgrpo_bench.report.against_paper import against_paper
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.equal_budget import equal_budget_table
from fgrpo_bench.report.selected import selection_table
from fgrpo_bench.report.summary import Summary, summarise
from fgrpo_bench.report.tables import Table
from fgrpo_bench.results import SweepResults

if TYPE_CHECKING:
    from fgrpo_bench.report.figures import Picture


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what to print."""

    text: str
    """Words and table for a terminal."""
    files: list[Path]
    """report.md, table.tex, results.csv, by-task.csv where a benchmark is made of tasks,
    provenance.json, then the figures."""


FORMATS = ("md", "latex", "csv", "by-task")


def render(results: SweepResults, kind: str, *, compare_paper: bool = False) -> str:
    """One of FORMATS as text; nothing is written. The Markdown links figures it does not make.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    summary = summarise(results)
    if kind == "by-task":
        return by_task.csv(summary)
    further = by_task.task_tables(summary) + _further(summary, compare_paper=compare_paper)
    if kind == "csv":
        return tables.csv(summary)
    if kind == "latex":
        return documents.latex(summary, further)
    from fgrpo_bench.report.figures import pictures

    return documents.markdown(summary, compare(summary), _named(pictures(summary)), further)


def write_report(results: SweepResults, *, compare_paper: bool = False) -> Report:
    """Write tables, figures and the report into the sweep's report folder, each file whole.

    Works on a sweep in progress too. The same stored files give the same bytes. compare_paper: as
    for `render`.
    """
    from fgrpo_bench.report.figures import pictures  # matplotlib is slow to import
    from fgrpo_bench.report.style import save

    folder = results.paths.report
    summary = summarise(results)
    comparisons = compare(summary)
    beside, tasks = _further(summary, compare_paper=compare_paper), by_task.task_tables(summary)
    further = tasks + beside
    drawn = list(pictures(summary))
    texts = {
        "report.md": documents.markdown(summary, comparisons, _named(drawn), further),
        "table.tex": documents.latex(summary, further),
        "results.csv": tables.csv(summary),
    } | ({"by-task.csv": by_task.csv(summary)} if tasks else {})
    figures = [file for picture in drawn for file in save(picture.draw, folder / picture.name)]
    for name, text in texts.items():
        write_text(folder / name, text)
    made = provenance.record(results, texts, compare_paper=compare_paper)
    write_json(folder / provenance.NAME, made)
    plain = ["\n".join(documents.plain_table(table)) + "\n" for table in beside]
    return Report(
        text="\n".join([documents.terminal(summary, comparisons), *plain]),
        files=[*(folder / name for name in (*texts, provenance.NAME)), *figures],
    )


def _further(summary: Summary, *, compare_paper: bool) -> list[Table]:
    """Tables that only some sweeps have: chosen checkpoints, equal budgets, the paper's figures."""
    chosen = selection_table(summary.results)
    fair = [equal_budget_table(summary, name) for name in summary.results.benchmarks]
    published = against_paper(summary) if compare_paper else []
    return [*filter(None, [chosen]), *(table for table in fair if table.rows), *published]


def _named(pictures: Iterable[Picture]) -> list[tuple[str, str]]:
    return [(f"{picture.name}.png", picture.caption) for picture in pictures]
