"""`check --repair`: move aside what is damaged, and have exactly that made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.kinds import Stage
from fgrpo_bench.report import provenance
from fgrpo_bench.report.build import FILES, write_report
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import address
from fgrpo_bench.specs import Declaration
from fgrpo_bench.specs.stored import from_stored
from fgrpo_bench.stages.files import read_json, set_aside
from fgrpo_bench.stages.locks import driving, locked
from fgrpo_bench.stages.markers import put_aside, read_marker
from fgrpo_bench.stages.paths import RunPaths, SharedPaths, StagePaths
from fgrpo_bench.stages.shapes import SWEEP
from sweeps.check import compare
from sweeps.check.examine import PROVENANCE, Examined
from sweeps.check.stored import ANALYSIS, DECLARATION, REPORT, SHARED_DRAWS, SPEC_FILE
from sweeps.commands import StageCommand, stage_command
from sweeps.freeze import freeze_specs
from sweeps.local import drive
from sweeps.local.drive import Finish, fetch_files
from sweeps.plan import Plan, make_plan
from sweeps.reporting import sync
from sweeps.status import on_slurm
from sweeps.text import counted, shown

Say = Callable[[str], None]
VIEWED = (REPORT, ANALYSIS)
"""Whose files whoever writes the report makes again."""


def repair(
    examined: Examined,
    *,
    say: Say,
    command: StageCommand = stage_command,
    finish: Finish | None = None,
) -> int:
    """Make again what is damaged, and nothing else; exit code as of `sweeps.local.drive.run`, and 0
    where SLURM has it in hand.

    finish: in place of writing the report as it was and syncing MLflow. Raises ValueError, before
    anything is moved, where that would make something else; BlockingIOError where the sweep is
    being run.
    """
    paths = examined.paths
    removed = {stage.name: compare.to_remove(stage, examined.damage) for stage in examined.stages}
    names = [name for name, files in removed.items() if files]
    _check_places(examined, removed)
    if {each.of for each in examined.damage} == {SHARED_DRAWS}:
        _put_shared_aside(examined, say)
        return 0
    declared = read_json(paths.sweep_json, SWEEP)["declaration"] | {"run_root": str(paths.root)}
    plan = make_plan(from_stored(Declaration, declared, paths.sweep_json))
    stages = _same_stages(examined, plan)
    finish = finish or _reporting(paths)
    _put_aside(examined, removed, say)
    freeze_specs(paths, stages)
    if names and on_slurm(paths):
        return _submit(plan, paths, names, command)
    code = drive.again(plan, paths, names, command=command, finish=finish)
    if code == 0:
        _tell_other_bytes(examined, names, say)
    return code


def _check_places(examined: Examined, removed: Mapping[str, Iterable[str]]) -> None:
    """ValueError for what cannot be mended by making it again."""
    paths = examined.paths
    for each in examined.damage:
        if each.of == DECLARATION:
            raise ValueError(f"{paths.folder / each.name} {each.fault}; nothing was moved")
    for stage in examined.stages:
        folder = paths.folder / stage.name
        if stage.is_foreign:
            raise ValueError(
                f"{folder} holds another stage, or one of other settings (were two folders "
                "swapped?): put it back where it belongs, or move it away; nothing was moved"
            )
        for name in removed[stage.name]:
            if not (paths.folder / name).resolve().is_relative_to(folder.resolve()):
                raise ValueError(
                    f"{paths.folder / name} stands in {(paths.folder / name).resolve().parent}, "
                    "which is not the sweep's: restore it there; nothing was moved"
                )


def _same_stages(examined: Examined, plan: Plan) -> list[Stage]:
    """The damaged stages; ValueError where this version of the program would make others."""
    damaged = {each.of for each in examined.damage}
    by_name = {stage.name: stage for stage in plan.stages}
    stages = []
    for stage in examined.stages:
        if stage.name not in damaged:
            continue
        planned = by_name.get(stage.name)
        if planned is None or any(
            getattr(planned, key) != stage.record[key] for key in ("fingerprint", "target", "kind")
        ):
            raise ValueError(
                f"this version of the program would not make {stage.name} again but something else "
                "(its recipe, a grader's version or its settings have changed since): repair with "
                f"the version that made it (git_commit in {examined.paths.sweep_json}), or have it "
                "made anew by `run`; nothing was moved"
            )
        stages.append(planned)
    return stages


def _put_aside(examined: Examined, removed: Mapping[str, Iterable[str]], say: Say) -> None:
    """Under the locks of driver and stages; BlockingIOError where one is held."""
    _put_shared_aside(examined, say)
    paths = examined.paths
    specs = {each.name for each in examined.damage if each.name.endswith(f"/{SPEC_FILE}")}
    with driving(paths):
        for stage in examined.stages:
            stage_paths = StagePaths(paths.folder / stage.name)
            names = sorted({*removed[stage.name], *specs & {f"{stage.name}/{SPEC_FILE}"}})
            existing = [name for name in names if (paths.folder / name).exists()]
            if not existing:
                continue
            with locked(stage_paths.lock, wait=False, what=f"stage {stage.name}"):
                for name in existing:
                    aside = put_aside(stage_paths, name.removeprefix(f"{stage.name}/"))
                    say(f"moved aside {name} -> {shown(aside)}")
        for name in sorted({each.name for each in examined.damage if each.of in VIEWED}):
            if (paths.folder / name).exists():
                into = paths.damaged / PurePosixPath(name).parent
                say(f"moved aside {name} -> {shown(set_aside(paths.folder / name, into))}")


def _put_shared_aside(examined: Examined, say: Say) -> None:
    """Under the entry's lock; BlockingIOError where somebody adds to it."""
    paths = examined.paths
    names = [each.name for each in examined.damage if each.of == SHARED_DRAWS]
    for entry in {SharedPaths((paths.folder / name).parent.resolve()) for name in names}:
        with locked(entry.lock, wait=False, what=f"shared draws {entry.folder.name[:12]}"):
            for file in (entry.facts, *sorted(entry.folder.glob("*.parquet"))):
                if file.exists():
                    aside = set_aside(file, entry.damaged)
                    say(f"moved aside {shown(file)} -> {shown(aside)}")


