"""The completion marker of a stage: what it lists, when it is believed, and what stands in its way.

A marker lists every file that the stage promises, with its number of bytes and its digest. A stage
is done when its marker is that of the fingerprint, the target and the owner, and every file that
it lists is there with as many bytes; digests, those of the files and that of the marker's own
content, are for `python -m sweeps check`. Markers of versions before that have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fgrpo_bench.stages.digests import sealed, sha256_file
from fgrpo_bench.stages.files import read_json, set_aside, write_json
from fgrpo_bench.stages.paths import StagePaths, is_below
from fgrpo_bench.stages.shapes import MARKER, OWNER


def read_marker(paths: StagePaths) -> dict[str, Any]:
    """The marker (shapes.MARKER); ValueError that names the file where it is damaged, or lists a
    file outside its stage's folder, of which nobody may read or move anything."""
    marker: dict[str, Any] = read_json(paths.done, MARKER)
    outside = [name for name in marker["outputs"] if not is_below(name)]
    if outside:
        raise ValueError(
            f"{paths.done} lists {outside[0]!r}, which is outside its stage's folder: it was "
            "changed by hand; delete it and run the sweep again, which makes only what is missing"
        )
    return marker


def undivided(marker: Mapping[str, Any], seconds: float) -> float | None:
    """What a stage takes that does all its work itself, of one that took `seconds`: draws that an
    evaluation took from others are charged what they took there. None where nobody recorded it."""
    recorded: dict[str, float] = marker.get("adopted_seconds", {})
    if marker.get("draws_adopted", {}).keys() - recorded.keys():
        return None
    return seconds + sum(recorded.values())


def machine_load(marker: Mapping[str, Any]) -> float | None:
    """Wall over processor seconds of a stage that computed by itself: what else the machine did.
    None where they are not recorded, or where draws that it took from others blur them."""
    wall, cpu = marker.get("wall_seconds"), marker.get("cpu_seconds")
    if not wall or not cpu or marker.get("draws_adopted"):
        return None
    return float(wall / cpu)


def write_marker(paths: StagePaths, marker: dict[str, Any]) -> None:
    """Write a marker (shapes.MARKER) whole, with the digest of its content."""
    write_json(paths.done, sealed(marker))


