"""`import fgrpo_bench` in a process of its own, against Python alone and against NumPy."""

import json
import resource
import statistics
import subprocess
import sys

RUNS = 15


def seconds(statement: str) -> float:
    """Median CPU time of a process that runs it; Python's own start is part of it."""
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)


def main() -> None:
    alone, ours, numpy = map(seconds, ("", "import fgrpo_bench", "import numpy"))
    used = seconds("from fgrpo_bench import pass_at_k; pass_at_k(n_samples=4, n_correct=1, k=2)")
    facts = {"Python s": alone, "import s": ours - alone, "with pass_at_k s": used - alone}
    facts |= {"numpy s": numpy - alone, "import/numpy": (ours - alone) / (numpy - alone)}
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
