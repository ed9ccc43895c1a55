"""`fgrpo-bench dashboard`, `fgrpo-bench mlflow`, `python -m dashboards`: results in a browser.

In: the folder of all runs. Out: a server on this machine, or a folder of files. Next:
dashboards.app, dashboards.export and dashboards.mlflow_ui.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.command.application import Application, Root
from fgrpo_bench.command.application import run as run_program
from fgrpo_bench.command.runs import RUN_HELP, complete_run, default_root

REMOTE = """\
On a remote machine keep the default host and forward the port:
  ssh -L {port}:127.0.0.1:{port} <machine>
"""
EXPORT = """\
Open results/index.html. Nothing in it needs a server or a network. Texts of benchmarks whose
publisher asks that they are not shown to others (GPQA) are left out.
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
    "fgrpo-bench dashboard                        the dashboard on 127.0.0.1:8000",
    "fgrpo-bench dashboard export --to results    the same as files, to open or to send",
    "fgrpo-bench mlflow                           sync every sweep, MLflow on 127.0.0.1:5000",
    guard=_refusals,
    default="serve",
)
Host = Annotated[str, typer.Option(help="address to serve on")]
Port = Annotated[int, typer.Option(help="port to serve on")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command to its exit code; `mlflow` becomes the server itself."""
    return run_program(app, argv, "python -m dashboards")


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
    "export",
    "the dashboard as a folder of files",
    "fgrpo-bench dashboard export --to results          every sweep under the root",
    "fgrpo-bench dashboard export groupsize --to results --problems 50",
    "fgrpo-bench dashboard export groupsize/countdown/v1 --to results",
    more=EXPORT,
)
def export(
    to: Annotated[Path, typer.Option(help="a folder that is not there yet")],
    sweep: Annotated[
        str | None,
        typer.Argument(
            metavar="SWEEP",
            help=f"{RUN_HELP}; all that fit, default: all there are",
            autocompletion=complete_run,
        ),
    ] = None,
    root: Root = None,
    problems: Annotated[
        int,
        typer.Option(
            help="problems of each benchmark whose draws are written out: half are those of the "
            "largest gain, half those that training lost most"
        ),
    ] = 10,
) -> int:
    from dashboards.export import chosen_runs
    from dashboards.export import export as write

    pages, tables = write(chosen_runs(root or default_root(), sweep), to, problems=problems)
    print(f"{pages:,} pages and {tables:,} tables in {to}/index.html")
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
