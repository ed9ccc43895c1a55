"""What a document says, in order and without any markup: headings, words, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.documents.table import Table


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Begins a part."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Plain words."""

    text: str
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Outline:
    """A title and its lines each."""

    sections: tuple[tuple[str, tuple[Line, ...]], ...]


Line = tuple[str, str]
"""A few words that stand out, and what they are about."""


@dataclass(frozen=True, kw_only=True)
class Notes:
    """Facts, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture by its file name without suffix."""

    name: str
    caption: str


def in_column(name: str) -> str:
    """The name of a figure as it is drawn for one column of two."""
    return f"{name}-column"


Block = Heading | Paragraph | Outline | Notes | Figure | Table
"""A table brings its title as a heading."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what to print."""

    text: str
    """Words and tables for a terminal."""
    files: list[Path]
