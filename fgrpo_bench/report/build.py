"""Build a report: what it holds, in order, and the one place that writes the report's folder.

In: the results of a sweep, or of evaluations. Out: report.md and report.html, which have the
answer, three tables and the figures, report.tex with the first table and figures of IN_PAPER, an
appendix to each with every other table, main.tex, which compiles by itself, CSV files (a row per
cell and k, unrounded but for digits that depend on the machine), figures and
provenance.json. Below every table stands which checkpoints it is about. Next: report.words,
report.tables, report.figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fgrpo_bench.analysis import Analysis, analysed
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import CellRow, schema
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.latex import PREAMBLE, escape_latex, latex_figure, latex_table
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import (
    Block,
    Figure,
    Heading,
    Link,
    Paragraph,
    Report,
    Table,
    without_zeros,
)
from fgrpo_bench.documents.terminal import plain, terminal
from fgrpo_bench.files.whole import write_json, write_text
from fgrpo_bench.report import provenance
from fgrpo_bench.report.captions import spaced, title
from fgrpo_bench.report.narrative import answered, equal, explained, notes, over_all_k
from fgrpo_bench.report.tables.comparisons import (
    comparison_table,
    comparison_tables,
    effect_tables,
    equal_budget_tables,
    equal_pass_at_1_tables,
    first_loss_table,
    front_table,
    grader_tables,
    question_table,
    selection_table,
    value_tables,
)
from fgrpo_bench.report.tables.main import all_ks, coverage_table, interval_table, main_tables
from fgrpo_bench.report.tables.paper import against_paper, check_fixed
from fgrpo_bench.report.tables.solutions import solution_tables
from fgrpo_bench.report.tables.training import compute_table, training_table
from fgrpo_bench.report.words import answer, front_sentence
from fgrpo_bench.specs.cell import COLUMNS

if TYPE_CHECKING:
    from fgrpo_bench.report.figures import Picture


FIRST = ("differences-", "paths-", "plane-", "curves-")
"""Beginnings of the names of figures that stand with the answer, in their order."""
IN_PAPER = ("paths-", "by-", "coverage-")
"""Likewise of those that stand in the main file of a paper."""
MOST = 3
"""Tables of the main file, of a paper's the first alone; all others stand in its appendix."""
CLEARED, FLOATS = r"\clearpage", 12
"""What sets waiting tables, and after how many of them: LaTeX holds 18."""
ROWS = 12
"""Most rows of a table on a screen."""
CORRECTED = "Significant: holds after Holm's correction over the question's comparisons. "
VERDICTS = (
    "Suggestive: the 95% interval excludes 0. Inconclusive: neither, which is not the same as no "
    "difference."
)


