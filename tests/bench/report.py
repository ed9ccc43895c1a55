"""A report over 36 points and 9 benchmarks, figures included: time and peak memory, by draws.

A report reads pass@k by problem, which evaluations leave; from grades to pass@k is `table`.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRAWS = (256, 1_024, 4_096)


def measure(root: Path) -> None:
    """Build the report in this process; prints the facts."""
    begun = time.perf_counter()
    from fgrpo_bench.report.build import write_report
    from fgrpo_bench.results import load_results
    from fgrpo_bench.stages.paths import find_runs

    results = load_results(find_runs(root)[0])
    report = write_report(results)
    facts = {
        "points": sum(point.algorithm is not None for point in results.points),
        "benchmarks": len(results.benchmarks),
        "draws a problem": results.evaluation["n_samples"],
        "files": len(report.files),
        "seconds": time.perf_counter() - begun,
        "CPU s": time.process_time(),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(facts))


def main() -> None:
    if len(sys.argv) > 1:
        return measure(Path(sys.argv[1]))
    from tests.support.report import nine_benchmarks

    for n in DRAWS:
        with tempfile.TemporaryDirectory() as folder:
            nine_benchmarks(Path(folder), "gamma", f"experiment.evaluation.n_samples={n}")
            subprocess.run([sys.executable, "-m", "tests.bench.report", folder], check=True)
    return None


if __name__ == "__main__":
    main()
