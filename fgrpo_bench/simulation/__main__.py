"""`python -m fgrpo_bench.simulation`: make the simulation's runs, sync and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fgrpo_bench.commandline import Parser
from fgrpo_bench.runs import default_root
from fgrpo_bench.simulation.runs import Simulation, freeze, run_paths
from fgrpo_bench.simulation.settings import GAMMAS, GROUP_SIZES, RULES, SEEDS, Settings, grid
from fgrpo_bench.simulation.workers import make, processors
from fgrpo_bench.specs import check_name
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.paths import RunPaths

EXAMPLES = """\
Killed at any moment, it loses the runs in flight; the same command makes what is missing. Without
--rule: Adam's whole grid, and the literal rule at the first gamma and seed.

examples:
  python -m fgrpo_bench.simulation                    153 runs, a minute or two on two processors
  python -m fgrpo_bench.simulation --seed 0 --group-size 2 64 1024 --version quick
  python -m fgrpo_bench.simulation --rule literal     the paper's words taken literally, whole grid
  python -m fgrpo_bench.simulation --dry-run
  python -m fgrpo_bench.report simulation             the report again, from the files"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 with a line on standard error; 130 where it was stopped by Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        settings = Settings()
        runs = grid(
            options.rule, group_sizes=options.group_size, gammas=options.gamma, seeds=options.seed
        )
        if options.workers < 1:
            raise ValueError(f"--workers {options.workers}: at least one")
        check_name("--version", options.version)
        paths = run_paths(options.root, options.version)
        if options.dry_run:
            asked = Simulation(paths=paths, settings=settings, runs=runs)
            print(outlook(asked, workers=options.workers))
            return 0
        name = f"simulation version={paths.version}"
        with locked(paths.driver_lock, wait=False, what=name):
            simulation = freeze(paths, settings, runs)
            left = len(simulation.undone)
            print(f"{paths.folder}\n{len(runs)} runs, {left} to make", flush=True)
            if left:
                _make(simulation, left, workers=options.workers)
        finish(paths)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command makes what is missing", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m fgrpo_bench.simulation",
        description="The paper's categorical simulation: what the group size does to the mass of "
        "right actions.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--rule", choices=RULES, help="one rule alone, over the whole grid")
    parser.add_argument(
        "--group-size", type=int, nargs="+", default=GROUP_SIZES, metavar="N",
        help="default: 2, 4, 8, ..., 131072",
    )  # fmt: skip
    parser.add_argument("--gamma", type=float, nargs="+", default=GAMMAS, help="default: 0 1")
    parser.add_argument("--seed", type=int, nargs="+", default=SEEDS, help="default: 0 1 2 3")
    parser.add_argument("--version", default="v1", help="of the folder; default: %(default)s")
    parser.add_argument(
        "--root", type=Path, default=default_root(), help="folder of all runs (now: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=int, default=processors(),
        help="processes at once; default: one a processor (here %(default)s)",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="say what would be made")
    return parser


def outlook(simulation: Simulation, *, workers: int) -> str:
    """What a call would do."""
    settings, runs, left = simulation.settings, simulation.runs, simulation.undone
    seconds = sum(run.cost(settings) for run in left)
    sizes = sorted({run.group_size for run in runs})
    return (
        f"{simulation.paths.folder}\n{len(runs)} runs of {settings.steps:,} steps over "
        f"{settings.n_actions:,} actions, N from {sizes[0]:,} to {sizes[-1]:,}: "
        f"{len(runs) - len(left)} done, {len(left)} to make\nabout {seconds:.0f} processor "
        f"seconds, {seconds / workers:.0f} s with {workers} processes"
    )


def _make(simulation: Simulation, left: int, *, workers: int) -> None:
    """With a progress bar on a terminal, elsewhere a line now and then."""
    from tqdm import tqdm

    runs = len(simulation.runs)
    every = 0.2 if sys.stderr.isatty() else 10
    with tqdm(total=runs, initial=runs - left, unit="run", mininterval=every) as bar:
        make(simulation, workers=workers, tell=bar.update)


def finish(paths: RunPaths) -> None:
    """Sync to MLflow, a warning where it cannot be reached; write and print the report."""
    try:
        from fgrpo_bench.tracking.sync import sync_run

        print(sync_run(paths), flush=True)
    except Exception as error:  # whatever a server or its client may raise
        print(
            f"warning: MLflow was not synced ({type(error).__name__}: {error}); the results are "
            "safe in their files, and `make mlflow-ui` syncs again"
        )
    from fgrpo_bench.simulation.report import write_report

    report = write_report(paths)
    print(f"\n{report.text}")
    for path in report.files:
        print(path)


if __name__ == "__main__":
    sys.exit(main())
