"""`python -m fgrpo_bench.tracking sync`: bring MLflow up to date with the stored files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgrpo_bench.paths import default_root, find_runs

EXAMPLES = """examples:
  python -m fgrpo_bench.tracking sync                    every sweep under the root
  python -m fgrpo_bench.tracking sync groupsize gamma    two sweeps, all experiments and versions
  python -m fgrpo_bench.tracking sync --root /scratch/runs
  python -m fgrpo_bench.tracking sync --tracking-uri http://mlflow.example:5000

A sync may be repeated, killed, or run beside a sweep that is still going: the files are the truth
and MLflow is a view of them, which `python -m dashboards mlflow` shows."""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 where everything named was synced, else 1."""
    arguments = _parser().parse_args(argv)
    known = find_runs(arguments.root)
    runs = [run for run in known if not arguments.sweep or run.sweep in arguments.sweep]
    missing = [name for name in arguments.sweep if name not in {run.sweep for run in runs}]
    for name in missing or ([] if runs else ["at all"]):
        print(
            f"{arguments.root} holds no sweep {name} (it holds: "
            f"{', '.join(dict.fromkeys(run.sweep for run in known)) or 'none'}); run "
            "`python -m sweeps run <sweep>` first, or name another --root",
            file=sys.stderr,
        )
    from fgrpo_bench.tracking.sync import sync_all

    try:
        results = sync_all(runs, tracking_uri=arguments.tracking_uri)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return 130
    return 0 if results and len(results) == len(runs) and not missing else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fgrpo_bench.tracking",
        description="MLflow as a view of the stored files: one run a point.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    sync = commands.add_parser(
        "sync",
        help="bring MLflow up to date with the stored files",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sync.add_argument("sweep", nargs="*", help="names of sweeps; none is all under the root")
    sync.add_argument(
        "--root",
        type=Path,
        default=default_root(),
        help="folder of all runs (default: FGRPO_RUN_ROOT, or runs)",
    )
    sync.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow server or database (default: MLFLOW_TRACKING_URI, or the store in the root)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
