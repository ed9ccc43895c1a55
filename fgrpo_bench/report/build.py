"""Writing a report: the one place of the package that touches the report folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fgrpo_bench.documents.blocks import Figure, Report
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.report import by_task, documents, provenance, tables, verdict
from fgrpo_bench.report.against_paper import against_paper, csv_beside_paper
from fgrpo_bench.report.comparisons import Comparison, compare
from fgrpo_bench.report.content import content
from fgrpo_bench.report.equal_budget import equal_budget_tables
from fgrpo_bench.report.selected import selection_table
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.files import write_json, write_text

if TYPE_CHECKING:  # matplotlib is slow to import
    from fgrpo_bench.report.figures import Picture


FILES = {
    "md": "report.md",
    "latex": "table.tex",
    "csv": "results.csv",
    "html": "report.html",
    "by-task": "by-task.csv",
}
"""The file of each format; by-task only where a benchmark is made of tasks."""


def render(results: SweepResults, kind: str, *, compare_paper: bool = False) -> str:
    """One of FILES as text; nothing is written. The Markdown links figures it does not make.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    read = _read(results, compare_paper=compare_paper, drawn=kind in ("md", "html"))
    return _text(read, kind, _svgs(read) if kind == "html" else {})


def draw(results: SweepResults, name: str | None = None) -> dict[str, bytes]:
    """The figures of a report by file name; nothing is written. name: of one, without its suffix;
    None draws all."""
    from fgrpo_bench.documents import style
    from fgrpo_bench.report.figures import pictures

    every = pictures(summarise(results))
    shown = [picture for picture in every if name in (None, picture.name)]
    return _files({picture.name: style.drawings(picture.draw) for picture in shown})


def _files(drawn: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """drawn: the bytes of each kind by the figure's name."""
    return {
        f"{name}.{kind}": content
        for name, kinds in drawn.items()
        for kind, content in kinds.items()
    }


def write_report(
    results: SweepResults, *, formats: Sequence[str] = tuple(FILES), compare_paper: bool = False
) -> Report:
    """Write the report and its figures into the sweep's report folder, each file whole.

    Its files: those of FILES that were asked for, provenance.json, then the figures. Works on a
    sweep in progress too. The same stored files give the same bytes. formats: those of
    FILES that are wanted. compare_paper: as for `render`.
    """
    from fgrpo_bench.documents import style

    folder = results.paths.report
    read = _read(results, compare_paper=compare_paper, drawn=True)
    drawn = {picture.name: style.drawings(picture.draw) for picture in read.pictures}
    svgs = {name: kinds["svg"].decode() for name, kinds in drawn.items()}
    wanted = [kind for kind in formats if kind != "by-task" or read.tasks]
    texts = {FILES[kind]: _text(read, kind, svgs) for kind in FILES if kind in wanted}
    for name, text in texts.items():
        write_text(folder / name, text)
    figures = [file for name, kinds in drawn.items() for file in style.write(kinds, folder / name)]
    contents = {name: text.encode() for name, text in texts.items()} | _files(drawn)
    made = provenance.record(results, contents, compare_paper=compare_paper)
    write_json(folder / provenance.NAME, made)
    beside = ["\n".join(plain_table(table)) + "\n" for table in read.beside]
    return Report(
        text="\n".join([documents.terminal(read.summary, read.comparisons), *beside]),
        files=[*(folder / name for name in (*texts, provenance.NAME)), *figures],
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A sweep as every format has it."""

    summary: Summary
    comparisons: list[Comparison]
    pictures: list[Picture]
    tasks: list[Table]
    """Of benchmarks that are made of tasks."""
    task_rows: pl.DataFrame
    """The same numbers (by_task.CSV)."""
    beside: list[Table]
    """Tables that only some sweeps have."""
    compare_paper: bool

    @property
    def further(self) -> list[Table]:
        """Those that stand behind the tables of every sweep."""
        return [*self.beside, *self.tasks]


def _read(results: SweepResults, *, compare_paper: bool, drawn: bool) -> _Read:
    summary = summarise(results)
    rows = by_task.task_rows(summary)
    found: list[Picture] = []
    if drawn:
        from fgrpo_bench.report.figures import pictures

        found = list(pictures(summary))
    return _Read(
        summary=summary,
        comparisons=compare(summary),
        pictures=found,
        tasks=by_task.task_tables(summary, rows),
        task_rows=rows,
        beside=_beside(summary, compare_paper=compare_paper),
        compare_paper=compare_paper,
    )


def _beside(summary: Summary, *, compare_paper: bool) -> list[Table]:
    """Tables that only some sweeps have: chosen checkpoints, equal budgets, the paper's figures."""
    chosen = selection_table(summary.results)
    published = against_paper(summary) if compare_paper else []
    return [*filter(None, [chosen]), *equal_budget_tables(summary), *published]


def _text(read: _Read, kind: str, svgs: Mapping[str, str]) -> str:
    """svgs: drawings by name, for html."""
    if kind == "csv":
        return (csv_beside_paper if read.compare_paper else tables.csv)(read.summary)
    if kind == "by-task":
        return tables.csv_text(read.task_rows)
    if kind == "latex":
        return documents.latex(read.summary, read.comparisons, read.further)
    shown = [Figure(name=picture.name, caption=picture.caption) for picture in read.pictures]
    blocks = content(read.summary, read.comparisons, shown, read.further)
    title = verdict.heading(read.summary)
    return html(title, blocks, svgs) if kind == "html" else markdown(title, blocks)


def _svgs(read: _Read) -> dict[str, str]:
    from fgrpo_bench.documents import style

    return {
        picture.name: style.drawings(picture.draw, ["svg"])["svg"].decode()
        for picture in read.pictures
    }
