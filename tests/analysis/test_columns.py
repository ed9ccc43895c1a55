"""The page that documents the frames column by column says what the row classes say."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from fgrpo_bench.analysis.rows import FRAMES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "columns.md"
BEGIN = (
    "<!-- columns: `pytest tests/analysis/test_columns.py --update-golden` writes what follows -->"
)


def columns(row: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of every attribute of a row class, from its source."""
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(row))).body
    body = [*defined.body, None]
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign):
            is_told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            meaning = " ".join(after.value.value.split()) if is_told else ""
            kind = ast.unparse(node.annotation).replace(" | None", " or null")
            yield node.target.id, kind.replace("tuple[", "list[").replace(", ...", ""), meaning


def items(row: type) -> str:
    """A list item a column; neighbours of one type that have no docstring share one, and an upper
    end without one stands with the lower."""
    told: list[tuple[str, str, str]] = []
    for column, kind, meaning in columns(row):
        names = f"`{column}`"
        is_alike = told and not meaning and kind == told[-1][1]
        if is_alike and (column.endswith("high") or not told[-1][2]):
            before, _, meaning = told.pop()
            names = f"{before}, {names}"
        told.append((names, kind, meaning))
    texts = [f"- {names} ({kind}){meaning and ': '}{meaning}" for names, kind, meaning in told]
    lines = textwrap.TextWrapper(
        width=100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines.fill(text) for text in texts)


def section(frame: str, before: list[str]) -> str:
    """What a page says of a frame; a class that was documented before is named."""
    row = FRAMES[frame]
    alike = next((each for each in before if FRAMES[each] is row), None)
    if alike is not None:
        return f"## {frame}\n\nColumns as in `{alike}`."
    base = next((each for each in before if FRAMES[each] in row.__mro__[1:]), None)
    like = f"\n\nColumns as in `{base}`, then:" if base else ""
    return f"## {frame}\n\n{inspect.getdoc(row)}{like}\n\n{items(row)}"


def test_the_page_documents_every_column_of_every_frame(golden):
    frames = list(FRAMES)
    intro, _, _ = PAGE.read_text().partition(BEGIN)
    parts = [section(frame, frames[:place]) for place, frame in enumerate(frames)]
    golden("../../docs/reference/columns.md", "\n\n".join([intro + BEGIN, *parts]) + "\n")
