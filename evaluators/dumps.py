"""Rows of what other programs drew: one reader for the dumps of trainers and harnesses.

In: a file as such a program writes it (JSON Lines, JSON, Parquet, CSV, inspect's .eval), and the
columns of one that nobody knows. Out: its format, told by its content, and a `DumpedDraw` for each
response, in the order of the file. Next: interchange matches them to problems and stores them.

The formats are a table (evaluators.formats). Lines and Parquet are read piece by piece; nothing of
a file is ever run. Whatever is wrong is a ValueError that names file and line; what is left out is
counted and said (`Dump.notices`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import polars as pl

from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data.layouts import value_in
from fgrpo_bench.data.rows import iter_file_rows
from fgrpo_bench.files.unpacked import check_parquet, check_zip

from .formats import BROKEN, COLUMNS, ENDS, FORMATS, Format, Row, is_number

PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
"""The first bytes of such files."""
BATCH = 4_096
"""Rows of a Parquet file that are held at once."""
MOST = 10_000_000
"""Of draws of a problem, and of whatever else is counted."""
NumberedRow = tuple[int, Row]
"""A row and its number in the file, from 1: the line where it is JSON Lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpedDraw:
    """One response of a dump, with what the file says of it. None: it does not say."""

    line: int
    """Of its row in the file, from 1."""
    problem: str | None
    """The problem, or the prompt around it as the model read it."""
    problem_id: str | None
    """As the program calls the problem, which need not be our name of it."""
    response: str | None
    """None: there is none, as of a draw that failed."""
    gold: str | None
    score: float | None
    """The program's own verdict; unless a threshold is declared, 1 or more is correct."""
    draw: int | None
    """Number within its problem, from 0; None: by its place in the file."""
    seed: int | None
    step: int | None
    """Of the training that the model has behind it."""
    finish_reason: str | None
    """stop, length (cut off), or another word."""
    n_tokens: int | None
    """Sampled tokens."""
    advantage: float | None
    group: str | None
    """What the draws of one prompt share, beside its text."""
    fault: str | None
    """The error that a draw ended in."""
    row: Row = field(compare=False, repr=False)
    """As it stands in the file; of Parquet the columns that are read."""


@dataclass(frozen=True, kw_only=True)
class NamedColumns:
    """Columns of a file that a person names; None: those of its format."""

    prompt: str | None = None
    response: str | None = None
    answer: str | None = None
    score: str | None = None

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """By field of DumpedDraw, the option and the column that it names."""
        options = {
            "problem": ("--prompt", self.prompt),
            "response": ("--response", self.response),
            "gold": ("--answer", self.answer),
            "score": ("--score", self.score),
        }
        return {
            name: (option, column)
            for name, (option, column) in options.items()
            if column is not None
        }


@dataclass(kw_only=True)
class Dump:
    """A file of a known format."""

    path: Path
    format: Format
    columns: dict[str, str]
    """By field of DumpedDraw, the column that is read."""
    further: tuple[str, ...]
    """Other columns with numbers, e.g. those that TRL calls by its reward functions."""
    draws: Iterator[DumpedDraw]
    """To be read once."""
    notices: list[str]
    """For a person, what is left out; complete once the draws are read."""

    @property
    def described(self) -> str:
        """e.g. "verl's dump (problem: input, response: output)"."""
        listed = ", ".join(f"{name}: {column}" for name, column in self.columns.items())
        return f"{self.format.name} ({listed})"

    @property
    def rewards(self) -> list[str]:
        """Of TRL's reward functions, which have any name, a line for a person on which is read."""
        names = ", ".join(self.further)
        is_named = self.columns.get("score", "score") != "score"
        if self.format.program != "trl" or is_named or not names:
            return []
        if "score" in self.columns:
            return [f"verdicts: those of the only reward function, {names}"]
        return [f"left out: rewards of {names}: name the one that says right or wrong with --score"]


