"""`python -m dashboards mlflow`: look at the results in a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgrpo_bench.paths import default_root

EXAMPLES = """examples:
  python -m dashboards mlflow                       sync every sweep, serve on 127.0.0.1:5000
  python -m dashboards mlflow --port 5001
  python -m dashboards mlflow --root /scratch/runs --no-sync

On a remote machine keep the default host and forward the port:
  ssh -L 5000:127.0.0.1:5000 <machine>"""


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 where the page cannot be served; otherwise the process becomes the server."""
    arguments = _parser().parse_args(argv)
    from dashboards.mlflow_ui import serve

    try:
        serve(arguments.root, host=arguments.host, port=arguments.port, sync=arguments.sync)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dashboards",
        description="Views over the stored results.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    mlflow = commands.add_parser(
        "mlflow",
        help="the MLflow UI over every sweep under the root",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    mlflow.add_argument(
        "--root",
        type=Path,
        default=default_root(),
        help="folder of all runs (default: FGRPO_RUN_ROOT, or runs)",
    )
    mlflow.add_argument("--host", default="127.0.0.1", help="address to serve on (%(default)s)")
    mlflow.add_argument("--port", type=int, default=5000, help="port to serve on (%(default)s)")
    mlflow.add_argument(
        "--no-sync",
        dest="sync",
        action="store_false",
        help="show what is in MLflow, without reading the sweeps first",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
