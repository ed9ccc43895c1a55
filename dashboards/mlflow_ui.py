"""Serve the MLflow UI over the embedded store of a run root, on this machine alone."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from fgrpo_bench.command.runs import tracked
from fgrpo_bench.tracking.desired import ANSWER, VIEW
from fgrpo_bench.tracking.evaluations import EVALUATION
from fgrpo_bench.tracking.states import CELLS, POINTS, REPORT, TABLE
from fgrpo_bench.tracking.sync import Store, embedded_uri, find_store, opened, sync_all

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
    "evaluations": (EVALUATION, "TABLE"),
    "curves": (EVALUATION, "CHART"),
}
"""What the addresses of an experiment are called, which runs they show, and how. Only those are
printed that have such runs."""


WORKFLOW = "workflowType=machine_learning"
"""Has MLflow show runs with their metrics, and not traces of prompts."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What there is to see of an MLflow experiment of ours."""

    name: str
    experiment_id: str
    kinds: tuple[str, ...]
    """Values of the tag `kind` that some run has."""
    report: str | None
    """The id of the newest run with a report, which begins with the answer; None without one."""
    views: tuple[str, ...]
    """Kinds of which a view is stored, which has pass@k at the largest k on the first screen, and
    the curves first among its charts."""
    changed: int
    """When a run began last, milliseconds since 1970."""


def serve(root: Path, *, host: str, port: int, sync: bool) -> NoReturn:
    """Sync everything under the root, print where to look, first the answer of the newest sweep,
    and become MLflow's own server.

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
    if sync:
        with redirect_stdout(sys.stderr):  # what was synced is no address
            sync_all(runs, tracking_uri=store.uri)
    base = f"http://{in_url(host)}:{port}"
    print(
        f"{pages(base, _experiments(store))}\nReady in a few seconds; Ctrl-C stops it.\n",
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


def _experiments(store: Store) -> list[Shown]:
    """Those with runs of ours, the one that began last first."""
    shown = []
    with opened(store) as client:
        for experiment in client.search_experiments():
            experiment_ids = [experiment.experiment_id]
            by_kind = {
                kind: client.search_runs(experiment_ids, f"tags.kind = '{kind}'", max_results=1)
                for kind in (REPORT, CELLS, POINTS, EVALUATION)
            }
            newest = [run for runs in by_kind.values() for run in runs]
            if not newest:
                continue
            shown.append(
                Shown(
                    name=experiment.name,
                    experiment_id=experiment.experiment_id,
                    kinds=tuple(kind for kind, runs in by_kind.items() if runs),
                    report=next((run.info.run_id for run in by_kind[REPORT]), None),
                    views=tuple(kind for kind in by_kind if f"{VIEW}{kind}" in experiment.tags),
                    changed=max(run.info.start_time for run in newest),
                )
            )
    return sorted(shown, key=lambda experiment: -experiment.changed)


def pages(base: str, shown: Sequence[Shown]) -> str:
    """The addresses to open, the best first: of each experiment its answer with the table beside
    it, its cells and its points, as a table and drawn."""
    lines = list[str]()
    for experiment in shown:
        at, workflow = f"{base}/#/experiments/{experiment.experiment_id}/runs", f"?{WORKFLOW}"
        addresses = {}
        if experiment.report is not None:
            artifacts = f"{at}/{experiment.report}/artifacts"
            addresses["answer"] = f"{artifacts}/{ANSWER}{workflow}"
            addresses["table"] = f"{artifacts}/{TABLE}{workflow}"
        for label, (kind, mode) in PAGES.items():
            if kind in experiment.kinds:
                search = f"searchFilter={quote(f'tags.kind = {kind!r}')}"
                if kind in experiment.views:
                    search = f"viewStateShareKey={kind}"
                addresses[label] = f"{at}{workflow}&{search}&compareRunsMode={mode}"
        first = next(iter(addresses.values()))
        lines += [] if lines else [f"Open {first}", ""]
        lines += [f"MLflow {experiment.name}"]
        lines += [f"  {label:<11}  {address}" for label, address in addresses.items()]
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
