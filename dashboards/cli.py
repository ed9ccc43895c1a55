"""`fgrpo-bench dashboard`, `fgrpo-bench mlflow`, `python -m dashboards`: results in a browser.

In: the folder of all runs. Out: a server on this machine. Next: dashboards.app and
dashboards.mlflow_ui.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, Root
from fgrpo_bench.command.runs import default_root

REMOTE = """\
On a remote machine keep the default host and forward the port:
  ssh -L {port}:127.0.0.1:{port} <machine>
"""


@contextmanager
def _refusals() -> Iterator[None]:
    """A line and exit code 1 where nothing can be shown."""
    try:
        yield
    except (OSError, LookupError, ValueError) as error:
        print(error.args[0] if isinstance(error, LookupError) else error, file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print("stopped; rerun it to resume", file=sys.stderr)
        raise typer.Exit(130) from None


app = Application(
    "Views over the stored results; without a command the dashboard is served.",
    "fgrpo-bench dashboard    the dashboard on 127.0.0.1:8000",
    "fgrpo-bench mlflow       sync every sweep, MLflow on 127.0.0.1:5000",
    guard=_refusals,
    default="serve",
)
Host = Annotated[str, typer.Option(help="address to serve on")]
Port = Annotated[int, typer.Option(help="port to serve on")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code; `mlflow` becomes the server itself."""
    return application.run(app, argv, "python -m dashboards")


@app.add(
    "serve",
    "the dashboard: sweep, comparisons, forgotten problems, single draws, audit",
    "fgrpo-bench dashboard",
    "fgrpo-bench dashboard --root /scratch/runs --port 8001",
    more=REMOTE.format(port=8000),
)
def serve(root: Root = None, host: Host = "127.0.0.1", port: Port = 8000) -> int:
    from dashboards import app as dashboard

    dashboard.serve(root or default_root(), host=host, port=port)
    return 0


@app.add(
    "mlflow",
    "the MLflow UI over every sweep under the root",
    "fgrpo-bench mlflow",
    "fgrpo-bench mlflow --port 5001",
    "fgrpo-bench mlflow --root /scratch/runs --no-sync",
    more=REMOTE.format(port=5000),
)
def mlflow(
    root: Root = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    no_sync: Annotated[
        bool,
        typer.Option("--no-sync", help="show what is in MLflow, without reading the sweeps first"),
    ] = False,
) -> int:
    from dashboards import mlflow_ui

    mlflow_ui.serve(root or default_root(), host=host, port=port, sync=not no_sync)
