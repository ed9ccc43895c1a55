"""A finished sweep of 36 trained points on nine benchmarks: time and peak memory by draws, of every
number of its analysis (`analysis`) or of its report, figures included (`report`).

A report reads pass@k by problem, which evaluations leave. Each is measured in a process of its own,
and what it imports counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRAWS = {"analysis": (512, 4_096), "report": (256, 1_024, 4_096)}


def measure(what: str, root: Path) -> None:
    """Make it in this process; prints the facts."""
    begun, cpu = time.perf_counter(), 0.0
    from fgrpo_bench.analysis.results import load_results
    from fgrpo_bench.command.runs import find_runs

    results = load_results(find_runs(root)[0])
    if what == "analysis":
        from fgrpo_bench.analysis import analyse

        begun, cpu = time.perf_counter(), time.process_time()
        counted = {"bands": len(analyse(results).first_loss)}
    else:
        from fgrpo_bench.report.build import write_report

        counted = {"files": len(write_report(results).files)}
    facts = {
        "points": sum(point.cell is not None for point in results.points),
        "benchmarks": len(results.benchmarks),
        "draws per problem": results.evaluation["n_samples"],
        **counted,
        "seconds": time.perf_counter() - begun,
        "CPU s": time.process_time() - cpu,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(facts))


def main(what: str, *root: str) -> None:
    if root:
        return measure(what, Path(*root))
    from tests.support.report import nine_benchmarks

    for n in DRAWS[what]:
        with tempfile.TemporaryDirectory() as folder:
            nine_benchmarks(Path(folder), "gamma", f"experiment.evaluation.n_samples={n}")
            subprocess.run([sys.executable, "-m", "tests.bench.nine", what, folder], check=True)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
