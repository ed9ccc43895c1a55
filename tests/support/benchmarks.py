"""Real benchmark golds and outputs where they are at hand, else those of the case table.

They are looked for in the folder FGRPO_BENCHMARKS, or shared/benchmarks beside the checkout.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
CASES = REPOSITORY / "tests/cases/math.json"
MATH = ("math500", "aime24", "aime25", "amc23", "minerva_math", "olympiadbench")
OUTPUTS = "outputs_qwen25math_cot100x8"


def folder() -> Path | None:
    """The folder of the benchmark files; None where there is none."""
    beside = REPOSITORY.parent / "shared" / "benchmarks"
    named = os.environ.get("FGRPO_BENCHMARKS")
    found = Path(named) if named else beside
    return found if (found / f"{OUTPUTS}.jsonl").exists() else None


def cases() -> list[dict[str, Any]]:
    """Rows of the case table: gold, response, outcome, why, deviation."""
    rows: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
    return rows


def golds() -> list[str]:
    """Gold answers as published, repeats included."""
    if (found := folder()) is None:
        return [row["gold"] for row in cases() if row["gold"]]
    return [row["answer"] for name in MATH for row in lines(found / f"{name}.jsonl")]


def graded_outputs() -> list[tuple[str, str, bool, str]]:
    """(gold, response, whether it was graded correct elsewhere, prediction extracted there)."""
    if (found := folder()) is None:
        return [
            (row["gold"], row["response"], row["outcome"] == "correct", "")
            for row in cases()
            if row["gold"]
        ]
    rows = lines(found / f"{OUTPUTS}.jsonl")
    return [(r["answer"], r["response"], r["published_score"], r["published_pred"]) for r in rows]


def lines(path: Path) -> list[dict[str, Any]]:
    """A JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
