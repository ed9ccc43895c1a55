"""Every number of 36 trained points and 9 benchmarks: time and peak memory, by draws."""

import sys
import time
from pathlib import Path

from tests.bench.nine import by_draws, results_in, tell

DRAWS = (512, 4_096)


def measure(root: Path) -> None:
    """Analyse in this process; prints the facts."""
    from fgrpo_bench.analysis import analyse

    results = results_in(root)
    begun, cpu = time.perf_counter(), time.process_time()
    made = analyse(results)
    tell(results, begun=begun, cpu=cpu, bands=len(made.first_loss))


def main() -> None:
    if len(sys.argv) > 1:
        return measure(Path(sys.argv[1]))
    return by_draws("tests.bench.analysis", DRAWS)


if __name__ == "__main__":
    main()
