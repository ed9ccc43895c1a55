"""Where real benchmark golds and outputs are, and the case tables of the math grader.

They are looked for in the folder FGRPO_BENCHMARKS, or shared/benchmarks beside the checkout.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
CASES = REPOSITORY / "tests/cases"
TABLES = ("math.json", "math-variants.json")
OUTPUTS = "outputs_qwen25math_cot100x8"


def folder() -> Path | None:
    """The folder of the benchmark files; None where there is none."""
    beside = REPOSITORY.parent / "shared" / "benchmarks"
    named = os.environ.get("FGRPO_BENCHMARKS")
    found = Path(named) if named else beside
    return found if (found / f"{OUTPUTS}.jsonl").exists() else None


def cases(*tables: str) -> list[dict[str, Any]]:
    """Rows of these case tables, or of both: gold, response, outcome, why, deviation."""
    rows = []
    for table in tables or TABLES:
        rows += json.loads((CASES / table).read_text(encoding="utf-8"))
    return rows
