"""The dashboard on a finished sweep of real size: first page, every click, and peak memory.

36 points (11 cells and the base model, three seeds), eight benchmarks with 2,286 problems together,
256 draws of each: 21 million draws. Responses are short (the counts and grades are what the pages
add up); a click on a problem also reads one file with responses of about 1,500 characters.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
import polars as pl

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.results import PointResult, load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.tables import DRAWS, GRADES, write_table
from tests.support import synthetic
from tests.support.servers import free_port, stop, wait_for

SIZES = {
    "aime24": 30, "aime25": 30, "amc23": 40, "gpqa": 198, "math500": 500, "minerva": 272,
    "ifeval": 541, "olympiadbench": 675,
}  # fmt: skip
N, SEEDS = 256, (11, 12, 13)
BENCHMARKS = "experiment.evaluation.benchmarks"
CELLS = [
    f"{{algorithm: {algorithm}, group_size: 8, focal_gamma: {gamma}}}"
    for algorithm in ("grpo", "dapo")
    for gamma in (0.25, 0.5, 1.0)
]
OVERRIDES = [
    *("experiment=qwen2.5-7b", "evaluation@experiment.evaluation=in-domain"),
    *(f"+benchmark@{BENCHMARKS}.{name}={name}" for name in ("ifeval", "gpqa")),
    *(f"{BENCHMARKS}.{name}.n_problems={size}" for name, size in SIZES.items()),
    *(f"experiment.evaluation.n_samples={N}", "sweep.family=null", f"sweep.grid.seed={[*SEEDS]}"),
    *("sweep.grid.group_size=[2,4,8,16,32]", f"sweep.cells=[{', '.join(CELLS)}]"),
]
LONG = 1_500
VERSION = "math-5"


def write_sweep(root: Path) -> RunPaths:
    """The whole sweep as files, with markers that fit."""
    results = synthetic.write_sweep(root, "groupsize", OVERRIDES)
    for point in results.points:
        for i, benchmark in enumerate(SIZES):
            _draw(point, benchmark, np.random.default_rng([i, point.seed]))
        marker = read_json(point.evaluate.done)
        marker["target"]["graders"] = dict.fromkeys(SIZES, VERSION)
        write_json(point.evaluate.done, marker)
    return results.paths


def _draw(point: PointResult, benchmark: str, rng: np.random.Generator) -> None:
    """Draws and grades that agree with the table of pass@k."""
    paths, problems = point.evaluate.benchmark(benchmark), SIZES[benchmark]
    counts = point.passk(benchmark).filter(k=1)
    names, correct = counts["problem_id"], counts["n_correct"]
    long = point.point_id in ("base-s11", "grpo-n8-g0-s11") and benchmark == "math500"
    size, rows = problems * N, names.gather(np.repeat(np.arange(problems), N))
    draw = np.tile(np.arange(N), problems)
    answers = pl.Series([f"\\frac{{{i}}}{{17}}" for i in range(200)])
    said = answers.gather(rng.integers(0, 200, size))
    text = said
    if long:  # each shares two thirds with the next, about as well as real ones compress
        third = LONG // 3
        block = rng.bytes((size + 3) * third // 2).hex()
        text = pl.Series([block[third * i : third * (i + 3)] for i in range(size)])
    cut = rng.random(size) < 0.02
    draws = {
        "problem_id": rows, "draw": draw, "seed": rng.integers(0, 2**62, size), "response": text,
        "n_tokens": rng.integers(100, 4_096, size),
        "finish_reason": pl.Series(["stop", "length"]).gather(cut.astype(np.uint32)),
        "end_token": pl.Series([1, None]).gather(cut.astype(np.uint32)),
    }  # fmt: skip
    write_table(paths.draws, pl.DataFrame(draws).cast(dict(DRAWS)), DRAWS)
    right = draw < np.repeat(correct, N)
    grades = {
        "problem_id": rows, "draw": draw,
        "outcome": pl.Series(["incorrect", "correct"]).gather(right.astype(np.uint32)),
        "extracted": said,
        "reason": pl.Series(["not equal by math-verify"]).new_from_index(0, size),
        "grader_version": pl.Series([VERSION]).new_from_index(0, size),
    }  # fmt: skip
    write_table(paths.grades(VERSION), pl.DataFrame(grades).cast(dict(GRADES)), GRADES)


def measure(run: RunPaths) -> None:
    """Ask a fresh server for pages as a person would; prints the facts."""
    port = free_port()
    words = [sys.executable, "-m", "dashboards", "serve", "--root", str(run.root)]
    environment = os.environ | {"POLARS_MAX_THREADS": "2"}
    process = subprocess.Popen(
        [*words, "--port", str(port)], env=environment, start_new_session=True
    )
    base = f"http://127.0.0.1:{port}/{run.sweep}/{run.experiment}/{run.version}"
    draws = "problem=p100&a=base-s11&b=grpo-n8-g0-s11"
    pages = {
        "first page": "../../..",
        "sweep": "sweep",
        "another colour of it": "sweep?show=pass256",
        "compare": "compare",
        "another benchmark": "compare?benchmark=olympiadbench",
        "another k": "compare?benchmark=olympiadbench&k=16",
        "another reference": "compare?benchmark=olympiadbench&against=grpo-n8-g0",
        "forgetting": "forgetting?benchmark=olympiadbench",
        "another order": "forgetting?benchmark=olympiadbench&order=base",
        "next page": "forgetting?benchmark=olympiadbench&page=2",
        "draws": f"draws?benchmark=math500&{draws}",
        "right ones": f"draws?benchmark=math500&{draws}&outcome=correct",
        "audit": "audit?benchmark=math500",
        "audit of the largest": "audit?benchmark=olympiadbench",
        "compare, seen before": "compare?benchmark=olympiadbench",
    }
    try:
        wait_for(f"http://127.0.0.1:{port}/_static/style.css", process)
        wall, cpu = {}, {}
        for name, page in pages.items():
            begun, spent = time.perf_counter(), _cpu_seconds(process.pid)
            with urllib.request.urlopen(urljoin(f"{base}/", page), timeout=60) as answer:
                answer.read()
            wall[name] = time.perf_counter() - begun
            cpu[name] = _cpu_seconds(process.pid) - spent
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+)", status)
        facts: dict[str, object] = {"peak MB": int(peak[1]) / 1024 if peak else None}
        for what, own in (("s", wall), ("CPU-s", cpu)):
            facts |= {f"{name}, {what}": value for name, value in own.items()}
            facts[f"slowest click, {what}"] = max(list(own.values())[1:])
        print(json.dumps(facts), flush=True)
    finally:
        stop(process)


def _cpu_seconds(pid: int) -> float:
    """Of all threads of a process that lives."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run = write_sweep(Path(folder))
        results = load_results(run)
        size = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
        facts = {
            "points": len(results.points),
            "benchmarks": len(results.benchmarks),
            "problems": sum(SIZES.values()),
            "draws": len(results.points) * sum(SIZES.values()) * N,
            "GB": size / 1e9,
            "seconds to write": time.perf_counter() - begun,
        }
        print(json.dumps(facts), flush=True)
        begun = time.perf_counter()
        analysed(results)
        print(json.dumps({"seconds to analyse": time.perf_counter() - begun}), flush=True)
        measure(run)


if __name__ == "__main__":
    main()
