"""`check --repair`: move aside what is damaged, and have exactly that made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import PurePosixPath

from fgrpo_bench.kinds import Stage
from fgrpo_bench.report import provenance
from fgrpo_bench.report.build import FILES, write_report
from fgrpo_bench.report.selected import LAST, select
from fgrpo_bench.results import load_results
from fgrpo_bench.simulation.plan import is_simulation
from fgrpo_bench.specs import Declaration
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.files import read_json, set_aside
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import put_aside, read_marker
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.shapes import SWEEP
from sweeps import drive
from sweeps.check import judge
from sweeps.check.examine import PROVENANCE, Examined
from sweeps.check.held import DECLARATION, REPORT, SPEC_FILE
from sweeps.commands import StageCommand, stage_command
from sweeps.drive import Finish
from sweeps.finish import shown, sync
from sweeps.former import read_former
from sweeps.freeze import freeze_specs
from sweeps.plan import Plan, make_plan
from sweeps.status import on_slurm
from sweeps.text import counted

Say = Callable[[str], None]


def repair(
    found: Examined,
    *,
    say: Say,
    command: StageCommand = stage_command,
    finish: Finish | None = None,
) -> int:
    """Make again what is damaged, and nothing else; exit code as of `sweeps.drive.run`, and 0 where
    SLURM has it in hand.

    finish: in place of writing the report as it was and syncing MLflow. Raises ValueError, before
    anything is moved, where that would make something else; BlockingIOError where the sweep is
    being run.
    """
    paths = found.paths
    removed = {held.name: judge.to_remove(held, found.damage) for held in found.held}
    names = [name for name, files in removed.items() if files]
    _check_places(found, removed)
    if is_simulation(paths):
        _put_aside(found, removed, say)
        say("now `python -m fgrpo_bench.simulation` makes again what is missing")
        return 1
    declared = read_json(paths.sweep_json, SWEEP)["declaration"]
    plan = make_plan(
        from_stored(Declaration, declared, paths.sweep_json), partial(read_former, paths)
    )
    stages = _same_stages(found, plan)
    finish = finish or _reporting(paths)
    _put_aside(found, removed, say)
    freeze_specs(paths, stages)
    if names and on_slurm(paths):
        return _submit(plan, paths, names, command)
    code = drive.again(plan, paths, names, command=command, finish=finish)
    if code == 0:
        _tell_other_bytes(found, names, say)
    return code


def _check_places(found: Examined, removed: Mapping[str, Iterable[str]]) -> None:
    """ValueError for what cannot be mended by making it again."""
    paths = found.paths
    for each in found.damage:
        if each.of == DECLARATION:
            raise ValueError(f"{paths.folder / each.name} {each.fault}; nothing was moved")
    for held in found.held:
        folder = paths.folder / held.name
        if held.is_foreign:
            raise ValueError(
                f"{folder} holds another stage, or one of other settings (were two folders "
                "swapped?): put it back where it belongs, or move it away; nothing was moved"
            )
        for name in removed[held.name]:
            if not (paths.folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError(
                    f"{paths.folder / name} stands in {(paths.folder / name).resolve().parent}, "
                    "which is not the sweep's: restore it there; nothing was moved"
                )


def _same_stages(found: Examined, plan: Plan) -> list[Stage]:
    """The damaged stages; ValueError where this version of the program would make others."""
    damaged = {each.of for each in found.damage}
    by_name = {stage.name: stage for stage in plan.stages}
    stages = []
    for held in found.held:
        if held.name not in damaged:
            continue
        stage = by_name.get(held.name)
        if stage is None or any(
            getattr(stage, key) != held.record[key] for key in ("fingerprint", "target", "kind")
        ):
            raise ValueError(
                f"this version of the program would not make {held.name} again but something else "
                "(its recipe, a grader's version or its settings have changed since): repair with "
                f"the version that made it (git_commit in {found.paths.sweep_json}), or have it "
                "made anew by `run`; nothing was moved"
            )
        stages.append(stage)
    return stages


def _put_aside(found: Examined, removed: Mapping[str, Iterable[str]], say: Say) -> None:
    """Under the locks of driver and stages; BlockingIOError where one is held."""
    paths = found.paths
    specs = {each.name for each in found.damage if each.name.endswith(f"/{SPEC_FILE}")}
    what = f"sweep {paths.sweep} experiment={paths.experiment} version={paths.version}"
    with locked(paths.driver_lock, wait=False, what=what):
        for held in found.held:
            stage = StagePaths(paths.folder / held.name)
            names = sorted({*removed[held.name], *specs & {f"{held.name}/{SPEC_FILE}"}})
            there = [name for name in names if (paths.folder / name).exists()]
            if not there:
                continue
            with locked(stage.lock, wait=False, what=f"stage {held.name}"):
                for name in there:
                    aside = put_aside(stage, name.removeprefix(f"{held.name}/"))
                    say(f"moved aside {name} -> {shown(aside)}")
        for name in sorted({each.name for each in found.damage if each.of == REPORT}):
            if (paths.folder / name).exists():
                into = paths.damaged / PurePosixPath(name).parent
                say(f"moved aside {name} -> {shown(set_aside(paths.folder / name, into))}")


def _reporting(paths: RunPaths) -> Finish:
    """Writes the report as it was written last, as far as its provenance can be read."""
    try:
        known = provenance.read(paths.folder / PROVENANCE)
    except (OSError, ValueError):
        known = {}
    formats = [kind for kind, name in FILES.items() if name in known.get("files", FILES.values())]
    rule, beside = known.get("select", LAST), known.get("compare_paper", False)

    def finish(paths: RunPaths, say: Say) -> None:
        results = select(load_results(paths), rule)
        write_report(results, formats=formats, compare_paper=beside)
        say(f"wrote the report into {shown(paths.report)}")
        sync(paths, say)

    return finish


def _submit(plan: Plan, paths: RunPaths, names: list[str], command: StageCommand) -> int:
    from sweeps.slurm import drive as slurm
    from sweeps.slurm.fetch import fetch_files

    fetch_files(plan, paths, command)
    slurm.again(paths, names)
    print(
        f"`python -m sweeps follow {paths.sweep}` watches it; the last job writes the report",
        flush=True,
    )
    return 0


def _tell_other_bytes(found: Examined, names: Iterable[str], say: Say) -> None:
    """Whether what was made again is what was recorded before."""
    other, same = [], 0
    for held in (held for held in found.held if held.name in names):
        now = read_marker(StagePaths(found.paths.folder / held.name)).get("outputs", {})
        for known in judge.promised(held):
            output = now.get(known.name.removeprefix(f"{held.name}/"), {})
            is_same = output.get("sha256") == known.sha256
            same += is_same
            other += [] if is_same else [known.name]
    say(f"made again: {counted(same, 'file')} with the bytes that were recorded")
    for name in other:
        times = " (it holds times)" if name.endswith("/metrics.parquet") else ""
        say(f"made again with other bytes: {name}{times}")
