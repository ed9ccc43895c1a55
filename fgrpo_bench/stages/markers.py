"""The completion marker of a stage: what it lists, when it is believed, and what stands in its way.

A marker lists every file that the stage promises, with its number of bytes and its digest. A stage
is done when its marker is that of the fingerprint, the target and the owner, and every file that
it lists is there with as many bytes; digests, those of the files and that of the marker's own
content, are for `fgrpo-bench check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fgrpo_bench.files.paths import StagePaths, is_below
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import quarantine, read_record, write_json
from fgrpo_bench.stages.digests import FileDigest, sha256_file, size_fault, with_checksum

M = TypeVar("M", bound="Marker")


@dataclass(frozen=True, kw_only=True)
class Output(FileDigest):
    """What a marker says of a file of its stage."""

    bytes: int


@dataclass(frozen=True, kw_only=True)
class Owner(Record):
    """owner.json: the process that began a stage last."""

    token: str
    over: str | None
    """Owner of the marker that stood there when it began; None without one."""
    pid: int | None = None
    host: str | None = None
    since: str | None = None


@dataclass(frozen=True, kw_only=True)
class Marker(Record):
    """DONE.json, as far as it is alike for all kinds of stages; a kind whose marker others read has
    a class for all of it."""

    fingerprint: str
    target: dict[str, Any]
    """As `is_done` compares it."""
    owner: str | None = None
    """Token of the process that wrote it; None where no process owns the folder, likewise below:
    a checkpoint that was taken as it is, imported draws."""
    finished: str | None = None
    finished_ms: int | None = None
    """Since 1970."""
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    outputs: dict[str, Output]
    """By path in the stage's folder."""
    plugins: dict[str, str] | None = None
    """Versions by package; None without any."""
    step: int | None = None
    """Of the checkpoint that it left last, or that it is of; None where it has none."""
    weights_sha256: str | None = None
    """Of that checkpoint."""
    draws_made: dict[str, int] | None = None
    """Of evaluations, by benchmark, likewise below; None of other kinds."""
    taken_from: dict[str, str] | None = None
    """The evaluations whose draws it took over, by their folders in the run root."""


def read_marker(paths: StagePaths) -> Marker:
    """The marker, as `read_marker_as`, of a stage of any kind."""
    return read_marker_as(Marker, paths)


def read_marker_as(kind: type[M], paths: StagePaths) -> M:
    """The marker; ValueError that names the file where it is damaged, or lists a file outside its
    stage's folder, of which nobody may read or move anything."""
    marker = read_record(paths.done, kind)
    outside = [name for name in marker.outputs if not is_below(name)]
    if outside:
        raise ValueError(
            f"{paths.done} lists {outside[0]!r}, which is outside its stage's folder: it was "
            "changed by hand; delete it and run the sweep again, which makes only what is missing"
        )
    return marker


def base_weights(paths: StagePaths) -> str:
    """sha256 of the weights that a stage left; ValueError where its marker is damaged or names
    none."""
    sha256 = read_marker(paths).weights_sha256
    if sha256 is None:
        raise ValueError(
            f"{paths.done} names no weights, so no model can be taken from there: delete it and "
            "run the sweep again, which makes only what is missing"
        )
    return sha256


def undivided(marker: Marker, seconds: float) -> float | None:
    """What a stage takes that does all its work itself, of one that took `seconds`; None of an
    evaluation that took draws over."""
    return None if marker.taken_from else seconds


def machine_load(marker: Marker) -> float | None:
    """Wall over processor seconds of a stage that computed by itself: what else the machine did.
    None where they are not recorded, and of an evaluation that took draws over."""
    wall, cpu = marker.wall_seconds, marker.cpu_seconds
    if not wall or not cpu or marker.taken_from:
        return None
    return wall / cpu


def write_marker(paths: StagePaths, marker: Marker) -> None:
    """Write a marker whole, with the digest of its content."""
    # the last file of a stage: a kill before it leaves a stage that is not done
    write_json(paths.done, with_checksum(marker.as_json()))


def described(paths: StagePaths, files: Iterable[Path]) -> dict[str, Output]:
    """What a marker says of files of its stage, by path in the stage's folder."""
    return {
        file.relative_to(paths.folder).as_posix(): Output(
            bytes=file.stat().st_size, sha256=sha256_file(file)
        )
        for file in files
    }


def rewritten(paths: StagePaths, files: Iterable[Path], **fields: Any) -> None:
    """Bring a marker up to date with files that were written again, and with other fields of it.

    Called right after the files: a kill in between leaves a stage that is not done, which the
    command that wrote them mends. Nothing happens where there is no marker.
    """
    if paths.done.exists():
        marker = read_marker(paths)
        outputs = marker.outputs | described(paths, files)
        write_marker(paths, replace(marker, outputs=outputs, **fields))


