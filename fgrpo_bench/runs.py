"""Which runs there are under a root, and which is meant."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from fgrpo_bench.registry import meant
from fgrpo_bench.stages.paths import RunPaths


def default_root() -> Path:
    """Folder of all runs: FGRPO_RUN_ROOT, or `runs` here."""
    return Path(os.environ.get("FGRPO_RUN_ROOT", "runs"))


def find_runs(
    root: Path,
    sweep: str | None = None,
    *,
    experiment: str | None = None,
    version: str | None = None,
) -> list[RunPaths]:
    """Every planned run under a root, sorted by sweep, experiment and version; None is any."""
    return [
        RunPaths(root=root, sweep=name, experiment=parts[0], version=parts[1])
        for plan in sorted(root.glob("*/*/*/plan.json"))
        for name, *parts, _ in [plan.parts[-4:]]
        if sweep in (None, name) and experiment in (None, parts[0]) and version in (None, parts[1])
    ]


def address(paths: RunPaths, *, full: bool = False) -> str:
    """The words after a command of `python -m sweeps` that mean this run, for a shell, e.g.
    `smoke version=v2 run_root=/data/runs`.

    full: name experiment and version though the sweep has no other run under its root, as `run`
    needs them.
    """
    words = [paths.sweep]
    if full or len(find_runs(paths.root, paths.sweep)) > 1:
        words += [f"experiment={paths.experiment}", f"version={paths.version}"]
    if paths.root != default_root().absolute():
        words.append(shlex.quote(f"run_root={paths.root}"))
    return " ".join(words)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """--experiment, --version and --root, which with a sweep's name are what choose_run takes."""
    parser.add_argument("--experiment", help="which experiment, e.g. countdown")
    parser.add_argument("--version", help="which version, e.g. v1")
    parser.add_argument(
        "--root", type=Path, default=default_root(), help="folder of all runs (now: %(default)s)"
    )


def choose_run(
    root: Path, sweep: str, *, experiment: str | None = None, version: str | None = None
) -> RunPaths:
    """The one run that was meant; what is None may be anything.

    Several runs: the one with the experiment and version that conf/ gives the sweep by default.
    Raises FileNotFoundError where there is no such run and ValueError where several may be meant,
    both with a list.
    """
    runs = find_runs(root, sweep, experiment=experiment, version=version)
    if len(runs) > 1:
        usual = _usual(sweep)
        wanted = (experiment or usual[0], version or usual[1])
        runs = [run for run in runs if (run.experiment, run.version) == wanted] or runs
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise ValueError(
            f"sweep {sweep!r} has several runs under {root}: name one of\n" + _listed(runs)
        )
    others = [run for folder in sorted(root.glob("*/")) for run in find_runs(root, folder.name)]
    near = near_sweep(sweep, (run.sweep for run in others))
    start = sweep if sweep in _declared() else "<sweep>"
    known = f"; there are\n{_listed(others)}" if others else "; there is no run at all"
    named = " ".join(filter(None, [sweep, experiment, version]))
    raise FileNotFoundError(
        f"no run of {named}{near} under {root}: run `python -m sweeps run {start}` first, or name "
        f"another --root, --experiment or --version{known}"
    )


def _usual(sweep: str) -> tuple[str | None, str | None]:
    """Experiment and version that the sweep has by default; None where conf/ cannot be read."""
    from fgrpo_bench.specs.config import compose

    try:
        config = compose([f"sweep={sweep}"])
    except (ImportError, ValueError):  # no Hydra, or no conf/ beside an installed package
        return None, None
    return config["experiment"]["name"], config["version"]


def near_sweep(sweep: str, with_runs: Iterable[str]) -> str:
    """What a refusal adds to the name of a sweep without runs: the one that was meant; empty for a
    declared one. with_runs: sweeps with runs."""
    declared = _declared()
    return "" if sweep in declared else meant(sweep, declared.union(with_runs))


def _declared() -> set[str]:
    """The sweeps of conf/; none beside an installed package."""
    from fgrpo_bench.specs.config import options

    return set(options("sweep"))


def _listed(runs: Sequence[RunPaths]) -> str:
    return "\n".join(
        f"  {run.sweep} --experiment {run.experiment} --version {run.version}" for run in runs
    )
