"""What the stages agree on about Hugging Face checkpoint folders: the digest of their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.files import sha256_file


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
    digests = [digest(file) for file in files]
    if len(files) == 1:
        return digests[0]
    rows = (f"{digest} {file.name}\n" for digest, file in zip(digests, files, strict=True))
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