def described(paths: StagePaths, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """What a marker says of files of its stage: {path in the stage's folder: bytes and sha256}."""
    return {
        file.relative_to(paths.folder).as_posix(): {
            "bytes": file.stat().st_size,
            "sha256": sha256_file(file),
        }
        for file in files
    }


def rewritten(paths: StagePaths, files: Iterable[Path], **fields: Any) -> None:
    """Bring a marker up to date with files that were written again, and with other fields of it.

    Called right after the files: a kill in between leaves a stage that is not done, which the
    command that wrote them mends. Nothing happens where there is no marker.
    """
    if paths.done.exists():
        marker = read_marker(paths)
        outputs = marker["outputs"] | described(paths, files)
        write_marker(paths, marker | fields | {"outputs": outputs})


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
        owned = _of_owner(paths, marker)
    except ValueError:
        return False
    if marker["fingerprint"] != fingerprint or not owned:
        return False
    covers = all(_covers(marker["target"].get(key), wanted) for key, wanted in target.items())
    return covers and not lacking(paths, marker)


def lacking(paths: StagePaths, marker: dict[str, Any]) -> dict[str, str]:
    """What a marker lists and is not there as listed, by path in the stage's folder, with the
    reason for a person."""
    faults = {}
    for name, output in marker["outputs"].items():
        try:
            size = (paths.folder / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            faults[name] = "is missing"
            continue
        if size != output["bytes"]:
            faults[name] = f"has {size} bytes instead of {output['bytes']}"
    return faults


def former_marker(paths: StagePaths, *, fingerprint: str) -> dict[str, Any]:
    """The marker that stands for a fingerprint, whatever it covers; empty without one."""
    marker = read_marker(paths) if paths.done.exists() else {}
    return marker if marker.get("fingerprint") == fingerprint else {}


def foreign(path: Path, facts: dict[str, Any], *, fingerprint: str) -> str | None:
    """In which way a marker or a draws.json is another stage's, with rule and remedy; None where it
    is its own.

    facts: what the file says. fingerprint: what stands there by the plan.
    """
    if facts["fingerprint"] == fingerprint:
        return None
    return (
        f"{path} is of fingerprint {facts['fingerprint'][:12]}, but by plan.json "
        f"{fingerprint[:12]} stands there: results count only for the settings that they were made "
        "with; put the folder back where it belongs (were two of them swapped?), or move it away "
        "and run the sweep again"
    )


def refuse_foreign(path: Path, facts: dict[str, Any], *, fingerprint: str | None) -> None:
    """ValueError where a file is another stage's, as `foreign`; None of a fingerprint takes any."""
    if fingerprint is not None and (fault := foreign(path, facts, fingerprint=fingerprint)):
        raise ValueError(fault)


def stands(paths: StagePaths, *, fingerprint: str | None) -> bool:
    """For readers: whether a stage has a marker that can be read; ValueError where it is another
    stage's than that which the plan has there (None: any)."""
    if not paths.done.exists():
        return False
    try:
        marker = read_marker(paths)
    except ValueError:
        return False
    refuse_foreign(paths.done, marker, fingerprint=fingerprint)
    return True


def damage(paths: StagePaths, *, fingerprint: str) -> dict[str, str]:
    """Why a stage that has a marker is not done though it once was, as `lacking` or for the marker
    itself; empty where it is done, never was, or is only asked for more."""
    if not paths.done.exists():
        return {}
    try:
        marker = read_marker(paths)
        of_last = is_of_last(paths, marker)
    except ValueError as error:
        return {paths.done.name: str(error)}
    return lacking(paths, marker) if of_last and marker["fingerprint"] == fingerprint else {}


def clear_damage(paths: StagePaths, *, fingerprint: str) -> None:
    """Move aside what cannot be trusted, before the stage is worked on again, and say so: a marker
    or owner.json that cannot be read, and listed files of another number of bytes.

    Files that a process may have written after the marker are left alone: its work goes on.
    """

    def read_owner(paths: StagePaths) -> object:
        return read_json(paths.owner, OWNER)

    for path, read in ((paths.owner, read_owner), (paths.done, read_marker)):
        try:
            if path.exists():
                read(paths)
        except ValueError as error:
            print(f"{error}\nkept as {set_aside(path, paths.damaged)}", flush=True)
    for name, reason in damage(paths, fingerprint=fingerprint).items():
        print(f"{paths.folder / name} {reason}: it is made again", flush=True)
        if (paths.folder / name).is_file():
            print(f"kept as {put_aside(paths, name)}", flush=True)


def put_aside(paths: StagePaths, name: str) -> Path:
    """Move a damaged file of a stage to its folder `damaged`; returns where it is then. name: path
    in the stage's folder."""
    return set_aside(paths.folder / name, (paths.damaged / name).parent)


def is_of_last(paths: StagePaths, marker: dict[str, Any]) -> bool:
    """Whether nobody has begun the stage after the marker was written."""
    if not paths.owner.exists():
        return True
    return bool(marker.get("owner") == read_json(paths.owner, OWNER)["token"])


def _of_owner(paths: StagePaths, marker: dict[str, Any]) -> bool:
    """False for the marker of a process that another had taken the stage over from before."""
    if not paths.owner.exists():
        return True
    owner = read_json(paths.owner, OWNER)
    return marker.get("owner") in (owner["token"], owner["over"])


def _covers(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, int):
        return isinstance(have, int) and have >= wanted
    if isinstance(wanted, list):
        return isinstance(have, list) and all(each in have for each in wanted)
    return bool(have == wanted)
