"""What math-verify passes over, and the math grader with it, counted on published outputs.

  python -m tests.passed_over <folder>      (part of `make published-grades DATA=<folder>`)

Prints the rows of "What stays as math-verify has it" in docs/reference/grading.md: of the outputs
without a box, and of those that are graded correct by kind, how many there are in each file.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.math import (
    DECIMALS_LENIENCY,
    LENIENCIES,
    last_box,
    leniencies,
    spoken,
)
from tests.published_grades import OUTPUTS, WORKERS, graded, lines

WITHOUT_BOX = "no box"


def counted(rows: Sequence[dict[str, Any]], grades: Sequence[Grade]) -> Counter[str]:
    """Outputs graded correct by what decided nothing; one may count under several.

    rows: with `answer` and `response`, and their grades in the same order.
    """
    counts = Counter[str]()
    for row, grade in zip(rows, grades, strict=True):
        if grade.outcome == "correct" and grade.extracted is not None:
            counts.update(leniencies(row["answer"], grade.extracted, grade.reason))
            counts[WITHOUT_BOX] += last_box(spoken(row["response"])) is None
    return counts


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.passed_over", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder of the benchmark files")
    folder = parser.parse_args(argv).folder
    with Judge(workers=WORKERS) as judge:
        files = [lines(folder, name) for name in OUTPUTS]
        grades = [graded(judge, rows) for rows in files]
    columns = [counted(rows, given) for rows, given in zip(files, grades, strict=True)]
    sizes = [sum(each.outcome == "correct" for each in given) for given in grades]
    print(f"| graded correct though they differ in | {' | '.join(OUTPUTS)} |")
    for kind in (WITHOUT_BOX, *LENIENCIES, DECIMALS_LENIENCY):
        shares = [
            f"{counts[kind]} of {size} ({counts[kind] / size:.1%})"
            for counts, size in zip(columns, sizes, strict=True)
        ]
        print(f"| {kind} | {' | '.join(shares)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
