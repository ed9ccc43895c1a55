"""Rows of a JSON, JSON Lines or Parquet file as text columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl


def read_rows(path: Path, keys: list[str]) -> pl.DataFrame:
    """The named columns as text, in the order of the file, with the row number in `row`.

    Numbers become their shortest text and null stays null. Raises ValueError that names the file
    where it is empty, of an unknown kind, damaged, without a column, or holds nested values.
    """
    readers = {".json": _json, ".jsonl": _json, ".parquet": _parquet}
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
                "as prompt_key, answer_key or token_field"
            )
    texts = {
        key: [_text(row.get(key), f"{path}, row {i}, column {key!r}") for i, row in enumerate(rows)]
        for key in dict.fromkeys(keys)
    }
    schema = {"row": pl.Int64} | dict.fromkeys(texts, pl.String)
    return pl.DataFrame({"row": range(len(rows))} | texts, schema=schema)


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
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path} is no readable Parquet file ({str(error).splitlines()[0]}): fetch it again"
        ) from error
    yield from frame.iter_rows(named=True)


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(
        f"{where} holds {type(value).__name__}: prompts and answers are text or numbers; write "
        "them out as text first"
    )
