"""Digests that tell whether something was changed: of a file, of a folder by its manifest, of what
a JSON file says, and of a checkpoint's weights.

Every record of files is a manifest: the marker of a stage, the provenance of a report, the record
of an analysis, the digests of frozen code and of a bundle. All are compared here, by `differing`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from fgrpo_bench.files.records import Record

CHECKSUM_KEY = "content_sha256"
"""Key under which `with_checksum` keeps the digest."""
EDITED = "was changed after it was written, or lost its seal"
"""What is said of an object whose digest is not that of its content."""


@dataclass(frozen=True, kw_only=True)
class FileDigest(Record):
    """What a manifest says of a file."""

    bytes: int | None = None
    """None where the manifest has no sizes."""
    sha256: str


Manifest = Mapping[str, FileDigest]
"""The files of a folder, by path in it."""


def manifest_from_digests(digests: Mapping[str, str]) -> dict[str, FileDigest]:
    """A manifest without sizes, from hex digests by path."""
    return {name: FileDigest(sha256=digest) for name, digest in digests.items()}


def make_manifest(folder: Path, names: Iterable[str]) -> dict[str, FileDigest]:
    """The manifest of some files of a folder as they are now; OSError where one cannot be read."""
    return {
        name: FileDigest(sha256=sha256_file(folder / name), bytes=(folder / name).stat().st_size)
        for name in names
    }


def size_fault(path: Path, entry: FileDigest) -> str | None:
    """What is wrong with a file without reading it, for a person; None where nothing is. Raises
    OSError where the disk does not tell."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    if not S_ISREG(status.st_mode):
        return "is no file"
    if entry.bytes not in (None, status.st_size):
        return f"has {status.st_size} bytes instead of {entry.bytes}"
    return None


def file_fault(path: Path, entry: FileDigest) -> str | None:
    """What is wrong with a file, for a person, e.g. `is missing`; None where it is as its manifest
    has it. One of another size is not read."""
    try:
        fault = size_fault(path, entry)
        if fault is None and sha256_file(path) != entry.sha256:
            fault = "was changed"
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        fault = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return fault


def differing(folder: Path, manifest: Manifest) -> dict[str, str]:
    """The files of a folder that are not as its manifest has them, as `file_fault`."""
    faults = {name: file_fault(folder / name, entry) for name, entry in manifest.items()}
    return {name: fault for name, fault in faults.items() if fault is not None}


def as_lines(manifest: Manifest) -> str:
    """A manifest as sha256sum writes it, in its order, without sizes; ValueError for a name that
    would have to be written otherwise."""
    for name in manifest:
        if any(mark in name for mark in "\n\r\\"):
            raise ValueError(
                f"the file name {name!r} has a line break or a backslash in it, so it cannot stand "
                "in a list of digests: rename it, or keep it out of the code with .gitignore"
            )
    return "".join(f"{entry.sha256}  {name}\n" for name, entry in manifest.items())


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """An object for a JSON file, with the digest of its own content: `checksum_mismatch`
    notices an edit (not a forger, who can make a new digest)."""
    return value | {CHECKSUM_KEY: content_sha256(value)}


def checksum_mismatch(value: Mapping[str, Any]) -> bool:
    """Whether an object was changed after it was sealed, or lost its seal."""
    return bool(value.get(CHECKSUM_KEY) != content_sha256(value))


def is_edited(value: Mapping[str, Any]) -> bool:
    """Whether a sealed object was changed; one that never was sealed, such as the
    spec.json of an evaluation without a sweep, is not."""
    return CHECKSUM_KEY in value and checksum_mismatch(value)


def content_sha256(value: Mapping[str, Any]) -> str:
    """Hex digest of what an object says as JSON, in whatever order, without its seal."""
    # through JSON and back: tuples become lists and keys texts, as a reader will have them
    content = json.loads(json.dumps({key: value[key] for key in value if key != CHECKSUM_KEY}))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def weights_sha256(folder: Path, digest: Callable[[Path], str] = sha256_file) -> str:
    """Of the one weight file, or of the names and digests of several.

    digest: of a file, where it is known already. FileNotFoundError where the folder has no
    *.safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(
            f"{folder} holds no *.safetensors: it is no checkpoint; delete the DONE.json of its "
            "stage and run the same command again to make it anew"
        )
    return combined_sha256({file.name: digest(file) for file in files})


def combined_sha256(digests: Mapping[str, str]) -> str:
    """The digest of weights from those of their files by name, at least one."""
    if len(digests) == 1:  # the file's own digest, as sha256sum prints it
        return next(iter(digests.values()))
    rows = (f"{digests[name]} {name}\n" for name in sorted(digests))
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def check_weights(folder: Path, sha256: str) -> None:
    """ValueError where a folder's weights are not those that were recorded."""
    actual = weights_sha256(folder)
    if actual != sha256:
        raise ValueError(
            f"the weights in {folder} have sha256 {actual}, but their stage recorded {sha256}: "
            "they were changed or damaged; delete that stage's DONE.json and run the same command "
            "again"
        )
