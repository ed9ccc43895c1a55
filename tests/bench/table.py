"""From 5 million stored grades to the table of pass@k: wall time and peak memory of the process."""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from fgrpo_bench.scoring import count_stored, score
from fgrpo_bench.tables import GRADES, PASSK, write_table

PROBLEMS, N, KS = 5_000, 1_000, [1, 4, 16, 64, 256]


def write_grades(path: Path) -> None:
    """Grades of all draws, with answers as long as a box usually holds."""
    rng = np.random.default_rng(0)
    names = pl.Series([f"bench-{i:06d}" for i in range(PROBLEMS)])
    right = rng.random(PROBLEMS * N) < np.repeat(rng.beta(0.4, 1.2, PROBLEMS), N)
    wrong = pl.Series([f"\\frac{{{i}}}{{17}}" for i in range(1_000)])
    table = pl.DataFrame(
        {
            "problem_id": names.gather(np.repeat(np.arange(PROBLEMS), N)),
            "draw": np.tile(np.arange(N), PROBLEMS),
            "outcome": pl.Series(["incorrect", "correct"]).gather(right.astype(np.uint32)),
            "extracted": wrong.gather(rng.integers(0, 1_000, PROBLEMS * N)),
            "reason": pl.Series(["not equal by math-verify"]).new_from_index(0, PROBLEMS * N),
            "grader_version": pl.Series(["math-3"]).new_from_index(0, PROBLEMS * N),
        },
        schema=GRADES,
    )
    write_table(path, table, GRADES)


def measure(path: Path) -> None:
    """Read, count, score and write; prints the facts."""
    begun = time.perf_counter()
    counts = count_stored(path)
    table = score(counts, KS)
    write_table(path.with_name("passk.parquet"), table, PASSK)
    seconds = time.perf_counter() - begun
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    facts = {"draws": int(counts["n_samples"].sum()), "ks": len(KS), "seconds": seconds}
    print(json.dumps(facts | {"peak MB": int(peak[1]) / 1024 if peak else None}))


def main() -> None:
    if len(sys.argv) > 1:
        return measure(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grades.parquet"
        write_grades(path)
        subprocess.run([sys.executable, "-m", "tests.bench.table", str(path)], check=True)
    return None


if __name__ == "__main__":
    main()
