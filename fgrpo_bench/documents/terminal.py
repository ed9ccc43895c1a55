"""Words and tables for a screen, or for a file or a pipe of COLUMNS columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from fgrpo_bench.documents.table import (
    Block,
    Figure,
    Heading,
    Link,
    Notes,
    Outline,
    Paragraph,
    Table,
    Value,
    legend_and_notes,
    marked_rows,
)

COLUMNS = 100
"""Widest line of words, and the width where there is no terminal."""
_GLUE = "\u2800"
"""Printable, no space to the wrapping, and in no name: stands for a space within a phrase."""


def width() -> int:
    """Columns of the terminal; COLUMNS where there is none."""
    # the number of lines does not matter here
    return shutil.get_terminal_size((COLUMNS, 24)).columns


def terminal(title: str, blocks: Sequence[Block]) -> str:
    """The whole document, but for its figures."""
    parts = [line for block in blocks for line in _lines(block)]
    return "\n".join([*_wrapped(title), *parts]) + "\n"


def _lines(block: Block) -> list[str]:
    match block:
        case Heading(text=text):
            return ["", *_wrapped(text)]
        case Paragraph(text=text):
            return _wrapped(text)
        case Outline(sections=sections):
            lines = []
            for title, about in sections:
                lines += _wrapped(title, first="- ", rest="  ")
                for label, text in about:  # broken between phrases only
                    glued = text.replace(" ", _GLUE).replace(f";{_GLUE}", "; ")
                    lines += _wrapped(f"{label}: {glued}", first="  ", rest="      ")
            return lines
        case Notes(lines=notes):
            return [line for note in notes for line in _wrapped(note, first="- ", rest="  ")]
        case Figure() | Link():
            return []
        case Table():
            return ["", *plain_table(block)]


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Lines no wider than the terminal or COLUMNS. first, rest: what they begin with."""
    columns = max(min(width(), COLUMNS), len(rest) + 1)
    wrap = textwrap.TextWrapper(
        columns, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [line.replace(_GLUE, " ") for line in wrap.wrap(plain(text))] or [""]


def plain_table(table: Table) -> list[str]:
    """Lines: the title, then columns of fixed width."""
    lines = aligned(marked_rows(table, _starred), n_labels=table.n_labels)
    notes = [line for note in legend_and_notes(table, _starred) for line in _wrapped(note)]
    return [*_wrapped(table.title), lines[0], "-" * len(lines[0]), *lines[1:], *notes]


def aligned(rows: Sequence[Sequence[str]], *, n_labels: int | None = None) -> list[str]:
    """A line a row: columns as wide as their widest cell, two spaces between them and none at a
    line's end. The first n_labels of them stand left, the others right; None: all left.

    >>> aligned([["seed", "k"], ["3", "256"]], n_labels=1)
    ['seed    k', '3     256']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if n_labels is None or i < n_labels else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _starred(value: Value) -> str:
    text = plain(value.text)
    text = f"_{text}_" if value.significant else text
    text = f"*{text}*" if value.best else text
    text = f"{text}+" if value.incomplete else text
    return f"{text}#" if value.redesigned else text


def escaped(text: str) -> str:
    """Text of a line in which what a terminal would not print as a character is written out: a name
    in a file that somebody changed may end the line, or begin a sequence that a terminal obeys."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def plain(text: str) -> str:
    """Control characters, which could steer a terminal, become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
