"""One stage of a sweep as its folder shows it, for `check`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fgrpo_bench.kinds import train
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.frozen import TrainStageSpec
from fgrpo_bench.stages.files import is_altered, is_edited, read_json
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.markers import is_done, is_of_last, read_marker
from fgrpo_bench.stages.paths import DataPaths, RunPaths, StagePaths
from fgrpo_bench.stages.shapes import SPEC
from fgrpo_bench.stages.states import Event, attempts
from sweeps.check.held import MARKER_FILE, SPEC_FILE, Damage, Held, Known, Standing

STORED = ("*.parquet", "*/*.parquet", "*/draws.json")
"""Results in a stage's folder, for a marker that lists nothing."""


def hold(paths: RunPaths, record: Mapping[str, Any], events: Sequence[Event]) -> Held:
    """Read a stage of plan.json. events: the ledger's about it."""
    name = record["name"]
    stage = StagePaths(paths.folder / name)
    standing: Standing = "undone"
    if is_done(stage, fingerprint=record["fingerprint"], target=record["target"]):
        standing = "done"
    marker, faults = _marker(stage, record)
    at_work = is_locked(stage.lock)
    if marker is not None and (at_work or _is_begun_again(stage, marker)):
        standing = "begun again"
    spec = _spec(stage)
    faults += _wrong_spec(stage, spec, record, needed=marker is not None)
    stored: list[str] = []
    of_before: list[Known] = []
    if "outputs" not in (marker or {}):
        there = (file for pattern in STORED for file in sorted(stage.folder.glob(pattern)))
        stored = [file.relative_to(paths.folder).as_posix() for file in there]
        of_before = list(_of_before(paths, stage, record, marker or {}))
    said = TrainStageSpec(stage, spec or {})
    source = said.path("source")
    is_labelled = spec is not None and _is_whole(spec) and spec["kind"] == train.NAME
    return Held(
        record=record,
        standing=standing,
        marker=marker,
        faults=tuple(faults),
        was_done=(bool(events) and events[-1].outcome == "done") or _noted_done(stage),
        at_work=at_work,
        is_foreign=spec is not None and _is_whole(spec) and not _is_planned(spec, record),
        seconds=_seconds(marker, events),
        labels=_labels(said.point) if is_labelled else {},
        source=None if source is None else os.path.normpath(f"{name}/{source}"),
        step=0 if source is None else said.step,
        stored=tuple(stored),
        of_before=tuple(of_before),
    )


def _marker(
    stage: StagePaths, record: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, list[Damage]]:
    """The marker, and why it cannot be believed; None where it cannot, or is not there."""
    if not stage.done.exists():
        return None, []
    try:
        marker = read_marker(stage)
    except ValueError:
        fault = "cannot be read as a completion marker"
    else:
        if marker["fingerprint"] != record["fingerprint"]:
            fault = "is of another stage, or of other settings"
        elif "outputs" in marker and is_altered(marker):
            fault = "was changed after it was written"
        else:
            return marker, []
    name = record["name"]
    return None, [Damage(of=name, name=f"{name}/{MARKER_FILE}", fault=fault)]


def _spec(stage: StagePaths) -> Mapping[str, Any] | None:
    """What spec.json says; None where it is not there or cannot be read."""
    try:
        spec: Mapping[str, Any] = read_json(stage.spec, SPEC)
    except (OSError, ValueError):
        return None
    return spec


def _wrong_spec(
    stage: StagePaths, spec: Mapping[str, Any] | None, record: Mapping[str, Any], *, needed: bool
) -> Iterator[Damage]:
    """needed: whether the stage is done, so that there must be one."""
    if spec is None:
        there = stage.spec.exists()
        fault = "cannot be read as a spec" if there else "is missing" if needed else None
    elif not _is_whole(spec):
        fault = "was changed after it was written"
    elif not _is_planned(spec, record):
        fault = "is of another stage, or of other settings"
    elif spec["target"] != record["target"]:
        fault = "has another target than the plan"
    else:
        return
    if fault is not None:
        yield Damage(of=record["name"], name=f"{record['name']}/{SPEC_FILE}", fault=fault)


def _is_whole(spec: Mapping[str, Any]) -> bool:
    same = fingerprint(spec.get("identity")) == spec["fingerprint"]
    return bool(same) and not is_edited(spec)


def _is_planned(spec: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return all(spec[key] == record[key] for key in ("fingerprint", "kind"))


def _labels(point: SweepPoint) -> dict[str, Any]:
    named = {key: getattr(point, key) for key in ("group_size", "focal_gamma", "seed")}
    return named | {"algorithm": point.algorithm.name}


def _seconds(marker: Mapping[str, Any] | None, events: Sequence[Event]) -> float | None:
    """Of all attempts that the ledger noted, else of the last one by its marker."""
    noted = [event.wall_seconds for event in events if event.wall_seconds is not None]
    told: float | None = (marker or {}).get("wall_seconds")
    return sum(noted) if noted else told


def _is_begun_again(stage: StagePaths, marker: Mapping[str, Any]) -> bool:
    """Whether a process has begun the stage since, so that its files may be newer; an owner.json
    that cannot be read says nothing."""
    try:
        return not is_of_last(stage, dict(marker))
    except ValueError:
        return False


def _noted_done(stage: StagePaths) -> bool:
    notes = attempts(stage)
    return bool(notes) and notes[-1].get("outcome") == "done"


def _of_before(
    paths: RunPaths, stage: StagePaths, record: Mapping[str, Any], marker: Mapping[str, Any]
) -> Iterator[Known]:
    """The few digests in markers of versions before: those of a dataset's table and of weights."""
    files, digest = [], marker.get("weights_sha256")
    if "step" in marker:
        files = sorted(stage.checkpoint(marker["step"]).glob("*.safetensors"))
    elif DataPaths(stage.folder).problems.exists():
        files, digest = [DataPaths(stage.folder).problems], marker.get("sha256")
    if digest is not None and len(files) == 1:  # of several files it is no file's
        name = files[0].relative_to(paths.folder).as_posix()
        yield Known(of=record["name"], name=name, sha256=digest)
