"""Freezing a plan into its folder, and refusing a folder that holds results of other settings.

An address (sweep, experiment, version) stands for one set of settings. All conflicts are looked
for before the first file is written.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fgrpo_bench import doors, engines
from fgrpo_bench.kinds import KINDS, Stage, fetch, train
from fgrpo_bench.specs import Declaration, to_dict
from fgrpo_bench.specs.fingerprint import differences, reduced
from fgrpo_bench.specs.frozen import TrainStageSpec
from fgrpo_bench.stages.files import now, read_json, sealed, write_json, write_many
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.paths import RunPaths, StagePaths, shared_data
from fgrpo_bench.stages.states import read_progress
from fgrpo_bench.stats.selection import saved_steps
from sweeps.commands import REPOSITORY
from sweeps.former import read_former
from sweeps.plan import Plan, make_plan, plan_record

RECORDED = ("numpy", "polars", "pydantic", "torch", "safetensors", "hydra-core", "mlflow")
"""Packages whose versions sweep.json records."""


def run_paths(declaration: Declaration) -> RunPaths:
    """Where a declaration's files stand; absolute, because stages run in another folder."""
    return RunPaths(
        root=Path(declaration.run_root).absolute(),
        sweep=declaration.sweep.name,
        experiment=declaration.experiment.name,
        version=declaration.version,
    )


def plan_over(declaration: Declaration) -> tuple[Plan, RunPaths]:
    """The plan of a declaration over what stands in its folder, and where that is; raises as
    `make_plan`."""
    paths = run_paths(declaration)
    return make_plan(declaration, partial(read_former, paths)), paths


def check_writable(paths: RunPaths) -> None:
    """Make the sweep's folder; OSError with the remedy where nothing can be written there."""
    try:
        paths.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=paths.folder):
            pass
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write under the run root {paths.root} ({error.strerror}: {error.filename}): "
            "name a folder that you may write, with run_root=<folder> or FGRPO_RUN_ROOT=<folder>",
        ) from error


def check_conflicts(paths: RunPaths, plan: Plan) -> None:
    """ValueError that lists every field in which the folder's stages differ from the plan's."""
    clashes: dict[str, list[str]] = defaultdict(list)
    clashing: set[str] = set()
    for stage in plan.stages:
        if clashing.intersection(stage.needs):
            continue  # differs because what it needs differs
        for clash in _clashes(StagePaths(paths.folder / stage.name), stage):
            clashes[clash].append(stage.name)
            clashing.add(stage.name)
    if clashes:
        lines = (
            f"  {clash}  ({first}" + (f" and {len(more)} more)" if more else ")")
            for clash, (first, *more) in clashes.items()
        )
        raise ValueError(
            f"{paths.folder} holds stages of other settings:\n" + "\n".join(lines) + "\n"
            "results of two settings under one address could not be told apart; keep both with "
            f"version={next_version(paths)}, or restore the values"
        )
    _check_states(paths, plan)
    _check_checkpoints(paths, plan)


def _check_states(paths: RunPaths, plan: Plan) -> None:
    """ValueError where a run has saved a state from which this profile cannot go on."""
    engine = engines.of(plan.declaration.experiment.train)
    for stage in plan.stages:
        own = StagePaths(paths.folder / stage.name)
        if stage.kind != train.NAME or own.done.exists():
            continue
        base = TrainStageSpec(own, stage.spec).base
        engine.check_state(own.folder, plan.declaration.profile, _weights_sha256(base))


def _check_checkpoints(paths: RunPaths, plan: Plan) -> None:
    """ValueError where a checkpoint is asked for that a run has passed without leaving it. When
    checkpoints are saved is no identity, so that such a run is not trained again."""
    stages = {stage.name: stage for stage in plan.stages}
    for stage in plan.stages:
        if not stage.step or stage.source is None:
            continue
        source = StagePaths(paths.folder / stage.source)
        if source.checkpoint(stage.step).exists() or not source.owner.exists():
            continue
        stored = TrainStageSpec(source, _frozen(source.spec) or {}).point.train
        wanted = TrainStageSpec(source, stages[stage.source].spec).point.train
        saved = saved_steps(steps=stored.steps, save_every=stored.save_every)
        if stage.step not in saved and _reached(source) >= stage.step:
            raise ValueError(
                f"{source.folder} left no checkpoint at step {stage.step}, since it was trained "
                f"with save_every={stored.save_every} and not {wanted.save_every}, which trains "
                "nothing again: set experiment.train.save_every as it was, evaluate the last one "
                f"alone with experiment.checkpoints=last, or take version={next_version(paths)}"
            )


