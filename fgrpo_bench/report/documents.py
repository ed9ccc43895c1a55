"""From tables and words to Markdown, LaTeX and terminal text; every name is escaped here."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from fgrpo_bench.report import tables, verdict
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.content import (
    EFFECTS,
    Block,
    Effects,
    Figure,
    Heading,
    Notes,
    Paragraph,
    latex_tables,
    question,
)
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.shape import NONE, SEPARATOR, Content, Table, Value, text_of
from fgrpo_bench.report.summary import Summary

PREAMBLE = r"% Needs \usepackage{booktabs,graphicx}."
"""First words of every LaTeX file."""
FITTED = (
    r"\ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi",
    r"\ifdim\dimexpr\ht0+\dp0\relax>.8\textheight"
    r"\sbox0{\resizebox*{!}{.8\textheight}{\usebox0}}\fi",
    r"\usebox0",
)
"""Sets LaTeX's box 0 no wider than the text and no higher than most of a page."""
LATEX_WIDTH = 100
"""Characters of a row, above which a table is broken where it may be."""
COLUMNS = 100
"""Width of the terminal text."""
_GLUE = "\u2800"
"""Printable, no space to the wrapping, and in no name: stands for a space within an effect."""
_MINUS = re.compile(r"(?<![\w.)-])-(?=\.?\d)")
"""A hyphen that is the sign of a number."""
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
    parts += ["", f"Question: {question(summary)}", "", f"{EFFECTS}:"]
    lines = [line for part in parts for line in _wrapped(part)]
    for title, effects in verdict.answer(summary, comparisons):
        lines += _wrapped(title, first="- ", rest="  ")
        for effect, found in effects:
            whole = found.replace(" ", _GLUE).replace(f";{_GLUE}", "; ")  # break between effects
            lines += _wrapped(f"{effect}: {whole}", first="  ", rest="      ")
    lines += _wrapped(f"{verdict.counted(comparisons)} {verdict.seeds_caveat(summary)}")
    several = len(summary.results.benchmarks) > 1
    shown = main_tables(summary, comparisons) if several else []
    shown += [tables.interval_table(summary, column) for column in summary.headline]
    for table in shown:
        lines += ["", *plain_table(table)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    wrap = textwrap.TextWrapper(
        COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [line.replace(_GLUE, " ") for line in wrap.wrap(plain(text))] or [""]


def markdown(title: str, blocks: Sequence[Block]) -> str:
    """The whole report; figures are PNG files beside it."""
    return "\n\n".join([f"# {escape_markdown(title)}", *map(_markdown, blocks)]) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text=text):
            return f"## {escape_markdown(text)}"
        case Paragraph(text=text, strong=strong):
            return f"**{escape_markdown(text)}**" if strong else escape_markdown(text)
        case Effects(sections=sections):
            lines = []
            for title, effects in sections:
                lines += [f"- {escape_markdown(title)}"]
                for shown, found in effects:
                    lines += [f"  - **{escape_markdown(shown)}**: {escape_markdown(found)}"]
            return "\n".join(lines)
        case Notes(lines=notes):
            return "\n".join(f"- {escape_markdown(note)}" for note in notes)
        case Figure(name=name, caption=caption):
            words = escape_markdown(caption)
            return f"![{words}]({name}.svg)\n\n{words}"
        case Table():
            return f"## {escape_markdown(block.title)}\n\n{markdown_table(block)}"


def latex(
    summary: Summary, comparisons: Sequence[Comparison], further: Sequence[Table] = ()
) -> str:
    r"""The tables for a paper, to be read with \input."""
    budget = escape_latex(verdict.heading(summary))
    parts = [f"{PREAMBLE} Made from stored results; do not edit."]
    for table in latex_tables(summary, comparisons, further):
        parts.append(latex_table(table, caption=f"{escape_latex(table.title)}. {budget}."))
    return "\n".join(parts)


def markdown_table(table: Table) -> str:
    """A pipe table; words to the left, numbers to the right."""
    align = [":--" if i < table.n_words else "--:" for i in range(len(table.header))]
    rows = [[_cell(cell, escape_markdown, _bold) for cell in row] for row in _all_rows(table)]
    lines = [rows[0], align, *rows[1:]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *_below(table, escape_markdown, _bold)])


def _bold(value: Value) -> str:
    text = escape_markdown(value.text)
    text = f"<ins>{text}</ins>" if value.significant else text  # GitHub shows no <u>
    text = f"**{text}**" if value.best else text
    return f"{text}†" if value.incomplete else text


