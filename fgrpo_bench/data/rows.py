"""Rows of a JSON, JSON Lines, CSV, TSV or Parquet file as text columns.

In: a path and the columns that are wanted. Out: a frame of text, or the first rows as they are, by
which `columns` says what a stranger's columns mean. A JSON file may wrap its rows as the one list
of an object; a CSV file may have semicolons; text that is no UTF-8 is read as Windows-1252, which
`detect_encoding` says.

No error tells anything of a row's content: some datasets may not be shown in plain text.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from fgrpo_bench.core import registry
from fgrpo_bench.data import layouts
from fgrpo_bench.files.unpacked import check_parquet, check_unpacked

SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
READ_AT_ONCE = 2_000
"""Rows that are held with all their columns."""
LONGEST = 100
"""Most characters of a value of a short column."""
UTF8, WINDOWS = "utf-8-sig", "cp1252"
"""What a text file is written in; the second where it is not the first."""


def first_rows(path: Path) -> list[dict[str, Any]]:
    """The first READ_AT_ONCE rows with all columns; raises as `read_rows`."""
    return list(islice(iter_file_rows(path), READ_AT_ONCE))


class ShortColumns:
    """The columns beside prompt, gold and options that hold a short text, number or truth value in
    each row, gathered row by row. One that holds anything longer or nested is none of them."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str | None]] = {}
        self._dropped: set[str] = set()
        self._n_rows = 0

    def add(self, row: Mapping[str, Any], *, without: Collection[str]) -> None:
        """The next row. without: columns that are left out."""
        for name, value in row.items():
            if name in self._dropped or name in without:
                continue
            try:
                text = _short(value)
            except ValueError:
                self._dropped.add(name)
                self._texts.pop(name, None)
                continue
            texts = self._texts.setdefault(name, [])
            texts += [None] * (self._n_rows - len(texts))  # rows before that lacked it
            texts.append(text)
        self._n_rows += 1

    def take_rows(self, numbers: pl.Series, problem_ids: pl.Series) -> pl.DataFrame:
        """problem_id, and the columns that have a value in these rows, as text.

        numbers: of rows of the file; problem_ids: of the problems that they are. A column of the
        file that is called problem_id itself gives way.
        """
        columns = {"problem_id": problem_ids}
        for name, texts in self._texts.items():
            whole = texts + [None] * (self._n_rows - len(texts))
            values = pl.Series(name, whole, pl.String).gather(numbers)
            if name != "problem_id" and values.null_count() < len(values):
                columns[name] = values
        return pl.DataFrame(columns)


def _short(value: Any) -> str | None:
    """A value in one line, None of nothing; ValueError where it is none of a short column."""
    if isinstance(value, bool):
        return str(value).lower()
    text = " ".join((_text(value, "") or "").split())
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters, and a short column has {LONGEST} at most")
    return text or None


def read_rows(
    path: Path,
    keys: list[str],
    *,
    layout: str = "plain",
    options: str | None = None,
    short_columns: ShortColumns | None = None,
) -> pl.DataFrame:
    """The named columns as text, in the order of the file, with the row number in `row`.

    keys: first those of the prompt and of the gold, which the layout fills
    (fgrpo_bench.data.layouts). options: the column whose options are put behind each problem that
    does not list them. short_columns: gathers those of the same rows. Numbers become their shortest
    text and null stays null. Raises ValueError that names the file where it is empty, of an unknown
    kind, damaged, without a column, of another layout, or holds nested values.
    """
    names = tuple(dict.fromkeys(keys))
    schema = {"row": pl.Int64} | dict.fromkeys(names, pl.String)
    parts: list[pl.DataFrame] = []
    with row_counter(path.name) as count_rows:
        for start, rows in _chunks(iter_file_rows(path)):
            if not parts:
                _check_columns(path, rows, [*names, *([options] if options else [])])
            numbered = range(start, start + len(rows))
            texts: dict[str, list[str | None]] = {name: [] for name in names}
            for number, row in zip(numbered, rows, strict=True):
                arranged = _arranged(row, keys, layout, f"{path}, row {number}", options)
                for name in names:
                    where = f"{path}, row {number}, column {name!r}"
                    texts[name].append(_text(arranged.get(name), where))
                if short_columns is not None:
                    used = [*keys[:2], *([options] if options else [])]
                    without = {name for key in used for name in layouts.column_names(key, row)}
                    short_columns.add(layouts.further_columns(row, layout), without=without)
            parts.append(pl.DataFrame({"row": numbered} | texts, schema=schema))
            count_rows(numbered.stop)
    if not parts:
        raise ValueError(f"{path} holds no rows: a dataset needs at least one; fetch it again")
    return pl.concat(parts)


def _check_columns(path: Path, rows: list[dict[str, Any]], keys: Iterable[str]) -> None:
    columns = sorted({key for row in rows for key in row})
    needed = [name for key in keys for name in layouts.column_names(key, columns)]
    for name in needed:
        if name not in columns and name.partition(".")[0] not in columns:
            raise ValueError(
                f"{path} has no column {name!r}; it has {', '.join(columns)}: name one of "
                "these as prompt_key, answer_key, token_field, cluster or options"
            )


