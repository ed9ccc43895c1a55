"""Our SynLogic verdicts beside upstream's, on every input of the tests.

  python -m tests.synlogic_upstream inputs > inputs.jsonl      # task, game and response a line
  python -m tests.synlogic_upstream table verdicts.jsonl       # a verdict, as JSON, for each line

Upstream's verifiers evaluate what they are given, so whoever has them runs them on those lines in a
process without a network and of no account; the project never does. `table` writes TABLE: task,
digest of the input, upstream's verdict, ours. tests/graders/test_synlogic.py holds ours to it, and
demands a listed reason (tests/cases/synlogic-differences.json) for each kind of difference.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench.graders.synlogic import TASKS, grade
from tests.graders.synlogic_games import GAMES, GARBAGE, ROWS, Game, problem

CASES = Path(__file__).parent / "cases"
TABLE = Path(__file__).parent / "golden" / "synlogic-upstream.csv"
COLUMNS = ("task", "input", "upstream", "ours")
Input = tuple[str, Game, str]
"""Task, game and response."""


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a case table."""
    table: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return table


def inputs() -> Iterator[Input]:
    """The case tables, and right, nearly right and garbage responses to our own games."""
    for case in [*rows("synlogic"), *rows("synlogic-differences")]:
        if case["task"] in TASKS:
            yield case["task"], case.get("game") or GAMES[case["task"]][0], case["response"]
    for row in ROWS:
        for text in [*row["right"], *row["wrong"], *GARBAGE]:
            yield row["task"], row["game"], text


def digest(each: Input) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of an input."""
    text = json.dumps(each, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ours(each: Input) -> str:
    """Our verdict."""
    task, game, response = each
    return grade(problem(task, game), response).outcome


def table() -> dict[str, dict[str, str]]:
    """Rows of TABLE by the digest of their input."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["input"]: row for row in csv.DictReader(file)}


def main(argv: list[str]) -> int:
    """Write the inputs to stdout, or the table from upstream's verdicts."""
    unique = {digest(each): each for each in inputs()}
    if argv == ["inputs"]:
        for task, game, response in unique.values():
            print(json.dumps({"task": task, "game": game, "response": response}))
        return 0
    if len(argv) != 2 or argv[0] != "table":
        print(__doc__, file=sys.stderr)
        return 2
    verdicts = [json.loads(line) for line in Path(argv[1]).read_text().splitlines()]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (name, each), theirs in zip(unique.items(), verdicts, strict=True):
            writer.writerow((each[0], name, theirs, ours(each)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
