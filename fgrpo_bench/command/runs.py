"""Which runs there are under a root, and which is meant."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from fgrpo_bench.core.commandline import INSTALLED
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.files.paths import EVALUATIONS, TOGETHER, RunPaths


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
    chosen = sweep, experiment, version
    runs = []
    for plan in sorted(root.glob("*/*/*/plan.json")):
        names = plan.parts[-4:-1]
        if all(given in (None, name) for given, name in zip(chosen, names, strict=True)):
            runs.append(RunPaths(root=root, sweep=names[0], experiment=names[1], version=names[2]))
    return runs


def tracked(root: Path) -> list[RunPaths]:
    """What views have of a root: every run, and one address for all evaluations without a sweep,
    where there are some."""
    alone = RunPaths(root=root, sweep=EVALUATIONS, experiment=EVALUATIONS, version=TOGETHER)
    has_some = any(root.glob(f"{EVALUATIONS}/*/eval/*/*/DONE.json"))
    return [*find_runs(root), *([alone] if has_some else [])]


RUN_HELP = "which run: sweep[/experiment[/version]], e.g. groupsize/countdown/v1"
ROOT_HELP = "folder of all runs (default: FGRPO_RUN_ROOT, or runs)"


def split_name(
    name: str, *, experiment: str | None = None, version: str | None = None
) -> tuple[str, str | None, str | None]:
    """Sweep, experiment and version of `sweep[/experiment[/version]]`; None where one is not named.

    experiment, version: as they are named elsewhere. ValueError for a name of another form, and for
    a part that is named twice and differs.
    """
    sweep, *parts = name.split("/")
    if len(parts) > 2 or not all([sweep, *parts]):
        raise ValueError(
            f"{name!r} names no run: write sweep[/experiment[/version]], e.g. "
            "groupsize/countdown/v1"
        )
    for key, inner, other in zip(
        ("experiment", "version"), [*parts, None, None], (experiment, version), strict=False
    ):
        if inner is not None and other not in (None, inner):
            raise ValueError(f"{name} and {key}={other} name two: leave one out")
    in_name = [*parts, None, None]
    return sweep, in_name[0] or experiment, in_name[1] or version


def address(paths: RunPaths, *, full: bool = False) -> str:
    """The words after a command of `fgrpo-bench sweep` that mean this run, for a shell, e.g.
    `smoke/countdown-tiny/v2 run_root=/data/runs`.

    full: name experiment and version though the sweep has no other run under its root, as `run`
    needs them.
    """
    parts = [paths.sweep]
    if full or len(find_runs(paths.root, paths.sweep)) > 1:
        parts = [run_address(paths)]
    if paths.root != default_root().absolute():
        parts.append(shlex.quote(f"run_root={paths.root}"))
    return " ".join(parts)


def run_address(paths: RunPaths) -> str:
    """sweep/experiment/version of a run."""
    return f"{paths.sweep}/{paths.experiment}/{paths.version}"


def choose_run(
    root: Path, name: str, *, experiment: str | None = None, version: str | None = None
) -> RunPaths:
    """The one run that was meant; what is None may be anything.

    name: sweep[/experiment[/version]]. Several runs: the one with the experiment and version that
    conf/ gives the sweep by default. Raises FileNotFoundError where there is no such run and
    ValueError where several may be meant, both with a list, and for a name that is none.
    """
    sweep, experiment, version = split_name(name, experiment=experiment, version=version)
    runs = find_runs(root, sweep, experiment=experiment, version=version)
    if len(runs) > 1:
        usual = _usual(sweep)
        preferred = (experiment or usual[0], version or usual[1])
        runs = [run for run in runs if (run.experiment, run.version) == preferred] or runs
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise ValueError(
            f"sweep {sweep!r} has several runs under {root}: name one of\n" + _listed(runs)
        )
    others = [run for folder in sorted(root.glob("*/")) for run in find_runs(root, folder.name)]
    start = sweep if sweep in _declared() else "<sweep>"
    listing = f"; there are\n{_listed(others)}" if others else "; there is no run at all"
    pattern = "/".join([sweep, *filter(None, [experiment or (version and "*"), version])])
    depth = pattern.count("/") + 1
    near = "" if depth == 1 else suggestion(pattern, (_start(run, depth) for run in others))
    near = near or _near_sweep(sweep, (run.sweep for run in others))
    remedy = (
        f"run `fgrpo-bench sweep run {start}` first, or name another run or folder of runs "
        "(run_root=<folder> of `sweep`, --root of others)"
    )
    if INSTALLED:
        remedy = (
            "name another run, or with --root the folder of runs of a checkout of fgrpo-bench, "
            "where sweeps run"
        )
    raise FileNotFoundError(f"no run of {pattern}{near} under {root}: {remedy}{listing}")


def _start(run: RunPaths, depth: int) -> str:
    """The first so many parts of a run's name."""
    return "/".join(run_address(run).split("/")[:depth])


def complete_run(incomplete: str) -> list[str]:
    """What the name of a run that is there can go on with, for the Tab key: sweeps, then whole
    names."""
    runs = find_runs(default_root())
    names = [run_address(run) if "/" in incomplete else run.sweep for run in runs]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _usual(sweep: str) -> tuple[str | None, str | None]:
    """Experiment and version that the sweep has by default; None where conf/ cannot be read."""
    from fgrpo_bench.specs.config import compose

    try:
        config = compose([f"sweep={sweep}"])
    except (ImportError, ValueError):  # no Hydra, or a conf/ that cannot be read
        return None, None
    return config["experiment"]["name"], config["version"]


def _near_sweep(sweep: str, with_runs: Iterable[str]) -> str:
    """What a refusal adds to the name of a sweep without runs: the one that was meant; empty for a
    declared one. with_runs: sweeps with runs."""
    declared = _declared()
    return "" if sweep in declared else suggestion(sweep, declared.union(with_runs))


def _declared() -> set[str]:
    """The sweeps of conf/."""
    from fgrpo_bench.specs.config import option_names

    return set(option_names("sweep"))


def _listed(runs: Sequence[RunPaths]) -> str:
    return "\n".join(f"  {run_address(run)}" for run in runs)
