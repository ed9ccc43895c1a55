"""A finished sweep of 36 trained points on nine benchmarks, and what its measurements share."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is imported counts as part of what is measured
    from fgrpo_bench.analysis.results import SweepResults


def results_in(root: Path) -> SweepResults:
    """The one sweep under a root."""
    from fgrpo_bench.analysis.results import load_results
    from fgrpo_bench.command.runs import find_runs

    return load_results(find_runs(root)[0])


def tell(results: SweepResults, *, begun: float, cpu: float, **counted: int) -> None:
    """Print the facts of a measurement. begun, cpu: wall and processor seconds at its start."""
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


def by_draws(module: str, draws: Sequence[int]) -> None:
    """Run a module on such a sweep for each number of draws, in a process of its own."""
    from tests.support.report import nine_benchmarks

    for n in draws:
        with tempfile.TemporaryDirectory() as folder:
            nine_benchmarks(Path(folder), "gamma", f"experiment.evaluation.n_samples={n}")
            subprocess.run([sys.executable, "-m", module, folder], check=True)
