"""The tables of README and of the results are those of the shipped example reports."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from sweeps import REPOSITORY

EXAMPLES = REPOSITORY / "fgrpo_bench/report/examples"
RESULTS = REPOSITORY / "docs/results.md"
EQUAL_COMPUTE, EQUAL_PROMPTS = "groupsize-countdown", "groupsize-countdown-prompts"
HEAD = "| method | N | gamma | pass@1 | pass@256 |"
ROW = re.compile(r"^\| (Base|F?-?GRPO) \|.*\|$", re.MULTILINE)


def shown(example: str) -> list[str]:
    """The rows that its results.csv gives, percent with intervals."""
    table = pl.read_csv(EXAMPLES / example / "results.csv", infer_schema_length=None)
    rows = []
    for _, cell in table.group_by("method", "group_size", "focal_gamma", maintain_order=True):
        first, words = cell.row(0, named=True), []
        for k in (1, 256):
            of = cell.row(by_predicate=pl.col("k") == k, named=True)
            mean, low, high = (100 * of[name] for name in ("pass_at_k", "ci_low", "ci_high"))
            words.append(f"{mean:.1f} [{low:.1f}, {high:.1f}]")
        size, gamma = first["group_size"], first["focal_gamma"]
        named = [first["method"], *("-" if x is None else f"{x:g}" for x in (size, gamma))]
        rows.append(f"| {' | '.join([*named, *words])} |")
    return rows


@pytest.mark.parametrize(
    "page, examples",
    [
        (REPOSITORY / "README.md", [EQUAL_COMPUTE]),
        (RESULTS, [EQUAL_COMPUTE, EQUAL_PROMPTS]),
    ],
    ids=["README", "results"],
)
def test_a_table_is_that_of_the_report(page: Path, examples: list[str]):
    _, *tables = page.read_text(encoding="utf-8").split(HEAD)
    assert len(tables) == len(examples)
    for table, example in zip(tables, examples, strict=True):
        said = [row[0] for row in ROW.finditer(table.partition("\n\n")[0])]
        assert len(said) == 8 and sorted(said) == sorted(shown(example))
