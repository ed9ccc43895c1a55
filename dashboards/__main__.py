"""`python -m dashboards serve | export | mlflow`: look at the results in a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgrpo_bench.commandline import Parser, entered
from fgrpo_bench.runs import default_root

EXAMPLES = """examples:
  python -m dashboards serve                        the dashboard on 127.0.0.1:8000
  python -m dashboards export --to results          the same as files, to open or to send
  python -m dashboards mlflow                       sync every sweep, MLflow on 127.0.0.1:5000"""
REMOTE = """
On a remote machine keep the default host and forward the port:
  ssh -L {port}:127.0.0.1:{port} <machine>"""
SERVED = "the dashboard: sweep, comparisons, forgotten problems, single draws, audit"
SERVE = """examples:
  python -m dashboards serve
  python -m dashboards serve --root /scratch/runs --port 8001
""" + REMOTE.format(port=8000)
EXPORT = """examples:
  python -m dashboards export --to results          every sweep under the root
  python -m dashboards export groupsize --to results --problems 50
  python -m dashboards export groupsize experiment=countdown version=v1 --to results

Open results/index.html. Nothing in it needs a server or a network. Texts of benchmarks whose
publisher asks that they are not shown to others (GPQA) are left out."""
MLFLOW = """examples:
  python -m dashboards mlflow
  python -m dashboards mlflow --port 5001
  python -m dashboards mlflow --root /scratch/runs --no-sync
""" + REMOTE.format(port=5000)


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 where nothing can be shown; `mlflow` becomes the server itself."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (OSError, LookupError) as error:
        print(error.args[0] if isinstance(error, LookupError) else error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return 130


def _serve(arguments: argparse.Namespace) -> int:
    from dashboards.app import serve

    serve(arguments.root, host=arguments.host, port=arguments.port)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from dashboards.export import chosen_runs, export

    runs = chosen_runs(arguments.root, arguments.sweep, arguments.where)
    pages, tables = export(runs, arguments.to, problems=arguments.problems)
    print(f"{pages:,} pages and {tables:,} tables in {arguments.to}/index.html")
    return 0


def _mlflow(arguments: argparse.Namespace) -> int:
    from dashboards.mlflow_ui import serve

    serve(arguments.root, host=arguments.host, port=arguments.port, sync=arguments.sync)


def _parser() -> argparse.ArgumentParser:
    about = "Views over the stored results."
    parser = Parser(prog="python -m dashboards", description=about, epilog=EXAMPLES)
    commands = parser.add_subparsers(dest="command", required=True)
    serve, export, mlflow = (
        commands.add_parser(name, help=words, epilog=examples)
        for name, words, examples in (
            ("serve", SERVED, SERVE),
            ("export", "the dashboard as a folder of files", EXPORT),
            ("mlflow", "the MLflow UI over every sweep under the root", MLFLOW),
        )
    )
    for command, run in ((serve, _serve), (export, _export), (mlflow, _mlflow)):
        command.set_defaults(run=run)
        command.add_argument(
            "--root",
            type=Path,
            default=default_root(),
            help="folder of all runs (default: FGRPO_RUN_ROOT, or runs)",
        )
    for command, port in ((serve, 8000), (mlflow, 5000)):
        command.add_argument(
            "--host", default="127.0.0.1", help="address to serve on (%(default)s)"
        )
        command.add_argument(
            "--port", type=int, default=port, help="port to serve on (%(default)s)"
        )
    mlflow.add_argument(
        "--no-sync",
        dest="sync",
        action="store_false",
        help="show what is in MLflow, without reading the sweeps first",
    )
    export.add_argument("sweep", nargs="?", help="a sweep's name; default: all of them")
    export.add_argument(
        "where",
        nargs="*",
        metavar="experiment=<name> version=<name>",
        help="which of its runs; default: all of them",
    )
    export.add_argument("--to", type=Path, required=True, help="a folder that is not there yet")
    export.add_argument(
        "--problems",
        type=int,
        default=10,
        help="problems of each benchmark whose draws are written out, those that training lost "
        "most (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    with entered():
        sys.exit(main())