def open_dump(path: Path, named: NamedColumns | None = None, *, kept: Collection[str] = ()) -> Dump:
    """A file and its format; FileNotFoundError or ValueError where it is none that is known, or
    lacks a named column. Its draws raise likewise for a later row. kept: further columns that the
    draws' rows are to have."""
    named = named or NamedColumns()
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give what a trainer or a harness has drawn")
    notices: list[str] = []
    rows = _rows(path, notices)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} holds no lines: give a file with a response a row")
    form = _detect_format(first, path, named)
    row = _arranged(form, first, path)
    for option, column in named.columns.values():
        if not _has(row, column):
            raise ValueError(
                f"{option} {column}{suggestion(column, row)}: {path} has the columns "
                f"{', '.join(row)}"
            )
    columns = _columns(form, named, row)
    # Prompts and token ids of a Parquet dump may be gigabytes: only used columns are read.
    if _begins(path, PARQUET) and form.arranged is dict:
        used = (*columns.values(), *form.marks.replace("|", " ").split(), *kept)
        rows = _parquet(path, {column.partition(".")[0] for column in used})
    else:
        rows = chain([first], rows)
    known = {*columns.values(), *form.marks.replace("|", " ").split()}
    further = tuple(name for name in _numeric_columns(path, row) if name not in known)
    dump = Dump(
        path=path, format=form, columns=columns, further=further, draws=iter(()), notices=notices
    )
    dump.draws = _draws(dump, named, rows)
    return dump


def _columns(form: Format, named: NamedColumns, row: Row) -> dict[str, str]:
    """The columns of an arranged row by field of DumpedDraw."""
    columns: dict[str, str] = {}
    for name, choices in form.columns.items():
        there = (choice for choice in choices.split() if _has(row, choice))
        if column := next(there, None):
            columns[name] = column
    return columns | {name: column for name, (_, column) in named.columns.items()}


def _numeric_columns(path: Path, first: Row) -> list[str]:
    """By the types of Parquet's columns, elsewhere by the first row."""
    if not _begins(path, PARQUET):
        return [name for name, value in first.items() if isinstance(value, int | float)]
    kinds = pl.read_parquet_schema(path)
    return [name for name, kind in kinds.items() if kind.is_numeric() or kind == pl.Boolean]


def _detect_format(first: NumberedRow, path: Path, named: NamedColumns) -> Format:
    """The format with most marks of those that a file's first row has all marks of."""
    number, row = first
    fitting = [form for form in FORMATS if _lacking(row, form) is None]
    if fitting:
        return max(fitting, key=lambda form: len(form.marks.split()))
    if named.response is not None:
        return COLUMNS
    raise ValueError(
        f"{path}, line {number}: no responses: its columns ({', '.join(row)}) are of no format "
        f"that is read; name the column of the responses with --response. Formats: "
        f"{', '.join(dict.fromkeys(form.name for form in FORMATS))}"
    )


def _lacking(row: Row, form: Format) -> str | None:
    """A mark of a format that a row has not."""
    for mark in form.marks.split():
        if not any(_has(row, column) for column in mark.split("|")):
            return mark
    return None


def _has(row: Row, column: str) -> bool:
    """Whether a row has a column, or a dotted place within one."""
    value: Any = row
    for key in [column] if column in row else column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _arranged(form: Format, numbered: NumberedRow, path: Path) -> Row:
    number, row = numbered
    try:
        return form.arranged(row)
    except BROKEN as error:
        raise ValueError(
            f"{path}, line {number} is no row of {form.name} ({type(error).__name__}: {error}): "
            "mend it, or leave it out"
        ) from None


# Rows of a file, whatever it is.


def _rows(path: Path, notices: list[str]) -> Iterator[NumberedRow]:
    if _begins(path, PARQUET):
        return _parquet(path, None)
    if _begins(path, ZIP) or path.suffix == ".eval":
        return _archived(path)
    if path.suffix in (".csv", ".tsv"):
        return enumerate(map(_counted, iter_file_rows(path)), 1)
    return _json(path, notices)


COUNTED = ("draw", "seed", "step", "n_tokens", "advantage")


def _counted(row: Row) -> Row:
    """A row of text with numbers in the columns that are COUNTED."""
    numbers = {}
    for name in COUNTED:
        if isinstance(text := row.get(name), str) and text.strip():
            value = _value(text.encode())
            numbers[name] = text if value is None else value
    return dict(row) | numbers


def _begins(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def _parquet(path: Path, columns: Collection[str] | None) -> Iterator[NumberedRow]:
    """columns: that are read where they are there; None: all."""
    check_parquet(path)
    number = 0
    try:
        scanned = pl.scan_parquet(path, glob=False)
        if columns is not None:
            there = scanned.collect_schema().names()
            scanned = scanned.select(name for name in there if name in columns)
        for batch in scanned.collect_batches(chunk_size=BATCH, maintain_order=True, lazy=True):
            for row in batch.iter_rows(named=True):
                number += 1
                yield number, row
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} is no readable Parquet file ({str(error).splitlines()[0]}): copy it again"
        ) from error


