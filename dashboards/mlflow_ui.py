"""Serve the MLflow UI over the embedded store of a run root, on this machine alone."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from fgrpo_bench.command.runs import tracked
from fgrpo_bench.tracking.desired import CELLS, POINTS
from fgrpo_bench.tracking.sync import Store, SyncResult, embedded_uri, find_store, sync_all

SERVER_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # no background workers: nothing here needs them
    "PYTHONWARNINGS": "ignore",
}

PAGES = {
    "cells": (CELLS, "TABLE"),
    "charts": (CELLS, "CHART"),
    "points": (POINTS, "TABLE"),
    "training": (POINTS, "CHART"),
}
"""What the addresses of an experiment are called, which runs they show, and how."""
FRONT = (
    "MLflow opens on a page that this project does not use; use these addresses,\nwhere there is "
    "something to see:"
)
UNSYNCED = (
    "MLflow's home page lists experiments: choose one, then Runs. Without --no-sync its pages' own "
    "addresses stand here."
)


def serve(root: Path, *, host: str, port: int, sync: bool) -> NoReturn:
    """Sync everything under the root, print where to look, and become MLflow's own server.

    Raises FileNotFoundError where the root holds no sweep and OSError where the port is taken.
    """
    runs = tracked(root)
    if not runs:
        raise FileNotFoundError(
            f"{root} holds no sweep: run `fgrpo-bench sweep run <sweep>` first, or name another "
            "--root"
        )
    store = find_store(runs[0], embedded_uri(runs[0]))  # whatever MLFLOW_TRACKING_URI says
    if not sync and not runs[0].mlflow_db.exists():
        raise FileNotFoundError(
            f"{runs[0].mlflow_db} is missing: nothing was synced yet; leave out --no-sync"
        )
    check_port(host, port)
    results = sync_all(runs, tracking_uri=store.uri) if sync else []
    print(
        f"\n{FRONT if results else UNSYNCED}\n{pages(f'http://{in_url(host)}:{port}', results)}\n"
        "Ready in a few seconds; Ctrl-C stops it.\n",
        flush=True,
    )
    command = server_command(store, host=host, port=port)
    os.execve(command[0], command, os.environ | SERVER_ENVIRONMENT)


def check_port(host: str, port: int) -> None:
    """OSError that names the port and the remedy where it cannot be listened on."""
    try:
        with _listening(host, port):
            pass
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise OSError(
            f"port {port} of {host} cannot be served: {why}; stop the program that holds it or "
            f"choose another with --port, e.g. --port {_free_port(host, port)}, which is free"
        ) from error


def _free_port(host: str, port: int) -> int:
    """A port that can be listened on now: one soon after, else any."""
    for other in (*range(port + 1, port + 20), 0):
        try:
            with _listening(host, other) as server:
                return int(server.getsockname()[1])
        except (OSError, OverflowError):
            continue
    return port + 1


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def in_url(host: str) -> str:
    """A host as an address names it: `[::1]` for `::1`."""
    return f"[{host}]" if ":" in host else host


def pages(base: str, results: Sequence[SyncResult]) -> str:
    """The addresses to open: of each experiment its cells and its points, as a table and drawn."""
    if not results:
        return f"MLflow: {base}/#/experiments"
    of_kind = {kind: quote(f"tags.kind = '{kind}'") for kind in (CELLS, POINTS)}
    lines = []
    for name, result in sorted({result.experiment: result for result in results}.items()):
        runs = f"{base}/#/experiments/{result.experiment_id}/runs?workflowType=machine_learning"
        lines += [
            f"MLflow {name}",
            *(
                f"  {label:<11}  {runs}&searchFilter={of_kind[kind]}&compareRunsMode={mode}"
                for label, (kind, mode) in PAGES.items()
            ),
        ]
    return "\n".join(lines)


def server_command(store: Store, *, host: str, port: int) -> list[str]:
    """MLflow's server: one worker, few words, and artifacts read where the runs say they are.

    --no-serve-artifacts: the UI still shows them, but nothing can be uploaded through the server.
    --lifespan off: MLflow forwards the Ctrl-C that its worker has already had from the terminal,
    and the second one would break off the worker's farewell with a traceback.
    """
    assert store.artifacts is not None
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", store.uri, "--registry-store-uri", store.uri),
        *("--default-artifact-root", store.artifacts.as_uri(), "--no-serve-artifacts"),
        *("--host", host, "--port", str(port), "--workers", "1"),
        *("--uvicorn-opts", "--log-level warning --lifespan off"),
    ]