def content(
    analysis: Analysis, figures: Sequence[Figure] = (), *, compare_paper: bool = False
) -> list[Block]:
    """The main file below its title, which is `captions.title`.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    first = [figure for figure in figures if figure.name.startswith(FIRST)]
    further = [figure for figure in figures if figure not in first]
    return [
        *answered(analysis),
        *first,
        *tables(analysis, compare_paper=compare_paper)[:MOST],
        *explained(analysis),
        *([Heading(text="Further figures")] if further else []),
        *further,
        Heading(text="Notes"),
        notes(analysis),
    ]


def appendix(analysis: Analysis, *, compare_paper: bool = False) -> list[Block]:
    """What the main file has no room for: every other table, and the words on all k at once."""
    return [*over_all_k(analysis), *tables(analysis, compare_paper=compare_paper)[MOST:]]


def tables(analysis: Analysis, *, compare_paper: bool = False) -> list[Table]:
    """Every table once, what the question is about first. Of one benchmark the intervals say all
    that the table of methods says, so that they stand before it."""
    columns, several = analysis.headline, len(analysis.columns) > 1
    methods = main_tables(analysis)
    first = [
        *(methods[:1] if several else ()),
        *(interval_table(analysis, column) for column in columns if not several),
        *(against_paper(analysis) if compare_paper else ()),
        *effect_tables(analysis),
        *equal_pass_at_1_tables(analysis, in_question_only=True),
        *filter(None, (question_table(analysis, column) for column in columns)),
        *selection_table(analysis),
        *(all_ks(analysis, column) for column in columns),
    ]
    further = [
        *methods,
        *(table for column in analysis.columns for table in _details(analysis, column)),
        *grader_tables(analysis),
        *equal_budget_tables(analysis),
        *equal_pass_at_1_tables(analysis),
        *value_tables(analysis),
        training_table(analysis),
        compute_table(analysis),
    ]
    return [*first, *(table for table in further if table not in first)]


def _details(analysis: Analysis, column: str) -> Iterator[Table]:
    yield interval_table(analysis, column)
    yield all_ks(analysis, column)
    yield comparison_table(analysis, column)
    further = (question_table, front_table, first_loss_table, coverage_table)
    yield from filter(None, (table(analysis, column) for table in further))
    yield from solution_tables(analysis, column)


def terminal_text(analysis: Analysis, *, compare_paper: bool = False) -> str:
    """What fits a screen: the answer, a table for each column that stands for all, the plane, and
    the tables that were asked for; a sweep of many cells has those of the question and the best."""
    asked_for = [*effect_tables(analysis), *selection_table(analysis)]
    if compare_paper:
        asked_for += against_paper(analysis)
    blocks: list[Block] = [*answered(analysis)]
    for column in analysis.headline:
        blocks.append(_short(analysis, column))
        plane = front_sentence(analysis, column)
        blocks += [Paragraph(text=plane)] if plane else []
    blocks.append(Paragraph(text=(CORRECTED if analysis.has_family else "") + VERDICTS))
    blocks += [] if analysis.results.sweep is None else [Paragraph(text=equal(analysis))]
    return terminal(title(analysis), [*blocks, *asked_for])


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


PAPER = r"""\documentclass{article}
\usepackage[letterpaper,textwidth=6.75in,textheight=9.5in]{geometry}
\usepackage{booktabs,graphicx}
\sloppy  %% numbers in brackets are not broken
\raggedbottom
\makeatletter  %% tables and figures stand where they are read, several on a page
\def\fps@table{!htbp}\def\fps@figure{!htbp}\setlength{\@fptop}{0pt}
\makeatother
\setcounter{topnumber}{9}\setcounter{totalnumber}{9}
\setlength{\intextsep}{6pt}\setlength{\abovecaptionskip}{4pt}
\begin{document}
\begin{center}\Large %(title)s\end{center}
%(answer)s
\input{%(main)s}
\clearpage
\appendix
\section{Further tables and figures}
\input{%(appendix)s}
\end{document}
"""
"""A whole document for pdflatex in the report's folder. Its one column is as wide as a page of two,
for which the tables and figures are made."""


def latex_paper(analysis: Analysis) -> str:
    r"""A document that compiles by itself: the answer in words, then the main file and its appendix
    by \input."""
    return PAPER % {
        "title": escape_latex(title(analysis)),
        "answer": "\n\n".join(map(escape_latex, answer(analysis))),
        "main": FILES["latex"],
        "appendix": FILES[f"latex{APPENDIX}"],
    }


def latex(
    analysis: Analysis, figures: Sequence[Picture] = (), *, compare_paper: bool = False
) -> str:
    r"""The main file for a paper, to be read with \input: the answer as a comment, the first table
    and the figures of IN_PAPER, each as wide as it can be read. No seconds, so that the same
    results give the same file."""
    first, *_ = tables(analysis, compare_paper=compare_paper)
    lines = [
        f"{PREAMBLE} Made from stored results; do not edit.",
        r"% The figures are the PDF files that `fgrpo-bench report` writes beside this file;",
        r"% elsewhere, \graphicspath{{folder of these/}} names their folder.",
        f"% {plain(' '.join(answer(analysis)))}",
        *_floating([first]),
        *(_floating_figure(picture) for picture in figures if picture.name.startswith(IN_PAPER)),
    ]
    return "\n".join(lines)


def latex_appendix(
    analysis: Analysis, figures: Sequence[Picture] = (), *, compare_paper: bool = False
) -> str:
    r"""The other tables and figures for a paper; every difference last, with those of each question
    apart. None of seconds, so that the same results give the same file."""
    columns = analysis.columns
    others = [*(comparison_table(analysis, column) for column in columns), compute_table(analysis)]
    rest = tables(analysis, compare_paper=compare_paper)[1:]
    shown = [table for table in rest if table not in others]
    floating = [
        *_floating([*shown, *(t for name in columns for t in comparison_tables(analysis, name))]),
        *(_floating_figure(pic) for pic in figures if not pic.name.startswith(IN_PAPER)),
    ]
    lines = [f"{PREAMBLE} Made from stored results; do not edit."]
    for i, float_ in enumerate(floating):
        lines += [CLEARED] if i and (i % FLOATS == 0 or i == len(shown)) else []
        lines.append(float_)
    return "\n".join(lines)


def _floating(shown: Sequence[Table]) -> list[str]:
    """Tables of one file, where a note stands once."""
    noted: dict[str, str] = {}
    return [
        latex_table(
            without_zeros(table),
            caption=escape_latex(table.caption or f"{spaced(table.title)}."),
            noted=noted,
        )
        for table in shown
    ]


def _floating_figure(picture: Picture) -> str:
    return latex_figure(picture.name, picture.caption, is_narrow=picture.fits_column)


_CELL_COLUMNS: dict[str, Any] = {name: schema(CellRow)[name] for name in ("method", *COLUMNS[:3])}
"""method (Base, GRPO, F-GRPO, ...; it names another learning rate and prompts per step; without a
sweep the label), algorithm (empty for Base and without a sweep, likewise the next ones),
group_size and focal_gamma."""
RESULTS = pl.Schema(
    {
        "sweep": pl.String,  # empty without a sweep, likewise the next two
        "experiment": pl.String,
        "model": pl.String,
        **_CELL_COLUMNS,
        "step": pl.Int64,
        "benchmark": pl.String,  # or the name of an average of several
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction; empty where nothing is done
        "ci_low": pl.Float64,  # of the 95% interval; empty likewise, and with one problem
        "ci_high": pl.Float64,
        "n_seeds": pl.Int64,
        "n_problems": pl.Int64,  # with a value for every seed
        "n_samples": pl.Int64,  # draws per problem, the most; of an average the fewest
        "n_draws": pl.Float64,  # that were made of a problem until it stopped, mean
        "design": pl.String,  # when problems stop; empty where all make n_samples draws
        "is_redesigned": pl.Boolean,  # whether that was changed when draws were there
        "unscored": pl.Float64,  # share of the draws that the grader could not judge
        "all_wrong": pl.Float64,  # pass_at_k were all of these wrong
        "all_right": pl.Float64,  # were they all right
        "cut_off": pl.Float64,  # share of the draws, empty where not known
        "correct_cut_off": pl.Float64,  # of the correct ones
        "correct_by_place": pl.Float64,  # likewise: found by its place in the text alone
    }
)
PAPER_COLUMNS = pl.Schema(
    {
        "paper_pass_at_k": pl.Float64,  # the published one at this k; empty where there is none
        "difference": pl.Float64,  # ours less it
    }
)
"""Columns behind these with the published figures."""
VALUE_COLUMNS = pl.Schema(
    {
        "by": pl.String,  # the column of the problems
        "value": pl.String,  # what a row's problems have there
        "n_of_value": pl.Int64,  # how many have it, judged or not
    }
)
"""Columns behind these of rows that are over the problems of one value."""


def results_csv(analysis: Analysis, *, compare_paper: bool = False) -> str:
    """Every benchmark and average (RESULTS). compare_paper: with the columns of BESIDE_PAPER;
    raises as `check_fixed`."""
    if compare_paper:
        check_fixed(analysis)
    published_columns = PAPER_COLUMNS.items() if compare_paper else ()
    rows = analysis.estimates.filter("is_chosen")
    return _csv_text(analysis, rows, pl.Schema([*RESULTS.items(), *published_columns]))


def as_json(analysis: Analysis, *, compare_paper: bool = False) -> dict[str, Any]:
    """The answer in sentences, the comparisons of its question (`Analysis.in_question`), and every
    pass@k, unrounded (rows of the frames `estimates` and `by_value`: docs/reference/columns.md).
    compare_paper: raises as `check_fixed`; without, no published figure is among them."""
    if compare_paper:
        check_fixed(analysis)
    estimates = analysis.estimates.filter("is_chosen")
    return {
        "title": title(analysis),
        "answer": answer(analysis),
        "comparisons": [asdict(row) for row in analysis.in_question],
        "estimates": (estimates if compare_paper else estimates.drop("published")).to_dicts(),
        "by_value": analysis.by_value.to_dicts(),
    }


def _by_value_csv(analysis: Analysis) -> str:
    """Likewise by the values of a column of the problems."""
    columns = pl.Schema([*RESULTS.items(), *VALUE_COLUMNS.items()])
    return _csv_text(analysis, analysis.by_value, columns)


def _csv_text(analysis: Analysis, rows: pl.DataFrame, columns: pl.Schema) -> str:
    """Rows of the frame of estimates. Fractions to 12 digits after the point: those behind depend
    on how many threads added up."""
    named = {"column": "benchmark", "mean": "pass_at_k", "low": "ci_low", "high": "ci_high",
             "published": "paper_pass_at_k"}  # fmt: skip
    rows = rows.drop("step").rename(named)
    rows = rows.with_columns(
        n_seeds=pl.col("seeds").list.len(),
        design=pl.col("designs").list.join("; or ").replace("", None),
        difference=pl.col("pass_at_k") - pl.col("paper_pass_at_k"),
    )
    address = dict.fromkeys(("sweep", "experiment", "model"))
    if (sweep := analysis.results.sweep) is not None:
        address = {"sweep": sweep.paths.sweep, "experiment": sweep.paths.experiment,
                   "model": sweep.model}  # fmt: skip
    joined = rows.join(analysis.cells, on="cell", how="left", maintain_order="left")
    return (
        joined.with_columns(pl.lit(value).alias(name) for name, value in address.items())
        .select(pl.col(name).cast(kind) for name, kind in columns.items())
        .with_columns(pl.col(pl.Float64).round(12))
        .write_csv()
    )


APPENDIX = "-appendix"
"""Ends the name of a format whose file has what the main one has no room for."""
FILES = {
    "md": "report.md",
    "latex": "report.tex",
    "csv": "results.csv",
    "html": "report.html",
    "by-value": "by-value.csv",
    f"md{APPENDIX}": "appendix.md",
    f"latex{APPENDIX}": "appendix.tex",
    f"html{APPENDIX}": "appendix.html",
    "latex-paper": "main.tex",
}
"""The file of each format; by-value only where pass@k is told by a column of the problems."""


def write_report(
    results: Results,
    rule: str = LAST,
    *,
    formats: Sequence[str] = tuple(FILES),
    compare_paper: bool = False,
    by: str | None = None,
) -> Report:
    """Write the report and its figures into the report folder of what is reported, each file whole.

    Its files: those of FILES that were asked for, each with its appendix, provenance.json, then the
    figures. Works on a sweep in progress too. The same stored files give the same bytes. rule:
    which checkpoint stands for every run. formats: those of FILES that are wanted. compare_paper:
    as for `render`. by: as of fgrpo_bench.analysis.analyse.
    """
    analysis = analysed(results, rule, by=by)
    folder = results.address.report
    names = write_files(analysis, folder, formats=formats, compare_paper=compare_paper)
    return Report(
        text=terminal_text(analysis, compare_paper=compare_paper),
        files=[folder / name for name in names],
    )


def write_files(
    analysis: Analysis, folder: Path, *, formats: Sequence[str], compare_paper: bool
) -> list[str]:
    """The same files of an analysis in any folder; returns their names."""
    from fgrpo_bench.documents.style import write_drawings

    pictures = _pictures(analysis)
    figure_files = _draw_figures(pictures)
    texts = {
        FILES[kind]: _text(analysis, kind, pictures, figure_files, compare_paper=compare_paper)
        for kind in FILES
        if not {kind, kind.partition("-")[0]}.isdisjoint(formats)
        and (kind != "by-value" or len(analysis.by_value))
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    if (by_value := FILES["by-value"]) not in texts:  # of a report that told it by a column
        (folder / by_value).unlink(missing_ok=True)
    figures = [
        file.name
        for name, kinds in figure_files.items()
        for file in write_drawings(kinds, folder / name)
    ]
    drawings = {
        f"{name}.{kind}": data
        for name, kinds in figure_files.items()
        for kind, data in kinds.items()
    }
    contents = {name: text.encode() for name, text in texts.items()} | drawings
    record = provenance.record(analysis, contents, compare_paper=compare_paper)
    write_json(folder / provenance.NAME, record)
    return [*texts, provenance.NAME, *figures]


def render(analysis: Analysis, kind: str, *, compare_paper: bool = False) -> str:
    """One of FILES as text; nothing is written. The Markdown links figures it does not make, or
    none where nothing can make them.

    compare_paper: with the published figures beside ours (raises as `against_paper`).
    """
    has_links = kind == "md" and find_spec("matplotlib") is not None
    pictures = (
        _pictures(analysis) if has_links or kind.partition("-")[0] in ("latex", "html") else []
    )
    figure_files = _draw_figures(pictures, ["svg"]) if kind == "html" else {}
    return _text(analysis, kind, pictures, figure_files, compare_paper=compare_paper)


def page(
    analysis: Analysis,
    head: str | None = None,
    first: Sequence[Block] = (),
    *,
    compare_paper: bool = False,
) -> str:
    """One file of HTML that can be sent: the report with its figures and all its tables, without
    another file; nothing is written.

    head: its title; None: the report's. first: what stands before the report. compare_paper: as for
    `render`.
    """
    pictures = _pictures(analysis)
    blocks = [
        *first,
        *content(analysis, _shown(pictures), compare_paper=compare_paper),
        *appendix(analysis, compare_paper=compare_paper),
    ]
    return html(head or title(analysis), blocks, _svgs(_draw_figures(pictures, ["svg"])))


FigureFiles = Mapping[str, Mapping[str, bytes]]
"""The bytes of each kind of file by the figure's name."""