def _archived(path: Path) -> Iterator[NumberedRow]:
    """The samples of inspect's .eval, which is an archive of JSON files."""
    try:
        archive = ZipFile(path)
    except (OSError, BadZipFile, *BROKEN) as error:
        raise _no_log(path, error) from error
    with archive:
        check_zip(path, archive, "samples/")
        try:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            for number, name in enumerate(names, 1):
                yield number, dict(json.loads(archive.read(name)))
        except (OSError, BadZipFile, *BROKEN) as error:
            raise _no_log(path, error) from error


def _no_log(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} is no log of inspect with samples ({type(error).__name__}: {error}): give the "
        ".eval or .json file of a run whose samples were logged"
    )


def _json(path: Path, notices: list[str]) -> Iterator[NumberedRow]:
    """Of JSON Lines, or of one JSON value with rows in it (`Format.inside`)."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
        is_only = not any(line.strip() for line in file)
        file.seek(0)
        value = _value(first)
        if first and (is_only or value is None):
            text = file.read()
            whole = value if is_only else _value(text)
            if (inside := _inside(whole)) is not None:
                yield from enumerate(inside, 1)
                return
            file.seek(0)
        yield from _lines(path, file, notices)


def _lines(path: Path, lines: Iterable[bytes], notices: list[str]) -> Iterator[NumberedRow]:
    """Of JSON Lines; the last line is left out where the file ends within it."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number > 1 and not line.endswith(b"\n"):  # only the last line of a file does not
                notices.append(f"left out: line {number} of {path}, within which the file ends")
                return
            raise ValueError(
                f"{path}, line {number} is no JSON ({error}): mend the line, or leave it out; one "
                "JSON value in several lines is read where its rows are a list of objects, or one "
                f"at {', '.join(form.inside for form in FORMATS if form.inside)}"
            ) from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is no JSON object: give one a line")
        yield number, row