def is_done(paths: StagePaths, *, fingerprint: str, target: dict[str, Any]) -> bool:
    """Whether the marker stands for this fingerprint, covers the target, and what it lists is
    there. A damaged marker or owner.json stands for nothing.

    target: layers on top of the identity, e.g. {"n_samples": 512, "ks": [1, 256]}: an integer is
    covered by one at least as large, a list by one that contains it, other values by equal ones,
    None by a marker without it.
    """
    if not paths.done.exists():
        return False
    try:
        marker = read_marker(paths)
        owned = _is_from_owner(paths, marker)
    except ValueError:
        return False
    if marker.fingerprint != fingerprint or not owned:
        return False
    # what the marker itself says first; only then a look at every file that it lists
    covers = all(_covers(marker.target.get(key), layer) for key, layer in target.items())
    return covers and not missing_outputs(paths, marker)


def missing_outputs(paths: StagePaths, marker: Marker) -> dict[str, str]:
    """What a marker lists and is not there as listed, by path in the stage's folder, with the
    reason for a person. Contents are not read."""
    listed = marker.outputs.items()
    faults = {name: size_fault(paths.folder / name, output) for name, output in listed}
    return {name: fault for name, fault in faults.items() if fault is not None}


def former_marker(paths: StagePaths, *, fingerprint: str) -> Marker | None:
    """The marker that stands for a fingerprint, whatever it covers; None without one."""
    marker = read_marker(paths) if paths.done.exists() else None
    return None if marker is None or marker.fingerprint != fingerprint else marker


def fingerprint_mismatch(path: Path, recorded: str, *, fingerprint: str) -> str | None:
    """In which way a marker or a draws.json is another stage's, with rule and remedy; None where it
    is its own.

    recorded: the fingerprint in the file. fingerprint: what stands there by the plan.
    """
    if recorded == fingerprint:
        return None
    return (
        f"{path} is of fingerprint {recorded[:12]}, but by plan.json "
        f"{fingerprint[:12]} stands there: results count only for the settings that they were made "
        "with; put the folder back where it belongs (were two of them swapped?), or move it away "
        "and run the sweep again"
    )


def refuse_foreign(path: Path, recorded: str, *, fingerprint: str | None) -> None:
    """ValueError where a file is another stage's, as `fingerprint_mismatch`. fingerprint: None
    takes any."""
    if fingerprint is not None and (
        fault := fingerprint_mismatch(path, recorded, fingerprint=fingerprint)
    ):
        raise ValueError(fault)


def has_valid_marker(paths: StagePaths, *, fingerprint: str | None) -> bool:
    """For readers: whether a stage has a marker that can be read; ValueError where it is another
    stage's than that which the plan has there (None: any)."""
    if not paths.done.exists():
        return False
    try:
        marker = read_marker(paths)
    except ValueError:
        return False
    refuse_foreign(paths.done, marker.fingerprint, fingerprint=fingerprint)
    return True


def damage(paths: StagePaths, *, fingerprint: str) -> dict[str, str]:
    """Why a stage that has a marker is not done though it once was, as `missing_outputs` or for
    the marker itself; empty where it is done, never was, or is only asked for more."""
    if not paths.done.exists():
        return {}
    try:
        marker = read_marker(paths)
        latest = is_latest(paths, marker)
    except ValueError as error:
        return {paths.done.name: str(error)}
    return missing_outputs(paths, marker) if latest and marker.fingerprint == fingerprint else {}


def clear_damage(paths: StagePaths, *, fingerprint: str) -> None:
    """Move aside what cannot be trusted, before the stage is worked on again, and say so: a marker
    or owner.json that cannot be read, and listed files of another number of bytes.

    Files that a process may have written after the marker are left alone: its work goes on.
    """
    # owner.json first: whether the marker is its owner's is asked of it below
    readers: dict[Path, Callable[[StagePaths], Record]]
    readers = {paths.owner: read_owner, paths.done: read_marker}
    for path, read in readers.items():
        try:
            if path.exists():
                read(paths)
        except ValueError as error:
            print(f"{error}\nkept as {quarantine(path, paths.damaged)}", flush=True)
    for name, reason in damage(paths, fingerprint=fingerprint).items():
        print(f"{paths.folder / name} {reason}: it is made again", flush=True)
        if (paths.folder / name).is_file():
            print(f"kept as {quarantine_output(paths, name)}", flush=True)


def quarantine_output(paths: StagePaths, name: str) -> Path:
    """Move a damaged file of a stage to its folder `damaged`; returns where it is then. name: path
    in the stage's folder."""
    return quarantine(paths.folder / name, (paths.damaged / name).parent)


def read_owner(paths: StagePaths) -> Owner:
    """owner.json; raises as `read_record`."""
    return read_record(paths.owner, Owner)


def is_latest(paths: StagePaths, marker: Marker) -> bool:
    """Whether nobody has begun the stage after the marker was written."""
    if not paths.owner.exists():
        return True
    return marker.owner == read_owner(paths).token


def _is_from_owner(paths: StagePaths, marker: Marker) -> bool:
    """False for the marker of a process that another had taken the stage over from before."""
    if not paths.owner.exists():
        return True
    owner = read_owner(paths)
    # `over` stood when the present owner began and is still whole; what an older process wrote when
    # it woke up after that is not the stage's
    return marker.owner in (owner.token, owner.over)


def _covers(have: Any, layer: Any) -> bool:
    if isinstance(layer, int):
        return isinstance(have, int) and have >= layer
    if isinstance(layer, list):
        return isinstance(have, list) and all(wish in have for wish in layer)
    return bool(have == layer)
