"""Freeze a plan into its folder: sweep.json, plan.json and every spec.json.

In: a plan. Out: those files, or a refusal: an address (sweep, experiment, version) stands for one
set of settings, so a folder with results of other settings is refused, and so is one from which the
plan cannot go on. All conflicts are looked for before the first file is written.
Next: sweeps.local.drive or sweeps.slurm.drive, which run it.
"""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.core import registry
from fgrpo_bench.engines.engine import installed
from fgrpo_bench.files.paths import RunPaths, StagePaths, between, shared_data
from fgrpo_bench.files.spec import read_spec, read_spec_as
from fgrpo_bench.files.whole import (
    now,
    read_json,
    readable_json,
    readable_record,
    write_json,
    write_many,
)
from fgrpo_bench.kinds import Stage, fetch, train
from fgrpo_bench.specs import Declaration, to_dict
from fgrpo_bench.specs.fingerprint import differences
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.markers import Marker
from fgrpo_bench.stages.plan import (
    DeclaredFamily,
    SweepRecord,
    check_format,
    check_seal,
    declared_now,
    read_sweep,
)
from fgrpo_bench.stages.states import read_progress
from fgrpo_bench.stats.selection import saved_steps
from sweeps import REPOSITORY
from sweeps.plan import Plan, make_plan, plan_record


def check_conflicts(paths: RunPaths, plan: Plan) -> None:
    """ValueError that lists every field in which the folder's stages differ from the plan's; where
    the folder's files are of another format; and where sweep.json is not as it was frozen: what it
    records of the question would be believed."""
    check_format(paths)
    if paths.sweep_json.exists():
        check_seal(paths.sweep_json, read_json(paths.sweep_json))
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
    """ValueError where a run has saved a state from which this profile cannot resume."""
    engine = engines.engine_for(plan.declaration.experiment.train)
    for stage in plan.stages:
        stage_paths = StagePaths(paths.folder / stage.name)
        if stage.kind != train.NAME or stage_paths.done.exists():
            continue
        base = replace(stage.spec, stage=stage_paths).as_kind(TrainStageSpec)
        engine.check_state(
            stage_paths.folder, plan.declaration.profile, _weights_sha256(base.at(base.base))
        )


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
        stored = read_spec_as(TrainStageSpec, source).sweep_point.train
        planned = stages[stage.source].spec.as_kind(TrainStageSpec).sweep_point.train
        saved = saved_steps(steps=stored.steps, save_every=stored.save_every)
        if stage.step not in saved and _reached(source) >= stage.step:
            raise ValueError(
                f"{source.folder} left no checkpoint at step {stage.step}, since it was trained "
                f"with save_every={stored.save_every} and not {planned.save_every}, which trains "
                "nothing again: set experiment.train.save_every as it was, evaluate the last one "
                f"alone with experiment.checkpoints=last, or take version={next_version(paths)}"
            )


def _reached(stage: StagePaths) -> int:
    """The step that a run has got to; 0 where nothing tells."""
    record = readable_record(stage.done, Marker) if stage.done.exists() else read_progress(stage)
    return record.step or 0 if record is not None else 0


def _weights_sha256(base: StagePaths) -> str | None:
    """Of a base model; None where it is not there, or its marker is damaged and it will be made."""
    marker = readable_record(base.done, Marker)
    return None if marker is None else marker.weights_sha256


def _clashes(paths: StagePaths, stage: Stage) -> list[str]:
    if not paths.spec.exists():
        return []
    if readable_json(paths.spec) is None and not paths.owner.exists():
        return []  # cut short when the machine failed, before anything began: it is written again
    stored = read_spec(paths)
    if stored.fingerprint == stage.fingerprint:
        return []
    if stored.identity is None:
        return ["spec.json has no identity: it was changed by hand"]
    return [
        f"{field}: {old!r} there, {new!r} asked for"
        for field, old, new in differences(stored.identity, stage.spec.identity)
    ] or ["fingerprint: the identity is the same, so spec.json was changed by hand"]


