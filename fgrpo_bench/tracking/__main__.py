"""`fgrpo-bench tracking sync | rebuild`: MLflow as the stored files say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, Root
from fgrpo_bench.command.runs import default_root, tracked
from fgrpo_bench.core.commandline import INSTALLED
from fgrpo_bench.files.paths import RunPaths

SYNC = """
A sync may be repeated, killed, or run beside a sweep that is still going, whose runs it brings as
far as they have trained: the files are the truth and MLflow is a view of them, which `fgrpo-bench
mlflow` shows. While a server is away nothing is lost: the next sync brings it all that happened
since.
"""
REBUILD = """
The store beside the runs (mlflow.db, mlflow-artifacts) is moved aside first; stop `make mlflow-ui`
before. On a server or another database the runs of the sweeps under the root go to MLflow's trash,
which needs --yes, and other runs stay. Run ids are new; everything else is equal.
"""


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print("stopped; rerun it to resume", file=sys.stderr)
        raise typer.Exit(130) from None
    except (ConnectionError, PermissionError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


app = Application(
    "MLflow as a view of the stored files: one run a point, below its cell.",
    "fgrpo-bench tracking sync                    every sweep under the root",
    "fgrpo-bench tracking sync groupsize gamma    two sweeps, all experiments and versions",
    "fgrpo-bench tracking rebuild                 an empty store, filled from the files",
    guard=_refusals,
)
Uri = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        help="MLflow server or database (default: MLFLOW_TRACKING_URI, or the store in the root)",
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 where everything named was synced, else 1."""
    return application.run(app, argv, "python -m fgrpo_bench.tracking")


@app.add(
    "sync",
    "bring MLflow up to date with the stored files",
    "fgrpo-bench tracking sync                    every sweep under the root",
    "fgrpo-bench tracking sync groupsize gamma    two sweeps, all experiments and versions",
    "fgrpo-bench tracking sync --root /scratch/runs",
    "fgrpo-bench tracking sync --tracking-uri http://mlflow.example:5000",
    "fgrpo-bench tracking sync --full             after somebody edited MLflow by hand",
    more=SYNC,
)
def sync(
    sweep: Annotated[
        list[str] | None,
        typer.Argument(metavar="SWEEP", help="names of sweeps; none is all under the root"),
    ] = None,
    root: Root = None,
    tracking_uri: Uri = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="write every run anew, also those whose files MLflow has as they are"
        ),
    ] = False,
) -> int:
    def synced(runs: list[RunPaths]) -> Sequence[Any]:
        from fgrpo_bench.tracking.sync import sync_all

        return sync_all(runs, tracking_uri=tracking_uri, is_full=full)

    return _over(root, sweep or [], synced)


@app.add(
    "rebuild",
    "make MLflow anew from the stored files",
    "fgrpo-bench tracking rebuild",
    "fgrpo-bench tracking rebuild --root /scratch/runs",
    "fgrpo-bench tracking rebuild --tracking-uri postgresql://me@db.example/mlflow --yes",
    more=REBUILD,
)
def rebuild(
    root: Root = None,
    tracking_uri: Uri = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="in a store that is not the one beside the runs")
    ] = False,
) -> int:
    def rebuilt(runs: list[RunPaths]) -> Sequence[Any]:
        from fgrpo_bench.tracking import sync

        return sync.rebuild(runs, tracking_uri=tracking_uri, agreed=yes)

    return _over(root, [], rebuilt)


def _over(
    root: Path | None, names: Sequence[str], work: Callable[[list[RunPaths]], Sequence[Any]]
) -> int:
    """Exit code of the work over the runs of these sweeps; no names are all of them.

    work: returns the sweeps that it was done for.
    """
    root = root or default_root()
    known = tracked(root)
    runs = [run for run in known if not names or run.sweep in names]
    missing = [name for name in names if name not in {run.sweep for run in runs}]
    where = " in a checkout of fgrpo-bench" * INSTALLED
    for name in missing or ([] if runs else ["at all"]):
        print(
            f"{root} holds no sweep {name} (it holds: "
            f"{', '.join(dict.fromkeys(run.sweep for run in known)) or 'none'}); run "
            f"`fgrpo-bench sweep run <sweep>`{where} first, or name another --root",
            file=sys.stderr,
        )
    done = len(work(runs)) if runs else 0
    return 0 if done and done == len(runs) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
