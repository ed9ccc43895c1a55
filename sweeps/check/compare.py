"""What `check` knows of a sweep: its stages, the records of their files, and these as they are.

In: plan.json, markers and notes, read here. Out: what is damaged beyond single files, and what
rests on it: pure functions of the markers and the report's provenance, which have a digest of every
file. Next: sweeps.check.examine, which reads and compares the files themselves.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
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
from fgrpo_bench.stages.digests import (
    Listed,
    checksum_mismatch,
    combined_sha256,
    is_edited,
    of_digests,
)
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.markers import Marker, is_done, is_of_last, read_marker
from fgrpo_bench.stages.plan import PointRecord, StageRecord

MARKER_FILE = "DONE.json"
SPEC_FILE = "spec.json"
REPORT = "report"
"""In place of a stage's name."""
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
        as_stored = readable_record(stage.done, Marker)
        outside = [name for name in as_stored.outputs if not is_below(name)] if as_stored else []
        fault = "cannot be read as a completion marker"
        if outside:
            fault = f"names {outside[0]!r}, which is outside its folder"
    else:
        if marker.fingerprint != record.fingerprint:
            fault = "is of another stage, or of other settings"
        elif checksum_mismatch(marker.as_json()):
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


def promised(stage: StoredStage) -> Iterator[RecordedFile]:
    """The files that a stage's marker lists; none of a stage that is at work or was begun again."""
    if stage.marker is None or stage.standing == "begun again":
        return
    for name, output in stage.marker.outputs.items():
        yield RecordedFile(of=stage.name, name=f"{stage.name}/{name}", listed=output)


def with_lost_markers(
    stages: Sequence[StoredStage], inputs: Mapping[str, str]
) -> list[StoredStage]:
    """The same stages; those that were done, or that others or the report were made from, and that
    have no marker, with that fault. inputs: of the report's provenance."""
    made_from: set[str | None] = {
        need for stage in stages if stage.marker is not None for need in stage.record.needs
    }
    made_from |= {_stage_of(name, {stage.name for stage in stages}) for name in inputs}
    marked = []
    for stage in stages:
        fault = Damage(of=stage.name, name=f"{stage.name}/{MARKER_FILE}", fault="is missing")
        is_lost = stage.marker is None and not stage.faults and not stage.at_work
        is_lost = is_lost and (stage.was_done or stage.name in made_from)
        marked.append(replace(stage, faults=(fault,)) if is_lost else stage)
    return marked


def _stage_of(name: str, stages: Collection[str]) -> str | None:
    """The stage in whose folder a file is; None where it is in none. name: path from the run's
    folder."""
    return next((str(p) for p in PurePosixPath(name).parents if str(p) in stages), None)


def in_provenance(
    inputs: Mapping[str, str], stages: Iterable[StoredStage]
) -> Iterator[RecordedFile]:
    """What a report's provenance has digests of, for stages whose markers are damaged or lost.

    inputs: digests by path from the run's folder.
    """
    by_name = {stage.name: stage for stage in stages}
    for name, listed in of_digests(inputs).items():
        of = _stage_of(name, by_name)
        if of is not None and by_name[of].marker is None and by_name[of].faults:
            yield RecordedFile(of=of, name=name, listed=listed)


def mislabelled(points: Iterable[PointRecord], stages: Iterable[StoredStage]) -> Iterator[Damage]:
    """Points of plan.json that are called other than their training runs are, or whose
    checkpoints are others' or of other steps."""
    by_name = {stage.name: stage for stage in stages}
    for point in points:
        claims = [*_called_otherwise(point, by_name), *_judged_otherwise(point, by_name)]
        for claim in claims:
            yield Damage(of=DECLARATION, name="plan.json", fault=f"{claim}: `run` writes it again")


def _called_otherwise(point: PointRecord, by_name: Mapping[str, StoredStage]) -> Iterator[str]:
    train = by_name.get(point.train)
    if train is None:
        yield f"names {point.train!r} of {point.point_id}, which is no stage that it lists"
        return
    for key, value in train.labels.items():
        said = getattr(point, key)
        if said != value:
            yield f"says {key} {said} of {point.point_id}, and its spec.json {value}"


def _judged_otherwise(point: PointRecord, by_name: Mapping[str, StoredStage]) -> Iterator[str]:
    for checkpoint in point.checkpoints:
        name, step = checkpoint.evaluate, checkpoint.step
        stage = by_name.get(name)
        if stage is None:
            yield f"names {name!r} of {point.point_id}, which is no stage that it lists"
        elif stage.source is not None and (stage.source, stage.step) != (point.train, step):
            actual = f"step {stage.step} of {stage.source}"
            yield f"says {name} is of step {step} of {point.train}, and its spec.json {actual}"


def of_other_weights(stages: Iterable[StoredStage]) -> Iterator[Damage]:
    """Results whose weights are no longer those that their source's marker has."""
    by_name = {stage.name: stage for stage in stages}
    for stage in by_name.values():
        source = by_name.get(stage.source or "")
        recorded = None if stage.marker is None else stage.marker.weights_sha256
        now = None if source is None else weights(source, step=stage.step)
        if source is not None and recorded is not None and now not in (None, recorded):
            fault = f"was made with other weights than {source.name} has now"
            yield from (Damage(of=stage.name, name=k.name, fault=fault) for k in promised(stage))


def weights(source: StoredStage, *, step: int) -> str | None:
    """Digest of a checkpoint by its stage's marker; None where that does not tell."""
    folder = StagePaths(Path(source.name)).checkpoint(step).as_posix()
    listed = {
        name.removeprefix(f"{folder}/"): known.listed.sha256
        for known in promised(source)
        for name in [known.name]
        if name.startswith(f"{folder}/") and name.endswith(".safetensors")
    }
    if listed:
        return combined_sha256(listed)
    marker = source.marker
    return None if marker is None or marker.step != step else marker.weights_sha256


def outdated(
    inputs: Mapping[str, str], known: Iterable[RecordedFile], damaged: Collection[str]
) -> Iterator[Damage]:
    """Where the report was made from other files than the stages' markers have, though these are
    whole. inputs: digests by name, of the provenance."""
    for file in known:
        recorded = file.listed.sha256
        if file.name not in damaged and inputs.get(file.name, recorded) != recorded:
            fault = f"was made from another {file.name}"
            yield Damage(of=REPORT, name=f"{REPORT}/provenance.json", fault=fault)


def resting(damage: Iterable[Damage], records: Sequence[StageRecord]) -> dict[str, list[str]]:
    """Stages and views that rest on what is damaged, by the damaged stage."""
    damaged = {fault.of for fault in damage}
    rests: dict[str, list[str]] = {}
    for record in records:
        if record.name not in damaged:
            continue
        reached = {record.name}
        for later in records:  # each after what it needs
            if reached.intersection(later.needs):
                reached.add(later.name)
        reached.remove(record.name)
        below = [later.name for later in records if later.name in reached]
        rests[record.name] = [*below, *VIEWS]
    return rests