def latex_table(table: Table, *, caption: str) -> str:
    """A floating table with booktabs rules, made smaller where it is wider than the text or, with
    caption and notes, higher than a page.

    caption: LaTeX, already escaped.
    """
    symbols = {"N": "$N$", "gamma": r"$\gamma$", NONE: "--"}

    def escaped(text: str) -> str:
        return symbols.get(text) or escape_latex(text)

    rows = [[_cell(cell, escaped, _latex) for cell in row] for row in _all_rows(table)]
    parts = [_tabular([[row[i] for i in some] for row in rows], table) for some in _parts(table)]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{caption}}}\medskip",
            r"\sbox0{%",
            *(parts if len(parts) == 1 else _stacked(parts)),
            "}",
            *FITTED,
            *(
                rf"\par\smallskip{{\footnotesize\raggedright {note}\par}}"
                for note in _below(table, escaped, _latex)
            ),
            r"\end{table}",
            "",
        ]
    )


def _parts(table: Table) -> list[list[int]]:
    """Columns that stand side by side: all, or where these are too many the words with those from
    one break to the next."""
    every = range(len(table.header))
    widths = [max(len(text_of(row[i])) for row in _all_rows(table)) for i in every]
    if sum(widths) <= LATEX_WIDTH or not table.breaks:
        return [list(every)]
    ends = [*table.breaks[1:], len(table.header)]
    words = range(table.breaks[0])
    return [[*words, *range(a, b)] for a, b in zip(table.breaks, ends, strict=True)]


def _tabular(rows: Sequence[Sequence[str]], table: Table) -> str:
    columns = "l" * table.n_words + "r" * (len(rows[0]) - table.n_words)
    head, *body = (" & ".join(row) + r" \\" for row in rows)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
            r"\end{tabular}",
        ]
    )


def _stacked(parts: Sequence[str]) -> list[str]:
    """Parts below each other, so that all are made smaller alike."""
    return [r"\begin{tabular}{@{}l@{}}", "\\\\\\noalign{\\medskip}\n".join(parts), r"\end{tabular}"]


def _latex(value: Value) -> str:
    text = "--" if value.text == NONE else escape_latex(value.text)
    text = rf"\underline{{{text}}}" if value.significant else text
    text = rf"\textbf{{{text}}}" if value.best else text
    return rf"{text}$^\dagger$" if value.incomplete else text


def plain_table(table: Table) -> list[str]:
    """Lines: the title, then columns of fixed width."""
    rows = [tuple(_cell(cell, plain, _starred) for cell in row) for row in _all_rows(table)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < table.n_words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    notes = [line for note in _below(table, plain, _starred) for line in _wrapped(note)]
    return [plain(table.title), lines[0], "-" * len(lines[0]), *lines[1:], *notes]


def _starred(value: Value) -> str:
    text = plain(value.text)
    text = f"_{text}_" if value.significant else text
    text = f"*{text}*" if value.best else text
    return f"{text}+" if value.incomplete else text


def _all_rows(table: Table) -> tuple[tuple[Content, ...], ...]:
    return (table.header, *table.rows)


def _cell(content: Content, escape: Callable[[str], str], mark: Callable[[Value], str]) -> str:
    return escape(content) if isinstance(content, str) else SEPARATOR.join(map(mark, content))


def _below(
    table: Table, escape: Callable[[str], str], mark: Callable[[Value], str]
) -> Iterator[str]:
    """The legend as one paragraph, then the notes."""
    if table.legend:
        yield "; ".join(f"{mark(value)}: {escape(words)}" for value, words in table.legend) + "."
    yield from map(escape, table.notes)


def escape_markdown(text: str) -> str:
    """Text that no Markdown reader takes for markup, on one line, and still easy to read raw."""
    return _MARKUP.sub(r"\\\g<0>", plain(text))


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it stands, also at the start of a table row, where a bracket or a
    star would belong to the row end before it. Characters that its usual fonts lack are named, and
    the hyphen before a number is set as a minus."""
    text = _MINUS.sub("$-$", "".join(map(_set_by_latex, plain(text))))
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def _set_by_latex(character: str) -> str:
    letter = unicodedata.normalize("NFD", character)[0]
    if not letter.isascii() or ord(character) >= 0x180:
        return f"[U+{ord(character):04X}]"
    return _LATEX.get(character, character)


def plain(text: str) -> str:
    """Control characters, which could steer a terminal, become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
