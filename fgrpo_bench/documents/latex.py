"""Tables as LaTeX; every text is escaped here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from fgrpo_bench.documents.table import (
    NONE,
    Table,
    Value,
    in_column,
    legend_and_notes,
    marked_rows,
    plain_text,
)
from fgrpo_bench.documents.terminal import plain

PREAMBLE = r"% Needs \usepackage{booktabs,graphicx}."
"""First words of every LaTeX file."""
FITTED = (
    r"\ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi",
    r"\ifdim\dimexpr\ht0+\dp0\relax>.8\textheight"
    r"\sbox0{\resizebox*{!}{.8\textheight}{\usebox0}}\fi",
    r"\usebox0",
)
"""Sets LaTeX's box 0 no wider than the text and no higher than most of a page."""
FITTED_FIGURE = r"[width=\ifdim5.5in>\linewidth\linewidth\else5.5in\fi]"
"""As wide as it is drawn (`documents.style.PAGE`), or as the text where that is narrower."""
COLUMN_WIDTH = 234
"""Points of one column of two, 3.25 inches; a table that is wider spans both."""
LETTER, GAP = 4.5, 8
"""Points of a letter at the size of tables, on average, and between two columns of a table."""
LATEX_WIDTH = 100
"""Characters of a row, above which a table is broken where it may be."""
_MINUS = re.compile(r"(?<![\w.)-])-(?=\.?\d)")
"""A hyphen that is the sign of a number."""
_SYMBOL = re.compile(r"(?<![\w\\-])(gamma(?=\b(?![_-]))|N(?=$|[ =,)]))")
"""What stands for the focal exponent and the group size in words, tables and captions."""
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def latex_table(table: Table, *, caption: str, noted: dict[str, str] | None = None) -> str:
    """A floating table with booktabs rules, made smaller where it is wider than the text or, with
    caption and notes, higher than a page. In an article of two columns a wide one spans both.

    caption: LaTeX, already escaped. noted: the label of the table below which a note stands, by
    note, of earlier tables of a file, which those of this table are added to: they are referred to
    in place of being repeated. None: each note is set.
    """
    noted = {} if noted is None else noted
    notes = list(legend_and_notes(table, _latex))
    earlier = dict.fromkeys(noted[note] for note in notes if note in noted)
    notes = [note for note in notes if note not in noted]
    noted |= dict.fromkeys(notes, _label(table))
    if earlier:
        listed = ", ".join(rf"\ref{{{label}}}" for label in earlier)
        notes.append(f"Further notes: as below Table {listed}.")
    rows = marked_rows(table, _latex)
    columns = _parts(table)
    parts = [_tabular([[row[i] for i in some] for row in rows], table) for some in columns]
    is_wide = any(_points(table, some) > COLUMN_WIDTH for some in columns)
    environment = "table*" if is_wide else "table"
    return "\n".join(
        [
            rf"\begin{{{environment}}}",
            r"\centering\small\setlength{\tabcolsep}{4pt}",
            rf"\caption{{{caption}}}\label{{{_label(table)}}}\medskip",
            r"\sbox0{%",
            *(parts if len(parts) == 1 else _stacked(parts)),
            "}",
            *FITTED,
            *(rf"\par\smallskip{{\footnotesize\raggedright {note}\par}}" for note in notes),
            rf"\end{{{environment}}}",
            "",
        ]
    )


def latex_figure(name: str, caption: str, *, is_narrow: bool) -> str:
    """A floating figure, one column wide where there is a drawing for it, else across the text.

    name: of the drawing for the page; caption: plain words.
    """
    environment, size, drawing = "figure", "", in_column(name)
    if not is_narrow:
        environment, size, drawing = "figure*", FITTED_FIGURE, name
    return "\n".join(
        [
            rf"\begin{{{environment}}}",
            rf"\centering\includegraphics{size}{{{drawing}}}",
            rf"\caption{{{escape_latex(caption)}}}\label{{fig:{name}}}",
            rf"\end{{{environment}}}",
            "",
        ]
    )


def _label(table: Table) -> str:
    """What \\ref finds a table by, e.g. `tab:countdown-problems-within-reach-at-k-256`: the words
    of its title before a comma."""
    parts = re.findall(r"[a-z0-9]+", table.title.partition(",")[0].lower())
    return f"tab:{'-'.join(parts)}"


def _parts(table: Table) -> list[list[int]]:
    """Columns that stand side by side: all, or where these are too many the words with those from
    one break to the next."""
    every = list(range(len(table.header)))
    if sum(_letters(table, every)) <= LATEX_WIDTH or not table.breaks:
        return [every]
    ends = [*table.breaks[1:], len(table.header)]
    labels = range(table.breaks[0])
    return [[*labels, *range(a, b)] for a, b in zip(table.breaks, ends, strict=True)]


def _letters(table: Table, some: Sequence[int]) -> list[int]:
    """The longest text of some columns each."""
    return [max(len(plain_text(row[i])) for row in (table.header, *table.rows)) for i in some]


def _points(table: Table, some: Sequence[int]) -> float:
    """About how wide some columns are together when LaTeX has set them."""
    return LETTER * sum(_letters(table, some)) + GAP * len(some)


def _tabular(rows: Sequence[Sequence[str]], table: Table) -> str:
    columns = "l" * table.n_labels + "r" * (len(rows[0]) - table.n_labels)
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
    text = rf"{text}$^\dagger$" if value.incomplete else text
    return rf"{text}$^\ddagger$" if value.redesigned else text


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it stands, also at the start of a table row, where a bracket or a
    star would belong to the row end before it. Characters that its usual fonts lack are named, and
    the hyphen before a number is set as a minus."""
    text = _MINUS.sub("$-$", "".join(map(_set_by_latex, plain(text))))
    text = with_symbols(text)
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def with_symbols(text: str) -> str:
    """The focal exponent and the group size as math, for LaTeX and for figures."""
    return _SYMBOL.sub(lambda word: r"$\gamma$" if word[0] == "gamma" else "$N$", text)


def _set_by_latex(character: str) -> str:
    letter = unicodedata.normalize("NFD", character)[0]
    if not letter.isascii() or ord(character) >= 0x180:
        return f"[U+{ord(character):04X}]"
    return _LATEX.get(character, character)
