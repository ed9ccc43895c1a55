"""`python -m fgrpo_bench.tracking sync | rebuild`: MLflow as the stored files say."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fgrpo_bench.commandline import Parser
from fgrpo_bench.runs import default_root, find_runs
from fgrpo_bench.stages.paths import RunPaths

EXAMPLES = """examples (each has a --help):
  python -m fgrpo_bench.tracking sync                    every sweep under the root
  python -m fgrpo_bench.tracking sync groupsize gamma    two sweeps, all experiments and versions
  python -m fgrpo_bench.tracking rebuild                 an empty store, filled from the files"""
SYNC = """examples:
  python -m fgrpo_bench.tracking sync                    every sweep under the root
  python -m fgrpo_bench.tracking sync groupsize gamma    two sweeps, all experiments and versions
  python -m fgrpo_bench.tracking sync --root /scratch/runs
  python -m fgrpo_bench.tracking sync --tracking-uri http://mlflow.example:5000
  python -m fgrpo_bench.tracking sync --full             after somebody edited MLflow by hand

A sync may be repeated, killed, or run beside a sweep that is still going, whose runs it brings as
far as they have trained: the files are the truth and MLflow is a view of them, which `python -m
dashboards mlflow` shows. While a server is away nothing is lost: the next sync brings it all that
happened since."""
REBUILD = """examples:
  python -m fgrpo_bench.tracking rebuild
  python -m fgrpo_bench.tracking rebuild --root /scratch/runs
  python -m fgrpo_bench.tracking rebuild --tracking-uri postgresql://me@db.example/mlflow --yes

The store beside the runs (mlflow.db, mlflow-artifacts) is moved aside first; stop `make mlflow-ui`
before. On a server or another database the runs of the sweeps under the root go to MLflow's trash,
which needs --yes, and other runs stay. Run ids are new; everything else is equal."""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 where everything named was synced, else 1."""
    arguments = _parser().parse_args(argv)
    known = find_runs(arguments.root)
    named: list[str] = arguments.sweep if arguments.command == "sync" else []
    runs = [run for run in known if not named or run.sweep in named]
    missing = [name for name in named if name not in {run.sweep for run in runs}]
    for name in missing or ([] if runs else ["at all"]):
        print(
            f"{arguments.root} holds no sweep {name} (it holds: "
            f"{', '.join(dict.fromkeys(run.sweep for run in known)) or 'none'}); run "
            "`python -m sweeps run <sweep>` first, or name another --root",
            file=sys.stderr,
        )
    try:
        done = _run(arguments, runs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return 130
    except (ConnectionError, PermissionError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if done and done == len(runs) and not missing else 1


def _run(arguments: argparse.Namespace, runs: list[RunPaths]) -> int:
    """Number of sweeps that were synced."""
    uri: str | None = arguments.tracking_uri
    if not runs:
        return 0
    from fgrpo_bench.tracking.sync import rebuild, sync_all

    if arguments.command == "rebuild":
        return len(rebuild(runs, tracking_uri=uri, agreed=arguments.yes))
    return len(sync_all(runs, tracking_uri=uri, is_full=arguments.full))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m fgrpo_bench.tracking",
        description="MLflow as a view of the stored files: one run a point, below its cell.",
        epilog=EXAMPLES,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    sync = _command(commands, "sync", "bring MLflow up to date with the stored files", SYNC)
    sync.add_argument("sweep", nargs="*", help="names of sweeps; none is all under the root")
    sync.add_argument(
        "--full",
        action="store_true",
        help="write every run anew, also those whose files MLflow has as they are",
    )
    rebuild = _command(commands, "rebuild", "make MLflow anew from the stored files", REBUILD)
    rebuild.add_argument(
        "--yes", action="store_true", help="in a store that is not the one beside the runs"
    )
    return parser


def _command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    words: str,
    epilog: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=words,
        epilog=epilog,
    )
    command.add_argument(
        "--root",
        type=Path,
        default=default_root(),
        help="folder of all runs (default: FGRPO_RUN_ROOT, or runs)",
    )
    command.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow server or database (default: MLFLOW_TRACKING_URI, or the store in the root)",
    )
    return command


if __name__ == "__main__":
    sys.exit(main())
