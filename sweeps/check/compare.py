"""What is damaged in a sweep beyond single files, and what rests on it: pure functions of the
markers and the provenance, which have a digest of every file; `sweeps.check.examine` reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.stages.digests import combined_sha256, of_digests
from fgrpo_bench.stages.plan import PointRecord, StageRecord
from sweeps.check.stored import (
    DECLARATION,
    MARKER_FILE,
    REPORT,
    VIEWS,
    Damage,
    RecordedFile,
    StoredStage,
)


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
    for each in known:
        recorded = each.listed.sha256
        if each.name not in damaged and inputs.get(each.name, recorded) != recorded:
            fault = f"was made from another {each.name}"
            yield Damage(of=REPORT, name=f"{REPORT}/provenance.json", fault=fault)


def resting(damage: Iterable[Damage], records: Sequence[StageRecord]) -> dict[str, list[str]]:
    """Stages and views that rest on what is damaged, by the damaged stage."""
    damaged = {each.of for each in damage}
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
