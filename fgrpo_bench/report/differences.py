"""Where a file is not what it should be, in its own terms: table, row and column."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from math import isclose
from pathlib import Path
from typing import Any

import polars as pl

SHOWN = 5
"""Most differences of a file that are shown."""
Cells = list[str]


def _markdown(line: str) -> Cells | None:
    is_row = line.startswith("| ") and line.endswith(" |") and not line.startswith("| :--")
    return line[2:-2].split(" | ") if is_row else None


def _latex(line: str) -> Cells | None:
    return line.removesuffix(r" \\").split(" & ") if line.endswith(r" \\") else None


def _html(line: str) -> Cells | None:
    return re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", line) or None


def _csv(line: str) -> Cells | None:
    try:
        return next(csv.reader([line]), None) or None
    except csv.Error:
        return None


MARKUPS: dict[str, tuple[str, Callable[[str], Cells | None]]] = {
    ".md": (r"## (.*)", _markdown),
    ".tex": (r"\\caption\{(.*?)(?:\. .*)?\}\\label|\\begin\{tabular\}\{[lr]+\}()", _latex),
    ".html": (r'<h2 id="[^"]*">(.*)</h2>|\s*<g id="(.*)-figure_1">', _html),
    ".csv": (r"(?!)", _csv),
    ".svg": (r'\s*<g id="(.*)">', lambda line: None),
}
"""By suffix: the line that begins a part, with its name (an empty one goes on with the part, in a
table of its own), and how a line is a row of a table. The first row of a part is its header."""


@dataclass(kw_only=True)
class _Part:
    """A part of a file, and its table if it has one."""

    name: str
    rows: list[Cells] = field(default_factory=list)


def different_lines(name: str, then: str, again: str) -> Iterator[str]:
    """Lines of a file that differ, their ends included.

    name: of the file; its suffix tells the markup. again: what it should say.
    """
    begins, cells_of = MARKUPS[Path(name).suffix]
    actual, expected = then.split("\n"), again.split("\n")
    places, part = list[tuple[_Part, int | None]](), _Part(name="")
    for line in expected:
        if match := re.match(begins, line):
            part = _Part(name=next(filter(None, match.groups()), part.name))
        cells = cells_of(line)
        places.append((part, None if cells is None else len(part.rows)))
        part.rows += [] if cells is None else [cells]
    for number, at, old, new in _paired(actual, expected):
        part, row = places[min(at, len(places) - 1)]
        where = f"{name}, line {number + 1}" + (f", {part.name!r}" if part.name else "")
        cells, new_cells = cells_of(old or ""), cells_of(new or "")
        sizes = {len(row_cells or ()) for row_cells in (cells, new_cells, *part.rows[:1])}
        # Where all cells are equal, what differs is the markup around them: the line says it.
        if row and cells and new_cells and cells != new_cells and len(sizes) == 1:
            key = _row(part.rows[0], part.rows[1:], row - 1)
            for column, a, b in zip(part.rows[0], cells, new_cells, strict=True):
                if a != b:
                    yield _difference(f"{where}, row {key}, column {column}", a, b)
        else:
            yield _difference(where, old, new)


def _paired(
    then: Sequence[str], again: Sequence[str]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    """Lines that differ with their places in both; None where there is no such line."""
    changes: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(then), 0, len(again))]
    if len(then) != len(again):
        changes = SequenceMatcher(None, then, again).get_opcodes()
    for kind, i, i_end, j, j_end in changes:
        if kind != "equal":
            pairs = zip_longest(then[i:i_end], again[j:j_end])
            yield from ((i + n, j + n, a, b) for n, (a, b) in enumerate(pairs) if a != b)


def different_rows(name: str, then: pl.DataFrame, again: pl.DataFrame) -> Iterator[str]:
    """Values of a frame that differ by more than what another machine may compute."""
    if then.equals(again):
        return
    if then.schema != again.schema:
        yield _difference(f"{name}: the columns", dict(then.schema), dict(again.schema))
        return
    if len(then) != len(again):
        yield _difference(f"{name}: the number of rows", len(then), len(again))
    expected = again.rows()
    for i, (a, b) in enumerate(zip(then.rows(), expected, strict=False)):
        for column, old, new in zip(again.columns, a, b, strict=True):
            if not _same(old, new):
                key = _row(again.columns, expected, i)
                yield _difference(f"{name}, row {key}, column {column}", old, new)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return first == second or isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return bool(first == second)


def _row(header: Sequence[str], rows: Sequence[Sequence[Any]], at: int) -> str:
    """The first columns that tell a row from all others, those left out that tell nothing."""
    key = list[int]()
    alike = rows
    for i in range(len(header)):
        fewer = [row for row in alike if row[i] == rows[at][i]]
        if len(fewer) < len(alike) or len(rows) == 1:
            key.append(i)
        alike = fewer
        if len(alike) == 1 and key:
            break
    words = (f"{header[i]} {rows[at][i]}".strip() for i in key if rows[at][i] not in ("", None))
    return ", ".join(words) or str(at + 1)


def _difference(where: str, old: object, new: object) -> str:
    has, should = ("no such line" if item is None else repr(item) for item in (old, new))
    return f"{where}: has {has}, computed again {should}"


def first_of(name: str, differences: Iterable[str]) -> Iterator[str]:
    """The first few of a file's differences, and how many more there are."""
    every = list(differences)
    yield from every[:SHOWN]
    if len(every) > SHOWN:
        yield f"{name}: {len(every) - SHOWN} more differences"
