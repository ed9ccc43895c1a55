"""What the stages agree on about Hugging Face checkpoint folders: the digest of their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from fgrpo_bench.stages.files import sha256_file


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
    found = weights_sha256(folder)
    if found != sha256:
        raise ValueError(
            f"the weights in {folder} have sha256 {found}, but their stage recorded {sha256}: "
            "they were changed or damaged; delete that stage's DONE.json and run the same command "
            "again"
        )
