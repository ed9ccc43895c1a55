"""What is damaged in a sweep, what rests on it, and what would be made again: pure functions of the
markers and the provenance, which have a digest of every file.

`sweeps.check.examine` reads them, `sweeps.check.repair` makes again what is damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from fgrpo_bench.specs.cell import COLUMNS
from fgrpo_bench.stages.digests import combined_sha256
from fgrpo_bench.stages.paths import StagePaths
from sweeps.check.stored import (
    DECLARATION,
    MARKER_FILE,
    REPORT,
    SPEC_FILE,
    VIEWS,
    Damage,
    RecordedFile,
    StoredStage,
)


def promised(stage: StoredStage) -> Iterator[RecordedFile]:
    """The files that a stage's marker lists; none of a stage that is at work or was begun again."""
    if stage.marker is None or stage.standing == "begun again":
        return
    for name, output in stage.marker.get("outputs", {}).items():
        path = f"{stage.name}/{name}"
        yield RecordedFile(of=stage.name, name=path, sha256=output["sha256"], bytes=output["bytes"])


def with_lost_markers(
    stages: Sequence[StoredStage], inputs: Mapping[str, str]
) -> list[StoredStage]:
    """The same stages; those that were done, or that others or the report were made from, and that
    have no marker, with that fault. inputs: of the report's provenance."""
    made_from = {
        need for stage in stages if stage.marker is not None for need in stage.record["needs"]
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
    """What a report's provenance has digests of, for stages whose markers do not list it.

    inputs: digests by path from the run's folder.
    """
    is_silent = {stage.name: stage.is_silent for stage in stages}
    for name, digest in inputs.items():
        of = _stage_of(name, is_silent)
        if of is not None and is_silent[of]:
            yield RecordedFile(of=of, name=name, sha256=digest)


def mislabelled(
    cells: Iterable[Mapping[str, Any]], stages: Iterable[StoredStage]
) -> Iterator[Damage]:
    """Points of plan.json (cells) that are called other than their training runs are, or whose
    checkpoints are others' or of other steps."""
    by_name = {stage.name: stage for stage in stages}
    for cell in cells:
        claims = [*_called_otherwise(cell, by_name), *_judged_otherwise(cell, by_name)]
        for claim in claims:
            yield Damage(of=DECLARATION, name="plan.json", fault=f"{claim}: `run` writes it again")


def _called_otherwise(cell: Mapping[str, Any], by_name: Mapping[str, StoredStage]) -> Iterator[str]:
    train = by_name.get(cell["train"])
    if train is None:
        yield f"names {cell['train']!r} of {cell['point_id']}, which is no stage that it lists"
        return
    for key in ("point_id", *COLUMNS, "seed") if train.labels else ():
        said, value = cell.get(key), train.labels.get(key)  # neither has a factor of 1
        if said != value:
            yield f"says {key} {said} of {cell['point_id']}, and its spec.json {value}"


def _judged_otherwise(cell: Mapping[str, Any], by_name: Mapping[str, StoredStage]) -> Iterator[str]:
    for checkpoint in cell["checkpoints"]:
        name, step = checkpoint["evaluate"], checkpoint["step"]
        stage = by_name.get(name)
        if stage is None:
            yield f"names {name!r} of {cell['point_id']}, which is no stage that it lists"
        elif stage.source is not None and (stage.source, stage.step) != (cell["train"], step):
            own = f"step {stage.step} of {stage.source}"
            yield f"says {name} is of step {step} of {cell['train']}, and its spec.json {own}"


def of_other_weights(stages: Iterable[StoredStage]) -> Iterator[Damage]:
    """Results whose weights are no longer those that their source's marker has."""
    by_name = {stage.name: stage for stage in stages}
    for stage in by_name.values():
        source = by_name.get(stage.source or "")
        recorded = None if stage.marker is None else stage.marker.get("weights_sha256")
        now = None if source is None else weights(source, step=stage.step)
        if source is not None and recorded is not None and now not in (None, recorded):
            fault = f"was made with other weights than {source.name} has now"
            yield from (Damage(of=stage.name, name=k.name, fault=fault) for k in promised(stage))


def weights(source: StoredStage, *, step: int) -> str | None:
    """Digest of a checkpoint by its stage's marker; None where that does not tell."""
    folder = StagePaths(Path(source.name)).checkpoint(step).as_posix()
    listed = {
        name.removeprefix(f"{folder}/"): known.sha256
        for known in promised(source)
        for name in [known.name]
        if name.startswith(f"{folder}/") and name.endswith(".safetensors")
    }
    if listed:
        return combined_sha256(listed)
    marker = source.marker or {}
    own: str | None = marker.get("weights_sha256")
    return own if marker.get("step") == step else None


def outdated(
    inputs: Mapping[str, str], known: Iterable[RecordedFile], damaged: Collection[str]
) -> Iterator[Damage]:
    """Where the report was made from other files than the stages' markers have, though these are
    whole. inputs: digests by name, of the provenance."""
    for each in known:
        if each.name not in damaged and inputs.get(each.name, each.sha256) != each.sha256:
            fault = f"was made from another {each.name}"
            yield Damage(of=REPORT, name=f"{REPORT}/provenance.json", fault=fault)


def resting(damage: Iterable[Damage], records: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Stages and views that rest on what is damaged, by the damaged stage."""
    damaged = {each.of for each in damage}
    rests: dict[str, list[str]] = {}
    for record in records:
        if record["name"] not in damaged:
            continue
        reached = {record["name"]}
        for later in records:  # each after what it needs
            if reached.intersection(later["needs"]):
                reached.add(later["name"])
        reached.remove(record["name"])
        below = [each["name"] for each in records if each["name"] in reached]
        rests[record["name"]] = [*below, *VIEWS]
    return rests


def to_remove(stage: StoredStage, damage: Collection[Damage]) -> list[str]:
    """What must be away so that a stage makes again what is damaged, and only that: paths from the
    run's folder, whether or not such a file is there. Empty where spec.json alone is damaged.

    Of an evaluation without its draws, or their record, the rest is its own to judge
    (evaluators.resume); a training run writes its metrics again, with other times.
    """
    own = {each.name for each in damage if each.of == stage.name}
    gone = {name for name in own if not name.endswith(f"/{SPEC_FILE}")}
    if not gone:
        return []
    metrics = f"{stage.name}/metrics.parquet"
    if metrics in {*stage.stored, *(known.name for known in promised(stage))}:
        gone.add(metrics)
    if not any(promised(stage)):  # by its files alone such a stage would still be done
        gone.add(f"{stage.name}/{MARKER_FILE}")
    return sorted(gone)
