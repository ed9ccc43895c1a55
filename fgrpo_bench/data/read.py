"""Rows of a JSON, JSON Lines, CSV or Parquet file as text columns.

No error tells anything of a row's content: some datasets may not be shown in plain text.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench import registry


def read_rows(path: Path, keys: list[str], *, layout: str = "plain") -> pl.DataFrame:
    """The named columns as text, in the order of the file, with the row number in `row`.

    keys: first those of the prompt and of the gold, which the layout fills
    (fgrpo_bench.data.layouts). Numbers become their shortest text and null stays null. Raises
    ValueError that names the file where it is empty, of an unknown kind, damaged, without a column,
    of another layout, or holds nested values.
    """
    readers = {".json": _json, ".jsonl": _json, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise ValueError(
            f"{path} ends in {path.suffix!r}: a dataset is a {', '.join(readers)} file; convert it"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give the path of a dataset")
    rows = list(readers[path.suffix](path))
    if not rows:
        raise ValueError(f"{path} holds no rows: a dataset needs at least one; fetch it again")
    columns = sorted({key for row in rows for key in row})
    for key in keys:
        if key not in columns:
            raise ValueError(
                f"{path} has no column {key!r}; it has {', '.join(columns)}: name one of these "
                "as prompt_key, answer_key, token_field or cluster"
            )
    rows = [_arranged(row, keys, layout, f"{path}, row {i}") for i, row in enumerate(rows)]
    texts = {
        key: [_text(row.get(key), f"{path}, row {i}, column {key!r}") for i, row in enumerate(rows)]
        for key in dict.fromkeys(keys)
    }
    schema = {"row": pl.Int64} | dict.fromkeys(texts, pl.String)
    return pl.DataFrame({"row": range(len(rows))} | texts, schema=schema)


def _arranged(row: dict[str, Any], keys: list[str], layout: str, where: str) -> dict[str, Any]:
    prompt, answer = keys[:2]
    try:
        values = registry.entry("layouts", layout)(row, prompt, answer)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        lacks = f": it lacks the column {error}" if isinstance(error, KeyError) else ""
        raise ValueError(
            f"{where} is not of layout={layout}{lacks}; fetch the file again, or name the layout "
            "that it has"
        ) from None
    return row | {prompt: values[0], answer: values[1]}


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            for number, row in enumerate(csv.DictReader(file, strict=True)):
                if None in row or None in row.values():
                    raise csv.Error(f"row {number} has another number of fields than the heading")
                yield row
        except csv.Error as error:
            raise ValueError(f"{path} is no readable CSV file ({error}): fetch it again") from None


def _json(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON array, or of one JSON object a line."""
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        yield from (_row(row, path, i) for i, row in enumerate(_parsed(text, str(path))))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _row(_parsed(line, f"{path}, line {number},"), path, number - 1)


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
    try:
        frame = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} is no readable Parquet file ({str(error).splitlines()[0]}): fetch it again"
        ) from error
    yield from frame.iter_rows(named=True)


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    raise ValueError(
        f"{where} holds {type(value).__name__}: prompts, answers and clusters are text or numbers; "
        "write them out as text first"
    )
