"""Writing a report: the one place of the package that touches the report folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.documents.blocks import Figure, Report
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.files.whole import write_json, write_text
from fgrpo_bench.report import csv, provenance
from fgrpo_bench.report.content import content, latex, terminal_text
from fgrpo_bench.report.narrative import heading

if TYPE_CHECKING:
    from fgrpo_bench.report.figures import Picture

FILES = {
    "md": "report.md",
    "latex": "table.tex",
    "csv": "results.csv",
    "html": "report.html",
    "by-task": "by-task.csv",
}
"""The file of each format; by-task only where a benchmark is made of tasks."""


def write_report(
    results: SweepResults,
    rule: str = LAST,
    *,
    formats: Sequence[str] = tuple(FILES),
    compare_paper: bool = False,
) -> Report:
    """Write the report and its figures into the sweep's report folder, each file whole.

    Its files: those of FILES that were asked for, provenance.json, then the figures. Works on a
    sweep in progress too. The same stored files give the same bytes. rule: which checkpoint stands
    for every run. formats: those of FILES that are wanted. compare_paper: as for `render`.
    """
    from fgrpo_bench.documents.style import write

    analysis = analysed(results, rule)
    folder, pictures = results.paths.report, _pictures(analysis)
    drawn = _drawn(pictures)
    wanted = [kind for kind in formats if kind != "by-task" or len(analysis.tasks)]
    texts = {
        FILES[kind]: _text(analysis, kind, pictures, drawn, compare_paper=compare_paper)
        for kind in FILES
        if kind in wanted
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    figures = [file for name, kinds in drawn.items() for file in write(kinds, folder / name)]
    contents = {name: text.encode() for name, text in texts.items()} | _files(drawn)
    record = provenance.record(analysis, contents, compare_paper=compare_paper)
    write_json(folder / provenance.NAME, record)
    return Report(
        text=terminal_text(analysis, compare_paper=compare_paper),
        files=[*(folder / name for name in (*texts, provenance.NAME)), *figures],
    )


def render(analysis: Analysis, kind: str, *, compare_paper: bool = False) -> str:
    """One of FILES as text; nothing is written. The Markdown links figures it does not make.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    pictures = _pictures(analysis) if kind in ("md", "html") else []
    drawn = _drawn(pictures, ["svg"]) if kind == "html" else {}
    return _text(analysis, kind, pictures, drawn, compare_paper=compare_paper)


def draw(analysis: Analysis, name: str | None = None) -> dict[str, bytes]:
    """The figures of a report by file name; nothing is written. name: of one, without its suffix;
    None draws all."""
    return _files(_drawn(_pictures(analysis), only=name))


Drawn = Mapping[str, Mapping[str, bytes]]
"""The bytes of each kind of file by the figure's name."""


def _pictures(analysis: Analysis) -> list[Picture]:
    from fgrpo_bench.report.figures import pictures  # matplotlib is slow to import

    return list(pictures(analysis))


def _drawn(
    pictures: Sequence[Picture], kinds: Sequence[str] | None = None, only: str | None = None
) -> Drawn:
    """kinds: of files; only: one file name without suffix; None of either is all."""
    from fgrpo_bench.documents import style

    return {
        name: style.drawings(drawn, kinds or style.KINDS)
        for each in pictures
        for name, drawn in each.versions.items()
        if only in (None, name)
    }


def _files(drawn: Drawn) -> dict[str, bytes]:
    return {f"{name}.{kind}": data for name, kinds in drawn.items() for kind, data in kinds.items()}


def _text(
    analysis: Analysis,
    kind: str,
    pictures: Sequence[Picture],
    drawn: Drawn,
    *,
    compare_paper: bool,
) -> str:
    """One of FILES. pictures: for md and html; drawn: for html."""
    if kind == "csv":
        return csv.results_csv(analysis, compare_paper=compare_paper)
    if kind == "by-task":
        return csv.by_task_csv(analysis)
    if kind == "latex":
        return latex(analysis, compare_paper=compare_paper)
    figures = [Figure(name=picture.name, caption=picture.caption) for picture in pictures]
    blocks, title = content(analysis, figures, compare_paper=compare_paper), heading(analysis)
    if kind == "md":
        return markdown(title, blocks)
    return html(title, blocks, {name: kinds["svg"].decode() for name, kinds in drawn.items()})
