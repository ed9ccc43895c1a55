"""The code of a sweep, frozen: jobs that wait in a queue run what was there when they were sent.

<sweep>/code/<digest>/         the files, at their paths in the checkout
<sweep>/code/<digest>.sha256   their digests, as sha256sum writes them; <digest> is this file's own
<sweep>/code/<digest>.json     git commit, and whether files differ from it

A copy may lose files (a purge of a scratch disk) or have them changed: it is compared with its
digests before anything is submitted and by each job, and nothing runs from a damaged one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fgrpo_bench.files.whole import now, quarantine, write_json, write_text
from fgrpo_bench.stages.digests import (
    Manifest,
    as_lines,
    differing,
    make_manifest,
    manifest_from_digests,
)
from sweeps import REPOSITORY

PACKAGES = ("fgrpo_bench", "sweeps", "evaluators", "conf")
"""What jobs need of a copy that is no git checkout."""
MAX_MEGABYTES = 200
"""A frozen copy above this is refused: something large stands in the checkout."""
NAME_DIGITS = 16
"""Of the copy's digest, in its folder's name."""


def _sibling(code: Path, suffix: str) -> Path:
    return code.with_name(code.name + suffix)


def manifest_path(code: Path) -> Path:
    """Where the digests of a copy's files stand."""
    return _sibling(code, ".sha256")


def damage(code: Path) -> dict[str, str]:
    """What is not as it was frozen, by name, as `differing`; empty where all is whole. Where the
    file of digests is damaged, that alone.

    What was added is no damage: Python's caches are, and whatever a stage leaves where it runs.
    """
    manifest = read_manifest(code)
    if manifest is None:
        path = manifest_path(code)
        return {path.name: "was changed" if path.exists() else "is missing"}
    return differing(code, manifest)


def describe_damaged_files(wrong: Mapping[str, str]) -> str:
    """e.g. `sweeps/cli.py is missing and 3 more`."""
    (name, fault), *more = wrong.items()
    return f"{name} {fault}" + (f" and {len(more)} more" if more else "")


def freeze_code(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Copy the code under `folder` unless the same stands there whole; returns the copy's folder. A
    damaged one is moved into `folder`/damaged first.

    Of a git checkout all tracked files and those that are neither tracked nor ignored; else the
    packages that jobs run. Raises ValueError where that is more than MAX_MEGABYTES, or where a name
    cannot stand in a line.
    """
    is_git, files = _listing(repository)
    size = sum((repository / name).stat().st_size for name in files) / 1e6
    if size > MAX_MEGABYTES:
        largest = max(files, key=lambda name: (repository / name).stat().st_size)
        raise ValueError(
            f"the code under {repository} is {size:.0f} MB, more than the {MAX_MEGABYTES} MB that "
            f"a sweep keeps of it; ignore what is no code in .gitignore, e.g. {largest}"
        )
    lines = as_lines(make_manifest(repository, files))
    target = folder / _copy_name(lines)
    if target.exists():
        if not damage(target):
            return target
        quarantine(target, folder / "damaged")
    # renamed last: a folder of this name is a whole copy, whenever its maker was killed
    aside = folder / f".{target.name}.{os.getpid()}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        for name in files:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, aside / name)
        _record(target, repository, is_git)
        write_text(manifest_path(target), lines)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def code_folder(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Where `freeze_code` puts the code as it is now: 16 hex digits of all names and contents."""
    return folder / _copy_name(as_lines(make_manifest(repository, _listing(repository)[1])))


def _copy_name(lines: str) -> str:
    return hashlib.sha256(lines.encode()).hexdigest()[:NAME_DIGITS]


def read_manifest(code: Path) -> Manifest | None:
    """The digests of a copy's files; None where the file of them is missing or not as it was
    written."""
    try:
        text = manifest_path(code).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    # the folder's name is the digest of this file, which so vouches for all others
    if _copy_name(text) != code.name:
        return None
    lines = (line.partition("  ") for line in text.split("\n")[:-1])
    return manifest_from_digests({name: digest for digest, _, name in lines})


def _listing(repository: Path) -> tuple[bool, list[str]]:
    """Whether git tells, and the names of the files that are frozen."""
    listed = _git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not listed:
        code_files = (
            f"{item}/{name}" for item in PACKAGES for name in _list_files(repository / item)
        )
        return listed is not None, sorted(code_files)
    names = listed.decode(errors="replace").strip("\0").split("\0")
    return True, sorted(name for name in names if (repository / name).is_file())


def _list_files(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.relative_to(folder).parts
    )


def _record(code: Path, repository: Path, is_git: bool) -> None:
    commands = ("diff --name-only HEAD", "rev-parse HEAD", "ls-files --others --exclude-standard")
    outputs = [_git(repository, *command.split()) if is_git else None for command in commands]
    changed, commit, new = ((output or b"").decode(errors="replace") for output in outputs)
    facts = {
        "source": str(repository),
        "git_commit": commit.strip() or None,
        "patched": bool(changed) if is_git else None,
        "untracked": new.splitlines() if is_git else None,
        "frozen": now(),
    }
    write_json(_sibling(code, ".json"), facts)


def _git(repository: Path, *arguments: str) -> bytes | None:
    """What git prints; None outside a checkout or without git."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
