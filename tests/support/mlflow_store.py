"""What an MLflow store holds, as plain values to compare; and servers to hold it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.states import IDENTITY, RunState
from fgrpo_bench.tracking.sync import PARENT, embedded_uri, sync_run
from tests.support.servers import free_port, stop, wait_for


def states(paths: RunPaths) -> dict[str, RunState]:
    """The runs that MLflow should hold, by name, parents first."""
    return {run.name: run.state() for run in desired_experiment(paths).runs}


def contents(uri: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Everything of every run that is not in the trash, by identity; ids left out."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = {run.info.run_id: run for run in runs(uri)}
    held = {}
    for run_id, run in found.items():
        identity = tuple(run.data.tags[key] for key in IDENTITY)
        assert identity not in held, f"{identity} twice"
        tags = dict(run.data.tags)
        parent = tags.pop(PARENT, None)
        held[identity] = {
            "info": (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time),
            "params": run.data.params,
            "tags": tags,
            "parent": parent and found[parent].data.tags["point_id"],
            "latest": {key: repr(value) for key, value in run.data.metrics.items()},
            "history": [
                (metric.key, metric.step, metric.timestamp, repr(metric.value))
                for key in sorted(run.data.metrics)
                for metric in sorted(
                    client.get_metric_history(run_id, key), key=lambda one: one.step
                )
            ],
            "artifacts": artifacts(run.info.artifact_uri),
        }
    return held


def without_files(runs: dict[tuple[str, ...], dict[str, Any]]) -> dict[tuple[str, ...], Any]:
    """The contents apart from what stands in artifact folders."""
    return {identity: run | {"artifacts": {}} for identity, run in runs.items()}


def held(results: SweepResults) -> dict[tuple[str, ...], dict[str, Any]]:
    """The contents of the embedded store."""
    return contents(embedded_uri(results.paths))


def counts(results: SweepResults) -> tuple[int, int, int, int]:
    """Runs (created, updated, replaced, unchanged) by one sync."""
    done = sync_run(results.paths)
    return done.created, done.updated, done.replaced, done.unchanged


def runs(uri: str) -> list[Any]:
    """The runs that are not in the trash, by name."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiments = [found.experiment_id for found in client.search_experiments()]
    found = client.search_runs(experiments)
    return sorted(found, key=lambda run: run.data.tags.get("point_id", ""))


def artifacts(uri: str) -> dict[str, bytes]:
    """Contents by path of an artifact folder on this machine; none where a server keeps them."""
    if urlparse(uri).scheme != "file":
        return {}
    folder = Path(unquote(urlparse(uri).path))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def background_sync(results: SweepResults, uri: str | None = None) -> subprocess.Popen[str]:
    """A process that has loaded MLflow, said so, and now syncs.

    uri: None is the embedded store.
    """
    code = """
import sys
from pathlib import Path
import mlflow, mlflow.store.tracking.sqlalchemy_store
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking.sync import sync_run
from tests.support.servers import free_port, stop, wait_for
root, sweep, experiment, version, uri = sys.argv[1:]
print("ready", flush=True)
paths = RunPaths(root=Path(root), sweep=sweep, experiment=experiment, version=version)
sync_run(paths, tracking_uri=uri or None)
"""
    paths = results.paths
    address = [paths.sweep, paths.experiment, paths.version]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(paths.root), *address, uri or ""],
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@contextmanager
def server(folder: Path, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A tracking server that keeps database and artifacts itself: its URI and its process group.

    port: None is a free one; a server over the same folder and port is the old one come back.
    """
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/server.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}", process
    finally:
        stop(process)