def _value(text: bytes) -> Any:
    """Of JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _inside(value: Any) -> list[Row] | None:
    """The rows within a JSON value: a list of objects, at a place of `Format.inside`, or there
    within one of its `results`; None without any."""
    if isinstance(value, list):
        return value if value and all(isinstance(row, dict) for row in value) else None
    if not isinstance(value, dict):
        return None
    results = value.get("results")
    for place in (value, *(results.values() if isinstance(results, dict) else ())):
        for form in FORMATS:
            if form.inside and isinstance(place, dict) and form.inside in place:
                return _inside(place[form.inside])
    return None


# Draws of rows.


def _draws(dump: Dump, named: NamedColumns, rows: Iterable[NumberedRow]) -> Iterator[DumpedDraw]:
    form, columns = dump.format, dump.columns
    raw_keys, keys = tuple[str, ...](), tuple[str, ...]()  # of the row before
    chosen: str | None = None
    others, n_shared, n_again = Counter[str](), 0, 0
    lists: set[int] = set()  # digests of problems with their lists of responses
    for numbered in rows:
        number, raw = numbered
        where = f"{dump.path}, line {number}"
        if tuple(raw) != raw_keys and (mark := _lacking(raw, form)) is not None:
            raise ValueError(
                f"{where} has no {mark}, which every row of {form.name} has: a file has rows of "
                "one format; put the others into a file of their own"
            )
        raw_keys = tuple(raw)
        if form.once is not None and _has(raw, form.once):
            variant = _variant(raw, form.once, where)
            chosen = chosen or variant
            if variant != chosen:
                others[variant] += 1
                continue
        row = _arranged(form, numbered, dump.path)
        if tuple(row) != keys:
            keys, columns = tuple(row), _columns(form, named, row)
        values = {name: value_in(row, column) for name, column in columns.items()}
        draws = _draws_in_row(values, number, raw, where)
        if len(draws) > 1:
            texts = tuple(draw.response for draw in draws)
            digest = hash((draws[0].problem_id, draws[0].problem, texts))
            if digest in lists:
                n_again += 1
                continue
            lists.add(digest)
        n_shared += len(draws) > 1 and is_number(values.get("score"))
        yield from draws
    for variant, count in others.items():
        dump.notices.append(
            f"passed over: {count} lines with the same draws for another {form.once}, {variant}"
        )
    if n_again:
        dump.notices.append(f"passed over: {n_again} lines with the same draws as one before")
    if n_shared:
        dump.notices.append(f"left out: {n_shared} verdicts that are each one for several draws")


def _variant(row: Row, column: str, where: str) -> str:
    variant = value_in(row, column)
    if not isinstance(variant, str):
        raise ValueError(f"{where}: {column} is {short(variant)}: give a name")
    return variant


DRAW_FIELDS = ("score", "seed", "step", "finish_reason", "n_tokens", "advantage", "fault")
"""Fields that a row of several responses may have as lists."""


def _draws_in_row(values: dict[str, Any], number: int, raw: Row, where: str) -> list[DumpedDraw]:
    """values: by field of DumpedDraw, as they stand in the row."""
    given = values.get("response")
    # A chat is a list as well, of turns, and is one response.
    texts = given if isinstance(given, list) and not _is_chat(given) else [given]
    if "response" not in values or not texts:
        raise ValueError(
            f"{where}: no responses: give a text, or a list of texts, or name the column that has "
            "them with --response"
        )
    problem = _text(values.get("problem"), "user")
    problem_id, gold = _word(values.get("problem_id")), _gold(values.get("gold"))
    draw, group = values.get("draw"), _word(values.get("group"))
    if draw is not None:
        draw = _count(draw, "draw", where)
    out = []
    for i, text in enumerate(texts):
        parts = {name: _part(values.get(name), i, len(texts)) for name in DRAW_FIELDS}
        response = _text(text, "assistant")
        if response is None and text is not None:
            raise ValueError(f"{where}: response {i} is {short(text)}: give a text")
        out.append(
            DumpedDraw(
                line=number,
                problem=problem,
                problem_id=problem_id,
                response=response,
                gold=gold,
                score=_score(parts["score"], where),
                draw=draw,
                seed=_count(parts["seed"], "seed", where),
                step=_count(parts["step"], "step", where),
                finish_reason=_end(parts["finish_reason"], where),
                n_tokens=_count(parts["n_tokens"], "n_tokens", where),
                advantage=parts["advantage"] if is_number(parts["advantage"]) else None,
                group=group,
                fault=None if parts["fault"] in (None, "", False) else short(parts["fault"]),
                row=raw,
            )
        )
    return out


def _part(value: Any, i: int, n: int) -> Any:
    """What a value says of draw i of n."""
    if isinstance(value, list):
        return value[i] if len(value) == n else None
    return value if n == 1 else None


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(turn, Mapping) and "role" in turn for turn in value)
    )


def _text(value: Any, role: str) -> str | None:
    """A text; of a chat all that was read (user), or the last message of the model (assistant).
    None for anything else."""
    if isinstance(value, str):
        return _clean(value)
    if not _is_chat(value):
        return None
    texts = [_content(turn.get("content")) for turn in value if _is_said(turn, role)]
    return _clean("\n\n".join(texts) if role == "user" else (texts or [""])[-1])


def _clean(text: str) -> str:
    """Without half of a surrogate pair, which no table holds."""
    return text.encode("utf-8", "replace").decode()


def _is_said(turn: Row, role: str) -> bool:
    return bool(turn["role"] == "assistant") == (role == "assistant")


def _content(value: Any) -> str:
    """Of a message; of its parts the text alone."""
    if isinstance(value, list):
        texts = (part.get("text") for part in value if isinstance(part, Mapping))
        return "".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


def _word(value: Any) -> str | None:
    is_word = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value) if is_word and value != "" else None


def _gold(value: Any) -> str | None:
    """A text or number, or the only one of a list; of several the list as JSON."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value in (None, "", [], {}):
        return None
    return _clean(value) if isinstance(value, str) else json.dumps(value, default=str)


def _score(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None  # TRL writes nan where a reward function did not score a completion
    number = _value(value.strip().lower().encode()) if isinstance(value, str) else value
    if not is_number(number):
        raise ValueError(f"{where}: its verdict is {short(value)}: give a number, true or false")
    return float(number)


def _count(value: Any, name: str, where: str) -> int | None:
    if value is None or (type(value) is int and 0 <= value < MOST):
        return value
    raise ValueError(
        f"{where}: {name} is {short(value)}: give a number from 0 to {MOST:,}, or leave it out"
    )


def _end(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{where}: finish_reason is {short(value)}: give a text, or leave it out")
    return ENDS.get(value, value)


def short(value: object) -> str:
    """A value in a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value)[:80]