def next_version(paths: RunPaths) -> str:
    """The first free name after this version, e.g. v2 after v1."""
    stem = paths.version.rstrip("0123456789")
    count = int(paths.version.removeprefix(stem) or 1)
    while (paths.folder.parent / f"{stem}{count + 1}").exists():
        count += 1
    return f"{stem}{count + 1}"


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
    """The plan of a declaration, and where its folder is; raises as `make_plan`, and where it
    cannot replicate the run that it names."""
    plan, paths = make_plan(declaration), run_paths(declaration)
    if (name := declaration.sweep.replicates) is not None:
        from fgrpo_bench.analysis import replication  # a tenth of a second, for Polars

        seeds = {point.seed for point in plan.points}
        replication.check_replicates(paths, name, family=plan.family, seeds=seeds)
    return plan, paths


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


def freeze(paths: RunPaths, plan: Plan, *, nothing_to_run: bool) -> None:
    """Write sweep.json, plan.json and every spec.json that does not say the same already, sealed.

    nothing_to_run: the results stand, so what made them (commit, versions) stays as recorded. What
    was declared first, and which families of comparisons since and when, stays recorded too.
    """
    before = read_sweep(paths) if paths.sweep_json.exists() else None
    declared: dict[str, Any] = {
        "declaration": stored_declaration(plan.declaration),
        "families": _families(paths, plan, () if before is None else before.families),
    }
    if before is None:
        record = SweepRecord(**declared, **provenance(), created=now())
    else:
        made_with = {} if nothing_to_run else provenance()
        record = replace(before, **declared, **made_with, further={})  # without the former seal
    plan_json = plan_record(plan)
    first = record.first or declared_now(record, plan_json)
    _write_if_other(paths.sweep_json, with_checksum(replace(record, first=first).as_json()))
    _share_data(paths, plan)
    _freeze_specs(paths, plan.stages)
    _write_if_other(paths.plan, with_checksum(plan_json.as_json()))


def stored_declaration(declaration: Declaration) -> dict[str, Any]:
    """What sweep.json has of a declaration: all but the run root, which is where the file stands,
    so that a run that is moved or sent to somebody names no folder of this machine."""
    return {key: value for key, value in to_dict(declaration).items() if key != "run_root"}


def _families(
    paths: RunPaths, plan: Plan, before: tuple[DeclaredFamily, ...]
) -> tuple[DeclaredFamily, ...]:
    """What was declared before, and what is declared now where that is something else."""
    declared = DeclaredFamily(
        declared=now(),
        family=plan.family.name,
        question=plan.declaration.sweep.question,
        comparisons=len(plan.family.comparisons),
        sha256=plan.family.sha256,
        trained=len(list(paths.folder.glob("*/DONE.json"))),  # base models and datasets lie deeper
    )
    if before:
        last = before[-1]
        if replace(declared, declared=last.declared, trained=last.trained) == last:
            return before
    return (*before, declared)


def _freeze_specs(paths: RunPaths, stages: Iterable[Stage]) -> None:
    """Write the spec.json of every stage that does not have it already."""
    changed: dict[str, str] = {}
    for stage in stages:
        spec = StagePaths(paths.folder / stage.name).spec
        content = with_checksum(stage.spec.as_json())
        if readable_json(spec) != content:
            changed[f"{stage.name}/{spec.name}"] = _a_line_a_field(content)
    write_many(paths.folder, changed)


def _share_data(paths: RunPaths, plan: Plan) -> None:
    """Let the sweep's datasets be those that all sweeps share, so that none is fetched twice."""
    for stage in plan.stages:
        link = paths.folder / stage.name
        if not fetch.is_shared(stage) or link.exists():
            continue
        shared = shared_data(paths.root, link.name, stage.fingerprint)
        shared.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(between(link.parent, shared), target_is_directory=True)


def _a_line_a_field(value: dict[str, Any]) -> str:
    """JSON; indenting every level takes ten times as long."""
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _write_if_other(path: Path, value: Any) -> None:
    """Write JSON unless the file says the same already."""
    if not path.exists() or read_json(path) != value:
        write_json(path, value)


def provenance() -> dict[str, Any]:
    """What made the results, apart from the settings, as fields of SweepRecord."""
    changed = _git("status", "--porcelain")
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": None if changed is None else bool(changed),
        "versions": {"python": platform.python_version(), **dict.fromkeys(RECORDED)}
        | installed(*RECORDED),
        "plugins": registry.record().get("plugins"),
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