def _reporting(paths: RunPaths) -> Finish:
    """Writes the report as it was written last, as far as its provenance can be read."""
    try:
        known = provenance.read(paths.folder / PROVENANCE)
    except (OSError, ValueError):
        known = {}
    formats = [kind for kind, name in FILES.items() if name in known.get("files", FILES.values())]
    rule, beside = known.get("select", LAST), known.get("compare_paper", False)

    def finish(paths: RunPaths, say: Say) -> None:
        write_report(load_results(paths), rule, formats=formats, compare_paper=beside)
        say(f"wrote the report into {shown(paths.report)}")
        sync(paths, say)

    return finish


def _submit(plan: Plan, paths: RunPaths, names: list[str], command: StageCommand) -> int:
    from sweeps.slurm import drive as slurm

    with driving(paths):
        exit_code = fetch_files(plan, paths, command)
    if exit_code:
        return exit_code
    slurm.again(paths, names)
    print(
        f"`python -m sweeps follow {address(paths)}` watches it; the last job writes the report",
        flush=True,
    )
    return 0


def _tell_other_bytes(examined: Examined, names: Iterable[str], say: Say) -> None:
    """Whether what was made again is what was recorded before."""
    other, same = [], 0
    for stage in (stage for stage in examined.stages if stage.name in names):
        now = read_marker(StagePaths(examined.paths.folder / stage.name)).get("outputs", {})
        for known in compare.promised(stage):
            output = now.get(known.name.removeprefix(f"{stage.name}/"), {})
            is_same = output.get("sha256") == known.sha256
            same += is_same
            other += [] if is_same else [known.name]
    say(f"made again: {counted(same, 'file')} with the bytes that were recorded")
    for name in other:
        times = " (it holds times)" if name.endswith("/metrics.parquet") else ""
        say(f"made again with other bytes: {name}{times}")
