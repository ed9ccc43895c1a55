"""Digests that tell whether something was changed: of a file, of what a JSON file says, and of a
checkpoint's weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PART_BYTES = 2**22
"""Read at once where somebody is told how far a digest is."""
SEAL = "content_sha256"
"""Key under which `sealed` keeps the digest."""


def sha256_file(path: Path, tell: Callable[[int], None] | None = None) -> str:
    """Hex digest of a file's bytes. tell(bytes): called for every part that was read."""
    with path.open("rb") as file:
        if tell is None:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        while part := file.read(PART_BYTES):
            digest.update(part)
            tell(len(part))
        return digest.hexdigest()


def sealed(value: dict[str, Any]) -> dict[str, Any]:
    """An object for a JSON file, with the digest of its own content: `is_altered` notices an edit
    (not a forger, who can make a new digest)."""
    return value | {SEAL: content_sha256(value)}


def is_altered(value: Mapping[str, Any]) -> bool:
    """Whether an object was changed after it was sealed, or lost its seal."""
    return bool(value.get(SEAL) != content_sha256(value))


def is_edited(value: Mapping[str, Any]) -> bool:
    """Whether a sealed object was changed; one that never was sealed, such as the
    spec.json of an evaluation without a sweep, is not."""
    return SEAL in value and is_altered(value)


def content_sha256(value: Mapping[str, Any]) -> str:
    """Hex digest of what an object says as JSON, in whatever order, without its seal."""
    content = json.loads(json.dumps({key: value[key] for key in value if key != SEAL}))
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
    if len(digests) == 1:
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