def _pictures(analysis: Analysis) -> list[Picture]:
    from fgrpo_bench.report.figures import pictures  # matplotlib is slow to import

    def place(picture: Picture) -> int:
        return next(
            (i for i, kind in enumerate(FIRST) if picture.name.startswith(kind)), len(FIRST)
        )

    return sorted(pictures(analysis), key=place)


def _draw_figures(
    pictures: Sequence[Picture], kinds: Sequence[str] | None = None, only: str | None = None
) -> FigureFiles:
    """kinds: of files; only: one file name without suffix; None of either is all."""
    from fgrpo_bench.documents import style

    return {
        name: style.drawings(version, kinds or style.KINDS)
        for picture in pictures
        for name, version in picture.versions.items()
        if only in (None, name)
    }


def _shown(pictures: Sequence[Picture]) -> list[Figure]:
    return [Figure(name=picture.name, caption=picture.caption) for picture in pictures]


def _svgs(figure_files: FigureFiles) -> dict[str, str]:
    return {name: kinds["svg"].decode() for name, kinds in figure_files.items()}


def _text(
    analysis: Analysis,
    kind: str,
    pictures: Sequence[Picture],
    figure_files: FigureFiles,
    *,
    compare_paper: bool,
) -> str:
    """One of FILES. pictures: for md, latex and html; figure_files: for html."""
    if kind == "csv":
        return results_csv(analysis, compare_paper=compare_paper)
    if kind == "by-value":
        return _by_value_csv(analysis)
    if kind == "latex":
        return latex(analysis, pictures, compare_paper=compare_paper)
    if kind == f"latex{APPENDIX}":
        return latex_appendix(analysis, pictures, compare_paper=compare_paper)
    if kind == "latex-paper":
        return latex_paper(analysis)
    markup, is_appendix = kind.removesuffix(APPENDIX), kind.endswith(APPENDIX)
    if is_appendix:
        head = f"Appendix: {title(analysis)}"
        blocks = appendix(analysis, compare_paper=compare_paper)
        link = Link(text="The report", file=FILES[markup])
    else:
        head, blocks = (
            title(analysis),
            content(analysis, _shown(pictures), compare_paper=compare_paper),
        )
        link = Link(text="Appendix: every other table", file=FILES[f"{markup}{APPENDIX}"])
    if markup == "md":
        return markdown(head, [*blocks, link])
    return html(head, [*blocks, link], _svgs(figure_files))
