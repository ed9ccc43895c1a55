"""MLflow with many runs: a sync into an empty store, another that finds nothing to do, and the
runs page's own query through MLflow's server."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking.states import CELLS, POINTS
from fgrpo_bench.tracking.sync import embedded_uri, find_store, sync_run
from tests.support.synthetic import write_sweep

SEEDS, GROUP_SIZES = 5, [2, 4, 8, 16, 32]
GAMMAS = [round(0.05 * i, 2) for i in range(40)]
STEPS = 100
PAGE = 100
"""Runs that the page asks for at once."""


def write(root: Path) -> RunPaths:
    """A finished sweep of 1,000 points and 5 base models, 50 problems, k in 1, 16, 256."""
    results = write_sweep(
        root,
        overrides=[
            "experiment.evaluation.n_samples=512",
            "experiment.evaluation.ks=[1,16,256]",
            "experiment.evaluation.benchmarks.countdown.n_problems=50",
            f"experiment.train.steps={STEPS}",
            f"sweep.grid.seed={list(range(1, SEEDS + 1))}",
            f"sweep.grid.group_size={GROUP_SIZES}",
            f"sweep.grid.focal_gamma={GAMMAS}",
            "sweep.cells=[]",
        ],
    )
    return results.paths


def page(base: str, experiment: str, kind: str) -> tuple[float, int]:
    """Wall seconds of the request that the runs page makes, and how many runs came back."""
    body = {
        "experiment_ids": [experiment],
        "filter": f"tags.kind = '{kind}'",
        "run_view_type": "ACTIVE_ONLY",
        "max_results": PAGE,
        "order_by": ["metrics.`pass_at_256/countdown` DESC"],
    }
    request = urllib.request.Request(
        f"{base}/ajax-api/2.0/mlflow/runs/search",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    begun = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        runs = json.loads(answer.read())["runs"]
    return time.perf_counter() - begun, len(runs)


def served(paths: RunPaths, experiment: str) -> dict[str, float]:
    """Seconds of the first and of the slowest of five requests for each kind of runs, and of a
    sync through the server that finds nothing to do."""
    from dashboards.mlflow_ui import SERVER_ENVIRONMENT, server_command
    from tests.support.servers import free_port, stop, wait_for

    port = free_port()
    command = server_command(find_store(paths, embedded_uri(paths)), host="127.0.0.1", port=port)
    process = subprocess.Popen(
        command,
        env=os.environ | SERVER_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        base = f"http://127.0.0.1:{port}"
        wait_for(f"{base}/health", process)
        facts = {}
        for kind in (CELLS, POINTS):
            times = [page(base, experiment, kind) for _ in range(5)]
            assert {runs for _, runs in times} == {PAGE}
            facts |= {f"{kind} first s": times[0][0], f"{kind} slowest s": max(times)[0]}
        again = sync_run(paths, tracking_uri=base)
        assert not again.created + again.updated + again.replaced
        return facts | {"sync by the server s": again.seconds}
    finally:
        stop(process)


def main() -> None:
    root = Path(tempfile.mkdtemp())
    try:
        paths = write(root)
        points = len(load_results(paths).points)
        begun, cpu = time.perf_counter(), time.process_time()
        done = sync_run(paths, tracking_uri=embedded_uri(paths))
        facts: dict[str, float] = {
            "points": points,
            "runs": done.created,
            "steps each": STEPS,
            "sync s": time.perf_counter() - begun,
            "CPU s": time.process_time() - cpu,
        }
        begun, cpu = time.perf_counter(), time.process_time()
        again = sync_run(paths, tracking_uri=embedded_uri(paths))
        assert again.unchanged == done.created
        facts["second sync s"] = time.perf_counter() - begun
        facts["second CPU s"] = time.process_time() - cpu
        facts["database MB"] = paths.mlflow_db.stat().st_size / 1e6
        peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        facts["peak MB"] = int(peak[1]) / 1024 if peak else 0
        print(json.dumps(facts), flush=True)
        print(json.dumps(served(paths, done.experiment_id)), flush=True)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
