"""Refusing a folder that holds results of other settings, or from which a plan cannot go on.

An address (sweep, experiment, version) stands for one set of settings. All conflicts are looked
for before the first file is written.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from fgrpo_bench import engines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.spec import read_spec, read_spec_of
from fgrpo_bench.files.whole import read_json, readable_json, readable_record
from fgrpo_bench.kinds import Stage, train
from fgrpo_bench.specs.fingerprint import differences
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.digests import is_altered
from fgrpo_bench.stages.markers import Marker
from fgrpo_bench.stages.plan import check_format
from fgrpo_bench.stages.states import read_progress
from fgrpo_bench.stats.selection import saved_steps
from sweeps.plan import Plan

UNSEALED = (
    "was changed after it was frozen, or lost its seal: put back what it said (another question is "
    "declared on the command line), or delete it: `run` then writes it anew, and the report says "
    "that what was declared before is not recorded"
)
"""What is wrong with an edited sweep.json, and what to do."""


def check_conflicts(paths: RunPaths, plan: Plan) -> None:
    """ValueError that lists every field in which the folder's stages differ from the plan's; where
    the folder's files are of another format; and where sweep.json is not as it was frozen: what it
    records of the question would be believed."""
    check_format(paths)
    _check_seal(paths)
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


def _check_seal(paths: RunPaths) -> None:
    """plan.json needs none: it is written anew of the declaration, whatever it says."""
    if paths.sweep_json.exists() and is_altered(read_json(paths.sweep_json)):
        raise ValueError(f"{paths.sweep_json} {UNSEALED}")


def _check_states(paths: RunPaths, plan: Plan) -> None:
    """ValueError where a run has saved a state from which this profile cannot go on."""
    engine = engines.of(plan.declaration.experiment.train)
    for stage in plan.stages:
        own = StagePaths(paths.folder / stage.name)
        if stage.kind != train.NAME or own.done.exists():
            continue
        base = replace(stage.spec, stage=own).of(TrainStageSpec)
        engine.check_state(
            own.folder, plan.declaration.profile, _weights_sha256(base.at(base.base))
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
        stored = read_spec_of(TrainStageSpec, source).sweep_point.train
        wanted = stages[stage.source].spec.of(TrainStageSpec).sweep_point.train
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
    told = readable_record(stage.done, Marker) if stage.done.exists() else read_progress(stage)
    return told.step or 0 if told is not None else 0


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