def _reached(stage: StagePaths) -> int:
    """The step that a run has got to; 0 where nothing tells."""
    try:
        told = read_marker(stage) if stage.done.exists() else read_progress(stage)
    except ValueError:
        return 0
    return int(told.get("step", 0))


def _weights_sha256(base: StagePaths) -> str | None:
    """Of a base model; None where it is not there, or its marker is damaged and it will be made."""
    try:
        return read_marker(base).get("weights_sha256")
    except (FileNotFoundError, ValueError):
        return None


def _clashes(paths: StagePaths, stage: Stage) -> list[str]:
    if not paths.spec.exists():
        return []
    frozen = _frozen(paths.spec)
    if frozen is None and not paths.owner.exists():
        return []  # cut short when the machine failed, before anything began: it is written again
    frozen = read_json(paths.spec)
    if not {"fingerprint", "identity"} <= frozen.keys():
        return [
            "spec.json has no fingerprint and identity: another version of this program wrote it"
        ]
    if frozen["fingerprint"] == stage.fingerprint:
        return []
    there = reduced(frozen["identity"], KINDS[stage.kind].undefining)
    return [
        f"{field}: {old!r} there, {new!r} asked for"
        for field, old, new in differences(there, stage.spec["identity"])
    ] or ["fingerprint: the identity is the same, so spec.json was changed by hand"]


def next_version(paths: RunPaths) -> str:
    """The first free name after this version, e.g. v2 after v1."""
    stem = paths.version.rstrip("0123456789")
    count = int(paths.version.removeprefix(stem) or 1)
    while (paths.folder.parent / f"{stem}{count + 1}").exists():
        count += 1
    return f"{stem}{count + 1}"


def freeze(paths: RunPaths, plan: Plan, *, nothing_to_run: bool) -> None:
    """Write sweep.json, plan.json and every spec.json that does not say the same already.

    nothing_to_run: the results stand, so what made them (commit, versions) stays as recorded.
    """
    recorded = read_json(paths.sweep_json) if paths.sweep_json.exists() else {}
    if not (nothing_to_run and recorded):
        recorded = provenance() | {"created": recorded.get("created", now())}
    write_if_other(
        paths.sweep_json,
        {"declaration": to_dict(plan.declaration)}
        | {key: value for key, value in recorded.items() if key != "declaration"},
    )
    _share_data(paths, plan)
    freeze_specs(paths, plan.stages)
    write_if_other(paths.plan, plan_record(plan))


def freeze_specs(paths: RunPaths, stages: Iterable[Stage]) -> None:
    """Write the spec.json of every stage that does not have it already."""
    wanted: dict[str, str] = {}
    for stage in stages:
        spec = StagePaths(paths.folder / stage.name).spec
        content = sealed(stage.spec)
        if _frozen(spec) != content:
            wanted[f"{stage.name}/{spec.name}"] = _a_line_a_field(content)
    write_many(paths.folder, wanted)


def _share_data(paths: RunPaths, plan: Plan) -> None:
    """Let the sweep's datasets be those that all sweeps share, so that none is fetched twice."""
    for stage in plan.stages:
        own = paths.folder / stage.name
        if not fetch.is_shared(stage) or own.exists():
            continue
        shared = shared_data(paths.root, own.name, stage.fingerprint)
        shared.mkdir(parents=True, exist_ok=True)
        own.parent.mkdir(parents=True, exist_ok=True)
        own.unlink(missing_ok=True)
        own.symlink_to(os.path.relpath(shared, own.parent), target_is_directory=True)


def _frozen(spec: Path) -> Any:
    """What a spec.json says; None where there is none, or none that can be read."""
    try:
        return read_json(spec)
    except (FileNotFoundError, ValueError):
        return None


def _a_line_a_field(value: dict[str, Any]) -> str:
    """JSON; indenting every level takes ten times as long."""
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_if_other(path: Path, value: Any) -> None:
    """Write JSON unless the file says the same already."""
    if not path.exists() or read_json(path) != value:
        write_json(path, value)


def provenance() -> dict[str, Any]:
    """What made the results, apart from the settings; git fields are None outside a checkout."""
    changed = _git("status", "--porcelain")
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": None if changed is None else bool(changed),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in RECORDED},
        **doors.record(),
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
