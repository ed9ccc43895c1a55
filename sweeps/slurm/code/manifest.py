"""The digests of a frozen copy of the code, beside it, and what of the copy is not as they say.

<digest>/          the files
<digest>.sha256    a line a file, as sha256sum writes them; <digest> is the start of this file's own
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from fgrpo_bench.stages.files import sha256_file

NAME_DIGITS = 16


def manifest_path(code: Path) -> Path:
    """Where the digests of a copy's files stand."""
    return code.with_name(code.name + ".sha256")


def make_manifest(folder: Path, names: Iterable[str]) -> str:
    """A line a file; ValueError for a name that sha256sum would have to write otherwise."""
    lines = []
    for name in names:
        if "\n" in name or "\\" in name:
            raise ValueError(
                f"the file name {name!r} under {folder} has a line break or a backslash in it, so "
                "the code cannot be frozen: rename it, or ignore it in .gitignore"
            )
        lines.append(f"{sha256_file(folder / name)}  {name}\n")
    return "".join(lines)


def copy_name(manifest: str) -> str:
    """Name of the copy whose digests these are."""
    return hashlib.sha256(manifest.encode()).hexdigest()[:NAME_DIGITS]


def read_digests(code: Path) -> dict[str, str] | None:
    """By name; None where the file of digests is missing or not as it was written."""
    try:
        text = manifest_path(code).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    if copy_name(text) != code.name:
        return None
    rows = (line.partition("  ") for line in text.removesuffix("\n").split("\n"))
    return {name: digest for digest, _, name in rows}


def has_digest(content: bytes | None, digest: str) -> bool:
    """Whether bytes are those that were frozen; False of None."""
    return content is not None and hashlib.sha256(content).hexdigest() == digest


def content_of(path: Path) -> bytes | None:
    """None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def damage(code: Path) -> dict[str, str]:
    """What is not as it was frozen: names with `is missing` or `was changed`; empty where all is
    whole. Where the file of digests is damaged, that alone.

    What was added is no damage: Python's caches are, and whatever a stage leaves where it runs.
    """
    digests = read_digests(code)
    if digests is None:
        return {manifest_path(code).name: _fault(manifest_path(code))}
    return {
        name: _fault(code / name)
        for name, digest in digests.items()
        if not has_digest(content_of(code / name), digest)
    }


def _fault(path: Path) -> str:
    return "was changed" if path.exists() else "is missing"


def in_words(wrong: Mapping[str, str]) -> str:
    """e.g. `sweeps/cli.py is missing and 3 more`."""
    (name, fault), *more = wrong.items()
    return f"{name} {fault}" + (f" and {len(more)} more" if more else "")
