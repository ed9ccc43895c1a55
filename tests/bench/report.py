"""A report over 36 points and 9 benchmarks, figures included: time and peak memory, by draws.

A report reads pass@k by problem, which evaluations leave; from grades to pass@k is `table`.
"""

import sys
import time
from pathlib import Path

from tests.bench.nine import by_draws, results_in, tell

DRAWS = (256, 1_024, 4_096)


def measure(root: Path) -> None:
    """Build the report in this process; prints the facts."""
    begun = time.perf_counter()
    from fgrpo_bench.report.build import write_report

    results = results_in(root)
    report = write_report(results)
    tell(results, begun=begun, cpu=0.0, files=len(report.files))


def main() -> None:
    if len(sys.argv) > 1:
        return measure(Path(sys.argv[1]))
    return by_draws("tests.bench.report", DRAWS)


if __name__ == "__main__":
    main()
