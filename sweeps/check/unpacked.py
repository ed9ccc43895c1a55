"""`check FOLDER`: is an unpacked bundle as it was packed, by the manifest in it?"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.files.paths import is_below
from fgrpo_bench.stages.digests import MANIFEST_FILE, added, differing, from_lines
from sweeps.check.examine import Bar, size_of
from sweeps.text import counted


def examine_folder(folder: Path, bar: Bar) -> dict[str, Any]:
    """What is damaged, missing or added, as JSON types. FileNotFoundError where the folder has no
    manifest, ValueError where it is none."""
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: give the name of a sweep, or the folder that an archive of "
            "`fgrpo-bench bundle` was unpacked into"
        )
    content = path.read_bytes()
    try:
        manifest = from_lines(content.decode())
    except ValueError as error:
        raise ValueError(f"{path} holds no list of digests: {error}") from error
    size = sum(size_of(folder / name) for name in manifest if is_below(name))
    faults = differing(folder, manifest, bar(size))
    faults |= dict.fromkeys(added(folder, manifest), "is not of this bundle")
    return {
        "folder": str(folder),
        "files": len(manifest),
        "damaged": [{"file": name, "fault": fault} for name, fault in faults.items()],
        "manifest_sha256": hashlib.sha256(content).hexdigest(),
    }


def render(answer: dict[str, Any]) -> str:
    """The same in words."""
    damaged = [f"  {each['file']}: {each['fault']}" for each in answer["damaged"]]
    lines = [
        answer["folder"],
        f"{counted(answer['files'], 'file')} compared with {MANIFEST_FILE}, whose own sha256 the "
        f"publisher has to tell: {answer['manifest_sha256']}",
        *(["damaged:", *damaged] if damaged else ["nothing is damaged"]),
        "not compared: whether the numbers follow from the grades, which `fgrpo-bench "
        "report --verify <the report's folder>` computes",
    ]
    return "\n".join(map(escaped, lines))
