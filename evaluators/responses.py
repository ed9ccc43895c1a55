"""Reading the responses that another program wrote: lines in, rows of tables.DRAWS out.

Two kinds of JSON Lines are read. lm-eval's `samples_<task>_*.jsonl` (written by --log_samples):

    {"doc_id": 0, "doc": {"problem_id": "math500-000000", ...}, "resps": [["...", "..."]], ...}

and completions, a line a problem or a draw:

    {"problem_id": "math500-000000", "responses": ["...", "..."]}
    {"problem": "Convert the point $(0,3)$ ...", "response": "...", "n_tokens": 512}

A problem is known by its id or by its text. Nothing of a file is ever run, and whatever is wrong
with one is a ValueError that names file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.records import Problem

MOST_DRAWS = 10_000_000
"""Of a problem, and of what else is counted in a line."""
Row = tuple[int, dict[str, Any]]
"""A line's number in its file, from 1, and its object."""


def read_rows(path: Path) -> list[Row]:
    """One JSON object a line; empty lines are passed over."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give a JSON Lines file of responses")
    rows: list[Row] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}, line {number} is no JSON ({error}): mend the file"
                ) from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number} is no JSON object: give one a line")
            rows.append((number, row))
    if not rows:
        raise ValueError(f"{path} holds no lines: give a JSON Lines file of responses")
    return rows


def responses(
    path: Path, rows: Sequence[Row], problems: Sequence[Problem]
) -> Iterator[tuple[Any, ...]]:
    """Rows of tables.DRAWS, in the order of the file."""
    ids = {problem.problem_id for problem in problems}
    texts = {_folded(problem.prompt): problem.problem_id for problem in problems}
    complete: set[str] = set()  # problems that came with all their responses
    numbers: dict[str, int] = {}
    seen: dict[tuple[str, int], str] = {}
    chosen: str | None = None
    for line, row in rows:
        where = f"{path}, line {line}"
        if "resps" in row and "filter" in row:  # each draw is logged once a filter
            if not isinstance(row["filter"], str):
                raise ValueError(
                    f"{where}: filter is {_short(row['filter'])}: give the name of lm-eval's filter"
                )
            chosen = chosen or row["filter"]
            if row["filter"] != chosen:
                continue
        _check_fixed(row, where)
        problem_id = _problem(row, ids, texts, where)
        own_texts = _texts(row, where)
        if problem_id in complete:
            raise ValueError(
                f"{where}: problem {problem_id} came with its responses before: its draws would be "
                "counted twice; leave one of the lines out"
            )
        if "response" not in row:
            complete.add(problem_id)
        given = _given(row, where)
        for text in own_texts:
            number = row.get("draw", numbers.get(problem_id, 0))
            if not _is_count(number) or (problem_id, number) in seen:
                raise ValueError(
                    f"{where}: draw {_short(number)} of problem {problem_id} came before or is no "
                    "number from 0: number the draws of a problem 0, 1, 2, ... or leave `draw` out"
                )
            seen[problem_id, number] = where
            numbers[problem_id] = number + 1
            yield (problem_id, number, None, text.encode("utf-8", "replace").decode(), *given, None)
    _check_gaps(seen)


def _check_gaps(seen: dict[tuple[str, int], str]) -> None:
    """ValueError for a problem whose draws are not numbered 0, 1, 2, ... to the last."""
    drawn: dict[str, int] = {}
    for problem_id, _ in seen:
        drawn[problem_id] = drawn.get(problem_id, 0) + 1
    for (problem_id, number), where in seen.items():
        if number >= drawn[problem_id]:
            raise ValueError(
                f"{where}: draw {number} of problem {problem_id}, which has {drawn[problem_id]} "
                "draws: number them 0, 1, 2, ... without gaps, or leave `draw` out"
            )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST_DRAWS


def _given(row: dict[str, Any], where: str) -> tuple[int | None, str | None]:
    """n_tokens and finish_reason of a line; None where they are not given."""
    n_tokens, finish_reason = row.get("n_tokens"), row.get("finish_reason")
    if n_tokens is not None and not _is_count(n_tokens):
        raise ValueError(
            f"{where}: n_tokens is {_short(n_tokens)}: give a number from 0 to {MOST_DRAWS:,}, or "
            "leave it out"
        )
    if finish_reason is not None and not isinstance(finish_reason, str):
        raise ValueError(
            f"{where}: finish_reason is {_short(finish_reason)}: give a text, or leave it out"
        )
    return n_tokens, finish_reason


def _check_fixed(row: dict[str, Any], where: str) -> None:
    """ValueError for draws of a design that stops, which their metadata name."""
    metadata = row.get("metadata")
    design = row.get("design") or (isinstance(metadata, dict) and metadata.get("design"))
    if design:
        raise ValueError(
            f"{where}: design is {_short(design)}, by which draws stop, and an import is scored as "
            "a fixed number of draws, so that its pass@k would be too high; draw under that design "
            "here (`python -m evaluators run checkpoint=... design=...`), or import draws of a "
            "fixed number"
        )


def _problem(row: dict[str, Any], ids: set[str], texts: dict[str, str], where: str) -> str:
    """The problem that a line is about."""
    doc = row["doc"] if isinstance(row.get("doc"), dict) else row
    if "problem_id" in doc:
        if isinstance(doc["problem_id"], str) and doc["problem_id"] in ids:
            return doc["problem_id"]
        raise ValueError(
            f"{where}: unknown problem_id {_short(doc['problem_id'])}; those of this benchmark "
            f"look like {min(ids)!r}: use these, or give the text as `problem`"
        )
    known = [
        texts[folded]
        for value in doc.values()
        if isinstance(value, str) and (folded := _folded(value)) in texts
    ]
    if not known:
        raise ValueError(
            f"{where}: no problem_id, and no text that is a problem of this benchmark: give one of "
            f"the ids, e.g. {min(ids)!r}, or the problem's exact text as `problem`"
        )
    return known[0]


def _texts(row: dict[str, Any], where: str) -> list[str]:
    texts: Any = None
    if "resps" in row:
        if isinstance(row["resps"], list):
            texts = [
                t for each in row["resps"] for t in (each if isinstance(each, list) else [each])
            ]
    elif "responses" in row:
        texts = row["responses"]
    elif "response" in row:
        texts = [row["response"]]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{where}: no responses: give `response` (a text), `responses` (a list of texts), or a "
            "line of lm-eval's sample log with `resps`"
        )
    return texts


def _folded(text: str) -> str:
    return " ".join(text.split())


def _short(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value)[:80]
