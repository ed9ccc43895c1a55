"""The code of a sweep, frozen: jobs that wait in a queue run what was there when they were sent.

<sweep>/code/<digest>/        the files, at their paths in the checkout
<sweep>/code/<digest>.json    git commit, and whether files differ from it
<sweep>/code/<digest>.patch   the differences from the commit; absent where there are none
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from fgrpo_bench.files import now, sha256_file, write_json, write_text
from sweeps.commands import REPOSITORY

PACKAGES = ("fgrpo_bench", "sweeps", "evaluators", "conf")
"""What jobs need of a copy that is no git checkout."""
MAX_MEGABYTES = 200


def freeze_code(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Copy the code under `folder` unless the same stands there; returns the copy's folder.

    Of a git checkout all tracked files and those that are neither tracked nor ignored; else the
    packages that jobs run. Raises ValueError where that is more than MAX_MEGABYTES.
    """
    is_git, files = _listing(repository)
    size = sum((repository / name).stat().st_size for name in files) / 1e6
    if size > MAX_MEGABYTES:
        largest = max(files, key=lambda name: (repository / name).stat().st_size)
        raise ValueError(
            f"the code under {repository} is {size:.0f} MB, more than the {MAX_MEGABYTES} MB that "
            f"a sweep keeps of it; ignore what is no code in .gitignore, e.g. {largest}"
        )
    target = code_folder(folder, repository)
    digest = target.name
    if target.exists():
        return target
    aside = folder / f".{digest}.{os.getpid()}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        for name in files:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, aside / name)
        _record(target, repository, is_git)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def code_folder(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Where `freeze_code` puts the code as it is now: 16 hex digits of all names and contents."""
    rows = (f"{sha256_file(repository / name)} {name}\n" for name in _listing(repository)[1])
    return folder / hashlib.sha256("".join(rows).encode()).hexdigest()[:16]


def _listing(repository: Path) -> tuple[bool, list[str]]:
    listed = _git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return listed is not None, _of_git(repository, listed) if listed else _of_packages(repository)


def _of_git(repository: Path, listed: str) -> list[str]:
    return sorted(name for name in listed.split("\0") if name and (repository / name).is_file())


def _of_packages(repository: Path) -> list[str]:
    return sorted(
        str(path.relative_to(repository))
        for package in PACKAGES
        for path in (repository / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def _record(stem: Path, repository: Path, is_git: bool) -> None:
    patch = _git(repository, "diff", "--binary", "HEAD") if is_git else None
    commit = _git(repository, "rev-parse", "HEAD") if is_git else None
    new = _git(repository, "ls-files", "--others", "--exclude-standard") if is_git else None
    if patch:
        write_text(stem.with_name(stem.name + ".patch"), patch)
    facts = {
        "source": str(repository),
        "git_commit": commit.strip() if commit else None,
        "patched": bool(patch) if is_git else None,
        "untracked": new.splitlines() if new is not None else None,
        "frozen": now(),
    }
    write_json(stem.with_name(stem.name + ".json"), facts)


def _git(repository: Path, *arguments: str) -> str | None:
    """What git prints; None outside a checkout or without git."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
