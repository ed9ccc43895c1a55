"""From tables and words to Markdown, LaTeX and terminal text; every name is escaped here."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from fgrpo_bench.report import covered, tables, verdict
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.report.tables import Table

COLUMNS = 100
"""Width of the terminal text."""
EFFECTS = "Differences in percentage points [95% interval], and how many seeds have that sign"
_GLUE = "\u2800"
"""Printable, no space to the wrapping, and in no name: stands for a space within an effect."""
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}

_MARKUP = re.compile(
    r"[\\`*<|~]"  # code, emphasis, HTML, table columns
    r"|(?<!\w)_|_(?!\w)"  # an underscore within a word marks nothing
    r"|\](?=[(\[:])"  # brackets are a link only where a target follows
    r"|^[#>]|^[-+](?= )"  # headings, quotes and lists begin a line
)


def terminal(summary: Summary, comparisons: Sequence[Comparison]) -> str:
    """The words, then the main table, for a screen or a log of COLUMNS columns."""
    parts = [verdict.heading(summary), verdict.budget(summary)]
    missing = verdict.incomplete(summary)
    parts += [missing] if missing else []
    parts += ["", f"Question: {_question(summary)}", "", f"{EFFECTS}:"]
    lines = [line for part in parts for line in _wrapped(part)]
    for title, effects in verdict.answer(summary, comparisons):
        lines += _wrapped(title, first="- ", rest="  ")
        for shown, found in effects:
            whole = found.replace(" ", _GLUE).replace(f";{_GLUE}", "; ")  # break between effects
            lines += _wrapped(f"{shown}: {whole}", first="  ", rest="      ")
    lines += _wrapped(f"{verdict.counted(comparisons)} {verdict.seeds_caveat(summary)}")
    for benchmark in summary.results.benchmarks:
        lines += ["", *plain_table(tables.main_table(summary, benchmark))]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    wrap = textwrap.TextWrapper(
        COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [line.replace(_GLUE, " ") for line in wrap.wrap(plain(text))] or [""]


def markdown(
    summary: Summary,
    comparisons: Sequence[Comparison],
    figures: Sequence[tuple[str, str]],
    further: Sequence[Table] = (),
) -> str:
    """The whole report.

    figures: (file name, caption) of each picture, beside the report. further: tables that stand
    behind those of the benchmarks.
    """
    parts = [f"# {escape_markdown(verdict.heading(summary))}"]
    missing = verdict.incomplete(summary)
    parts += [f"**{escape_markdown(missing)}**"] if missing else []
    parts += [escape_markdown(verdict.budget(summary))]
    parts += ["## Question", escape_markdown(_question(summary))]
    parts += ["## Answer", f"{EFFECTS}."]
    lines = []
    for title, effects in verdict.answer(summary, comparisons):
        lines += [f"- {escape_markdown(title)}"]
        for shown, found in effects:
            lines += [f"  - **{escape_markdown(shown)}**: {escape_markdown(found)}"]
    parts += ["\n".join(lines)] if lines else []
    parts += [escape_markdown(f"{verdict.counted(comparisons)} {verdict.seeds_caveat(summary)}")]
    for benchmark in summary.results.benchmarks:
        made = [
            tables.main_table(summary, benchmark),
            tables.all_ks(summary, benchmark),
            tables.comparison_table(comparisons, benchmark),
        ]
        for table in made:
            parts += _titled(table)
        reached = covered.coverage_table(summary, benchmark)
        if reached.rows:
            note = escape_markdown(covered.coverage_note(summary.ks[-1]))
            parts += [*_titled(reached), note]
    for table in further:
        parts += _titled(table)
    parts += ["## Figures"] if figures else []
    parts += [
        f"![{escape_markdown(caption)}]({name})\n\n{escape_markdown(caption)}"
        for name, caption in figures
    ]
    compute = tables.compute_table(summary)
    parts += [*_titled(compute), "## Notes"]
    parts += ["\n".join(f"- {escape_markdown(n)}" for n in verdict.notes(summary, comparisons))]
    return "\n\n".join(parts) + "\n"


def _titled(table: Table) -> list[str]:
    return [f"## {escape_markdown(table.title)}", markdown_table(table)]


def latex(summary: Summary, further: Sequence[Table] = ()) -> str:
    r"""Two tables a benchmark, to be read with \input, then the further ones; needs the package
    booktabs."""
    parts = [r"% Needs \usepackage{booktabs}. Made from stored results; do not edit."]
    budget = escape_latex(verdict.heading(summary))
    for benchmark in summary.results.benchmarks:
        for table in (tables.main_table(summary, benchmark), tables.all_ks(summary, benchmark)):
            parts += [latex_table(table, caption=f"{escape_latex(table.title)}. {budget}.")]
    parts += [latex_table(table, caption=escape_latex(table.title)) for table in further]
    return "\n".join(parts)


def markdown_table(table: Table) -> str:
    """A pipe table; words to the left, numbers to the right."""
    align = [":--" if i < table.n_words else "--:" for i in range(len(table.header))]
    rows = [[escape_markdown(cell) for cell in row] for row in (table.header, *table.rows)]
    lines = [rows[0], align, *rows[1:]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *map(escape_markdown, table.notes)])


def latex_table(table: Table, *, caption: str) -> str:
    """A floating table with booktabs rules.

    caption: LaTeX, already escaped.
    """
    columns = "l" * table.n_words + "r" * (len(table.header) - table.n_words)
    symbols = {"N": "$N$", "gamma": r"$\gamma$", tables.NONE: "--"}
    rows = [
        " & ".join(symbols.get(cell, escape_latex(cell)) for cell in row) + r" \\"
        for row in (table.header, *table.rows)
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{caption}}}\medskip",
            rf"\begin{{tabular}}{{{columns}}}",
            *(r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"),
            r"\end{tabular}",
            *(rf"\par\smallskip\footnotesize {escape_latex(note)}" for note in table.notes),
            r"\end{table}",
            "",
        ]
    )


def plain_table(table: Table) -> list[str]:
    """Lines: the title, then columns of fixed width."""
    rows = [tuple(map(plain, row)) for row in (table.header, *table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < table.n_words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    notes = [line for note in table.notes for line in _wrapped(note)]
    return [plain(table.title), lines[0], "-" * len(lines[0]), *lines[1:], *notes]


def escape_markdown(text: str) -> str:
    """Text that no Markdown reader takes for markup, on one line, and still easy to read raw."""
    return _MARKUP.sub(r"\\\g<0>", plain(text))


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it stands, also at the start of a table row, where a bracket or a
    star would belong to the row end before it."""
    text = "".join(_LATEX.get(character, character) for character in plain(text))
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def plain(text: str) -> str:
    """Control characters, which could steer a terminal, become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def _question(summary: Summary) -> str:
    return str(summary.results.declaration["declaration"]["sweep"]["question"])
