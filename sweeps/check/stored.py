"""What `check` knows of a sweep: its stages, the records of their files, and these as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from fgrpo_bench.files.paths import RunPaths, StagePaths, is_below
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.files.whole import readable_record
from fgrpo_bench.kinds import train
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.specs.cell import to_columns
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.attempts import Note
from fgrpo_bench.stages.digests import Listed, is_altered, is_edited
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.markers import Marker, is_done, is_of_last, read_marker
from fgrpo_bench.stages.plan import StageRecord

MARKER_FILE = "DONE.json"
SPEC_FILE = "spec.json"
REPORT = "report"
"""In place of a stage's name."""
SHARED_DRAWS = "shared draws"
"""In place of a stage's name, for what evaluations share under the run root."""
DECLARATION = "declaration"
"""In place of a stage's name, for sweep.json and plan.json."""
ANALYSIS = "analysis"
"""In place of a stage's name, for the stored frames."""
VIEWS = (REPORT, "MLflow")
"""What shows the results of all stages."""

Standing = Literal["done", "undone", "begun again"]


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """What the record of a file says: a stage's marker, or a report's provenance."""

    of: str
    """Name of the stage, or REPORT."""
    name: str
    """Path from the run's folder."""
    listed: Listed


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One damaged or missing file."""

    of: str
    """Name of the stage, or REPORT."""
    name: str
    """Path from the run's folder."""
    fault: str
    """For a person, e.g. `is missing`."""


@dataclass(frozen=True, kw_only=True)
class StoredStage:
    """A stage as its folder shows it."""

    record: StageRecord
    """Of plan.json."""
    standing: Standing
    marker: Marker | None
    """None where it has none, or none that can be believed."""
    faults: tuple[Damage, ...]
    """Of marker and spec.json."""
    was_done: bool = False
    """Whether somebody noted that it was done."""
    at_work: bool = False
    """Whether a process has it in hand."""
    is_foreign: bool = False
    """Whether its spec.json is whole and of another stage or other settings than the plan's."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Of a training run by its spec.json, as plan.json has them (PointRecord): its point_id, cell
    and seed."""
    source: str | None = None
    """Name of the stage whose checkpoint it took; None where it took none."""
    step: int = 0
    """Of that checkpoint."""

    @property
    def name(self) -> str:
        """Folder relative to the run's."""
        return self.record.name


def read_stage(paths: RunPaths, record: StageRecord, tried: Sequence[Note]) -> StoredStage:
    """Read a stage of plan.json. tried: the notes of all attempts at it."""
    name = record.name
    stage = StagePaths(paths.folder / name)
    standing: Standing = "undone"
    if is_done(stage, fingerprint=record.fingerprint, target=record.target):
        standing = "done"
    marker, faults = _marker(stage, record)
    at_work = is_locked(stage.lock)
    if marker is not None and (at_work or _is_begun_again(stage, marker)):
        standing = "begun again"
    spec = None
    with suppress(OSError, ValueError):
        spec = read_spec(stage)
    faults += _wrong_spec(stage, spec, record, needed=marker is not None)
    source = None if spec is None else spec.source
    is_labelled = spec is not None and _is_whole(spec) and spec.kind == train.NAME
    return StoredStage(
        record=record,
        standing=standing,
        marker=marker,
        faults=tuple(faults),
        was_done=bool(tried) and tried[-1].outcome == "done",
        at_work=at_work,
        is_foreign=spec is not None and _is_whole(spec) and not _is_planned(spec, record),
        labels=_labels(spec.of(TrainStageSpec).sweep_point) if spec and is_labelled else {},
        source=None if source is None else os.path.normpath(f"{name}/{source}"),
        step=0 if spec is None else spec.step or 0,
    )


def _marker(stage: StagePaths, record: StageRecord) -> tuple[Marker | None, list[Damage]]:
    """The marker, and why it cannot be believed; None where it cannot, or is not there."""
    if not stage.done.exists():
        return None, []
    try:
        marker = read_marker(stage)
    except ValueError:
        told = readable_record(stage.done, Marker)
        outside = [name for name in told.outputs if not is_below(name)] if told else []
        fault = "cannot be read as a completion marker"
        if outside:
            fault = f"names {outside[0]!r}, which is outside its folder"
    else:
        if marker.fingerprint != record.fingerprint:
            fault = "is of another stage, or of other settings"
        elif is_altered(marker.as_json()):
            fault = "was changed after it was written"
        else:
            return marker, []
    name = record.name
    return None, [Damage(of=name, name=f"{name}/{MARKER_FILE}", fault=fault)]


def _wrong_spec(
    stage: StagePaths, spec: StageSpec | None, record: StageRecord, *, needed: bool
) -> Iterator[Damage]:
    """needed: whether the stage is done, so that there must be one."""
    if spec is None:
        exists = stage.spec.exists()
        fault = "cannot be read as a spec" if exists else "is missing" if needed else None
    elif not _is_whole(spec):
        fault = "was changed after it was written"
    elif not _is_planned(spec, record):
        fault = "is of another stage, or of other settings"
    elif spec.target != record.target:
        fault = "has another target than the plan"
    else:
        return
    if fault is not None:
        yield Damage(of=record.name, name=f"{record.name}/{SPEC_FILE}", fault=fault)


def _is_whole(spec: StageSpec) -> bool:
    return fingerprint(spec.identity) == spec.fingerprint and not is_edited(spec.as_json())


def _is_planned(spec: StageSpec, record: StageRecord) -> bool:
    return (spec.fingerprint, spec.kind) == (record.fingerprint, record.kind)


def _labels(point: SweepPoint) -> dict[str, Any]:
    return {"point_id": point.point_id, **to_columns(point.cell), "seed": point.seed}


def _is_begun_again(stage: StagePaths, marker: Marker) -> bool:
    """Whether a process has begun the stage since, so that its files may be newer; an owner.json
    that cannot be read says nothing."""
    try:
        return not is_of_last(stage, marker)
    except ValueError:
        return False
