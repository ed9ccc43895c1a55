"""Models and problems of one's own: `compare` of two evaluations of 1,000 problems and 1,024 draws,
against the means of their tables alone; and peak memory of a JSONL of 1 GB, against one of 1 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.synthetic import write_sweep

SIZE = [
    "sweep.grid.group_size=[8]",
    "sweep.grid.seed=[11]",
    "experiment.evaluation.n_samples=1024",
    "experiment.evaluation.ks=[1,2,4,8,16,32,64,128,256,512]",
    "experiment.evaluation.benchmarks.countdown.n_problems=1000",
]
CELLS = ("groupsize/countdown/v1/grpo-n8-g0", "groupsize/countdown/v1/grpo-n8-g0.5")
MEANS = """
import sys, polars as pl
for file in sys.argv[1:]:
    print(pl.read_parquet(file).group_by("k").agg(pl.col("pass_at_k").mean()).sort("k"))
"""
PREPARE = """
import resource, sys
from pathlib import Path
from evaluators.request import Options, file_benchmark
file_benchmark(Path(sys.argv[1]), Options(checkpoint=None), Path(sys.argv[2]), [])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
TEXT = "How many primes are there below this number, and which of them are palindromes? " * 12
ROWS = {"1 MB": 1_000, "1 GB": 1_000_000}


def best_seconds(words: Sequence[str], times: int = 5) -> float:
    """The best of several, of a process of its own."""
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def compared(root: Path) -> dict[str, float]:
    results = write_sweep(root, "groupsize", SIZE)
    tables = [
        str(point.evaluate.benchmark("countdown").passk())
        for point in results.points
        if any(cell.endswith(f"/{point.label}") for cell in CELLS)
    ]
    assert len(tables) == len(CELLS)
    ours = best_seconds(["-m", "fgrpo_bench", "compare", *CELLS])
    means = best_seconds(["-c", MEANS, *tables])
    return {"compare s": ours, "means alone s": means, "ratio": ours / means}


def read(root: Path) -> dict[str, float]:
    peaks = {}
    for size, rows in ROWS.items():
        file = root / "problems.jsonl"
        with file.open("w", encoding="utf-8") as out:
            for i in range(rows):
                row = {"question": f"{i}: {TEXT}", "answer": str(i)}
                out.write(json.dumps(row) + "\n")
        words = [sys.executable, "-c", PREPARE, str(file), str(root / size.replace(" ", ""))]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        peaks[f"peak MB of {size}"] = float(done.stdout.splitlines()[-1])
    small, large = peaks.values()
    return peaks | {"ratio": large / small}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["FGRPO_RUN_ROOT"] = folder
        print(json.dumps(compared(root) | read(root)))


if __name__ == "__main__":
    main()
