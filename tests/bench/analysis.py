"""Every number of 36 trained points and 9 benchmarks: time and peak memory, by draws."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DRAWS = (512, 4_096)


def measure(root: Path) -> None:
    """Analyse in this process; prints the facts."""
    from fgrpo_bench.analysis import analyse
    from fgrpo_bench.results import load_results
    from fgrpo_bench.stages.paths import find_runs

    results = load_results(find_runs(root)[0])
    begun, cpu = time.perf_counter(), time.process_time()
    made = analyse(results)
    facts = {
        "points": sum(point.algorithm is not None for point in results.points),
        "benchmarks": len(results.benchmarks),
        "draws a problem": results.evaluation["n_samples"],
        "bands": len(made.first_loss),
        "seconds": time.perf_counter() - begun,
        "CPU s": time.process_time() - cpu,
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
            subprocess.run([sys.executable, "-m", "tests.bench.analysis", folder], check=True)
    return None


if __name__ == "__main__":
    main()
