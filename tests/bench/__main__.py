"""`make bench`: speed and memory as ratios against named baselines, measured in the same run.

Each measurement runs in a process of its own with one thread and prints one JSON line of facts;
CPU seconds are compared, because they hold when other work shares the machine; what waits for disks
and for SLURM is compared by wall time, best and median of several.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

MEASUREMENTS = {
    "passk": "pass@k for 5 million rows, against the naive per-row formula",
    "starting": "the import of the library, against NumPy's",
    "analysis": "every number of 36 points and 9 benchmarks, by draws per problem",
    "bands": "bands over all k, against passk-inference",
    "report": "a report over 36 points and 9 benchmarks, by draws per problem",
    "own": "comparing two models, against means alone; problems of 1 GB in memory, against 1 MB",
    "importing": "a dump of 128,000 draws imported and compared, against grading them alone",
    "grading": "math grading of real and made outputs, against math-verify and lm-eval a sample",
    "evaluating": "sampling by vLLM and grading meanwhile, against the bare engine",
    "sampling": "draws per second, against transformers.generate and the products of sampling",
    "stopping": "draws and time of staged evaluations, against 1,024 draws of every problem",
    "training": "training steps per second, against TRL's trainer and the products of an update",
    "mazes_training": "the same on mazes at N = 64",
    "steps": "where the time of a training step goes, on countdown and on mazes",
    "memory": "peak memory of a training and of an evaluation worker",
    "hooks": "time inside our hooks as a share of a training step of OpenRLHF on the processor",
    "tracking": "1,000 points synced into MLflow, synced again, and the runs page's own query",
    "dashboard": "first page, every click and memory of the dashboard on a sweep of real size",
    "slurm": "plan, submit, tick and status on a private SLURM, against hydra-submitit-launcher",
}
PROGRAMS = {
    "analysis": ("nine", "analysis"),
    "report": ("nine", "report"),
    "mazes_training": ("training", "mazes"),
}
"""Module and arguments of a measurement that has no module of its own."""
EXAMPLES = """examples:
  make bench
  make bench ARGS='sampling training'"""


def main() -> int:
    """Run the chosen measurements and print what they say."""
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="\n".join([__doc__ or "", *(f"{k}: {v}" for k, v in MEASUREMENTS.items())]),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="default: all of them")
    names = parser.parse_args().names or list(MEASUREMENTS)
    unknown = sorted(set(names) - set(MEASUREMENTS))
    if unknown:
        parser.error(
            f"unknown measurement {unknown[0]!r}: valid ones are {', '.join(MEASUREMENTS)}"
        )
    for name in names:
        print(f"{name}: {MEASUREMENTS[name]}", flush=True)
        module, *words = PROGRAMS.get(name, (name,))
        done = subprocess.run(
            [sys.executable, "-m", f"tests.bench.{module}", *words],
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for line in done.stdout.splitlines():
            if line.startswith('{"'):  # other lines are the baselines' own chatter
                facts = json.loads(line)
                shown = (
                    f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in facts.items()
                )
                print("  " + ", ".join(shown), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
