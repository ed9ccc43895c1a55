"""The page that documents the frames column by column says what the row classes say."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from fgrpo_bench.analysis import rows

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"
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


def test_the_page_documents_every_column_of_every_frame(golden):
    intro, _, _ = PAGE.read_text().partition(BEGIN)
    parts = [intro + BEGIN]
    for name, row in rows.FRAMES.items():
        table = "\n".join(
            f"| `{column}` | {kind} | {meaning} |" for column, kind, meaning in columns(row)
        )
        head = "| column | type | meaning |\n|:--|:--|:--|"
        parts.append(f"## {name}\n\n{inspect.getdoc(row)}\n\n{head}\n{table}")
    golden(f"../../docs/{PAGE.name}", "\n\n".join(parts) + "\n")