def _chunks(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Rows by READ_AT_ONCE with the number of the first, so that columns that are not wanted are
    never held for a whole file."""
    rows = iter(rows)
    start = 0
    while chunk := list(islice(rows, READ_AT_ONCE)):
        yield start, chunk
        start += len(chunk)


@contextmanager
def row_counter(name: str, what: str = "rows read") -> Iterator[Callable[[int], None]]:
    """What shows a person on a terminal how much of something is done. what: is counted."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done: bar.update(task, description=f"{name}: {done:,} {what}")


def iter_file_rows(path: Path) -> Iterator[dict[str, Any]]:
    """All rows with all columns, one after another; raises as `read_rows`."""
    readers = dict(zip(SUFFIXES, (_json, _json, _csv, _csv, _parquet), strict=True))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give the path of a dataset")
    if path.suffix not in readers:
        raise ValueError(
            f"{path} ends in {path.suffix!r}: a dataset is a {', '.join(readers)} file; convert it"
        )
    return readers[path.suffix](path)


def _arranged(
    row: dict[str, Any], keys: list[str], layout: str, where: str, options: str | None
) -> dict[str, Any]:
    prompt, answer = keys[:2]
    try:
        question, gold = registry.entry("layouts", layout)(row, prompt, answer)
        if options is not None and all(
            text is not None and str(text).strip() for text in (question, gold)
        ):
            question, gold = layouts.question_with_options(row, options, str(question), gold)
    except layouts.Unfit as error:
        raise ValueError(f"{where} {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        lacks = f": it lacks the column {error}" if isinstance(error, KeyError) else ""
        raise ValueError(
            f"{where} is not of layout={layout}{lacks}; fetch the file again, or name the layout "
            "that it has"
        ) from None
    return row | {prompt: question, answer: gold}


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    raise ValueError(
        f"{where} holds {type(value).__name__}: prompts, answers and clusters are text or numbers; "
        "write them out as text first"
    )


# Files.


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with _text_file(path, newline="") as file:
        delimiter = "\t" if path.suffix == ".tsv" else _delimiter(file)
        try:
            for number, row in enumerate(csv.DictReader(file, delimiter=delimiter, strict=True)):
                if None in row or None in row.values():
                    raise csv.Error(f"row {number} has another number of fields than the heading")
                yield row
        except csv.Error as error:
            raise ValueError(f"{path} is no readable CSV file ({error}): fetch it again") from None


def _delimiter(file: TextIO) -> str:
    """By the heading: a comma, unless it has none and a semicolon or a tab divides it."""
    heading = file.readline()
    file.seek(0)
    return next((sign for sign in ",;\t" if sign in heading), ",")


def _json(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON array, of the one list of an object, or of one JSON object a line."""
    with _text_file(path) as file:
        lines = (line for line in file if line.strip())
        first, second = next(lines, ""), next(lines, "")
        file.seek(0)
        if first.lstrip().startswith("[") or (first and _is_whole(first, second)):
            rows = _unwrapped(_parsed(file.read(), str(path)))
            yield from (_row(row, path, i) for i, row in enumerate(rows))
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(_parsed(line, f"{path}, line {number},"), path, number - 1)


def _is_whole(first: str, second: str) -> bool:
    """Whether a file that begins so is one JSON object: its only line, or one that goes on in the
    next."""
    if not second:
        return True
    try:
        json.loads(first)
    except ValueError:
        return True
    return False


def _unwrapped(value: Any) -> Iterable[Any]:
    """Rows of a list, or of the only list of an object that is no row itself."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    lists = [
        inner
        for inner in value.values()
        if isinstance(inner, list) and inner and all(isinstance(row, dict) for row in inner)
    ]
    is_row = any(isinstance(inner, str) and name.lower() in ROW for name, inner in value.items())
    is_chat = any("role" in row for inner in lists for row in inner)
    return [value] if is_row or is_chat or len(lists) != 1 else lists[0]


ROW = ("prompt", "question", "problem", "instruction", "query", "input")
"""What an object has that is itself a row, with a list as one of its columns."""


@contextmanager
def _text_file(path: Path, newline: str = "\n") -> Iterator[TextIO]:
    """newline: as of `open`; in JSON Lines a line ends with a newline alone."""
    with path.open(encoding=detect_encoding(path), newline=newline) as file:
        yield file


def detect_encoding(path: Path) -> str:
    """UTF8, or WINDOWS of a text that is none and has no sign of being a damaged one; ValueError
    that says where it is neither."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii, read = True, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            try:
                is_ascii = decoder.decode(block).isascii() and is_ascii
            except UnicodeDecodeError as error:
                damaged = not is_ascii or not error.object[: error.start].isascii()
                if damaged or not _is_windows(path):
                    raise ValueError(
                        f"{path} is no text in UTF-8 (byte {read + error.start}): it is damaged or "
                        "of another kind than its name says; convert it"
                    ) from error
                return WINDOWS
            read += len(block)
    return UTF8


def _is_windows(path: Path) -> bool:
    """Whether a file is text in Windows-1252: without control signs, and single signs beyond
    ASCII, where UTF-8 has several in a row."""
    content = path.read_bytes()
    try:
        text = content.decode(WINDOWS)
    except UnicodeDecodeError:
        return False
    return not any(sign < " " and sign not in "\t\n\r\f" for sign in set(text))


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{where} is no JSON ({error}): the file is damaged or of another kind; fetch it again"
        ) from error


def _row(value: Any, path: Path, number: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}, row {number} is {type(value).__name__}: a row is an object with named "
            "columns; convert the file"
        )
    return value


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    check_parquet(path)
    try:
        frame = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} is no readable Parquet file ({str(error).splitlines()[0]}): fetch it again"
        ) from error
    # equal texts are one in the file, not in rows
    check_unpacked(path, int(frame.estimated_size()))
    yield from frame.iter_rows(named=True)
