"""`check --repair`: what is damaged is moved aside, and `run` makes again what is missing then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.analysis.results import read_declared
from fgrpo_bench.files.paths import SharedPaths, StagePaths
from fgrpo_bench.files.whole import quarantine
from fgrpo_bench.specs import Declaration
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.locks import driving, locked
from fgrpo_bench.stages.markers import quarantine_output
from sweeps.check.examine import Examined
from sweeps.check.stored import ANALYSIS, DECLARATION, REPORT, SHARED_DRAWS
from sweeps.reporting import finish
from sweeps.text import shown

Say = Callable[[str], None]


def repair(examined: Examined, *, say: Say, run: Callable[[Declaration], int]) -> int:
    """Move every damaged file into a folder `damaged`, and have made again what is missing then;
    exit code as of `run`, which is given what the sweep was run with.

    Where stages lack nothing, report and MLflow are written here. Raises ValueError, before
    anything is moved, where making a file again would not mend it; BlockingIOError where it is
    being run.
    """
    paths, of = examined.paths, {each.of for each in examined.damage}
    _check_places(examined)
    _put_shared_aside(examined, say)
    if of == {SHARED_DRAWS}:
        return 0  # the sweep has these draws as well
    _quarantine_outputs(examined, say)
    if of <= {REPORT, ANALYSIS, SHARED_DRAWS}:
        finish(paths, say)
        return 0
    declared = read_declared(paths).declaration | {"run_root": str(paths.root)}
    return run(from_stored(Declaration, declared, paths.sweep_json))


def _check_places(examined: Examined) -> None:
    """ValueError for what cannot be mended by making it again."""
    folder = examined.paths.folder
    foreign = {stage.name for stage in examined.stages if stage.is_foreign}
    for each in examined.damage:
        at = Path(os.path.realpath(folder / each.name))  # of a loop of links, too
        if each.of == DECLARATION:
            raise ValueError(f"{folder / each.name} {each.fault}; nothing was moved")
        if each.of in foreign:
            raise ValueError(
                f"{folder / each.of} holds another stage, or one of other settings (were two "
                "folders swapped?): put it back where it belongs, or move it away; nothing was "
                "moved"
            )
        if each.of != SHARED_DRAWS and not at.is_relative_to((folder / each.of).resolve()):
            raise ValueError(
                f"{folder / each.name} stands in {at.parent}, which is not the sweep's: restore it "
                "there; nothing was moved"
            )


def _put_shared_aside(examined: Examined, say: Say) -> None:
    """Under the entry's lock; BlockingIOError where somebody adds to it."""
    names = [each.name for each in examined.damage if each.of == SHARED_DRAWS]
    entries = {(examined.paths.folder / name).parent.resolve() for name in names}
    for entry in map(SharedPaths, sorted(entries)):
        with locked(entry.lock, wait=False, what=f"shared draws {entry.folder.name[:12]}"):
            for file in (entry.facts, *sorted(entry.folder.glob("*.parquet"))):
                if file.exists():
                    say(f"moved aside {shown(file)} -> {shown(quarantine(file, entry.damaged))}")


def _quarantine_outputs(examined: Examined, say: Say) -> None:
    """Under the locks of driver and stages; BlockingIOError where one is held."""
    paths, stages = examined.paths, {stage.name for stage in examined.stages}
    with driving(paths):
        for each in examined.damage:
            path = paths.folder / each.name
            if each.of == SHARED_DRAWS or not os.path.lexists(path):
                continue
            if each.of in stages:
                stage = StagePaths(paths.folder / each.of)
                with locked(stage.lock, wait=False, what=f"stage {each.of}"):
                    aside = quarantine_output(stage, each.name.removeprefix(f"{each.of}/"))
            else:  # of the report or the analysis
                aside = quarantine(path, (paths.damaged / each.name).parent)
            say(f"moved aside {each.name} -> {shown(aside)}")
