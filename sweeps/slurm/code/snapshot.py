"""The code of a sweep, frozen: jobs that wait in a queue run what was there when they were sent.

<sweep>/code/<digest>/         the files, at their paths in the checkout
<sweep>/code/<digest>.sha256   their digests, as sha256sum writes them; <digest> is this file's own
<sweep>/code/<digest>.json     git commit, and whether files differ from it
<sweep>/code/<digest>.patch    the differences from the commit; absent where there are none

A copy may lose files (a purge of a scratch disk) or have them changed: it is compared with its
digests before anything is submitted and by each job, and made again as it was or not at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fgrpo_bench.stages.files import now, readable_json, void, write_json, write_text, write_whole
from sweeps.commands import REPOSITORY
from sweeps.slurm.code.manifest import (
    content_of,
    copy_name,
    damage,
    has_digest,
    in_words,
    make_manifest,
    manifest_path,
    read_digests,
)

PACKAGES = ("fgrpo_bench", "sweeps", "evaluators", "conf")
"""What jobs need of a copy that is no git checkout."""
MAX_MEGABYTES = 200


def freeze_code(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Copy the code under `folder` unless the same stands there whole; returns the copy's folder.

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
    manifest = make_manifest(repository, files)
    target = folder / copy_name(manifest)
    if target.exists():
        mend(target, repository)
        return target
    aside = folder / f".{target.name}.{os.getpid()}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        for name in files:
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, aside / name)
        _record(target, repository, is_git)
        write_text(manifest_path(target), manifest)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def code_folder(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Where `freeze_code` puts the code as it is now: 16 hex digits of all names and contents."""
    return folder / copy_name(make_manifest(repository, _listing(repository)[1]))


def mend(code: Path, repository: Path = REPOSITORY) -> dict[str, str]:
    """Make again what is damaged, from a checkout or the commit that it was taken from; returns
    what that was, as `damage` does.

    Files are replaced one by one, so that jobs which run from them go on. Raises ValueError with
    the remedy where the same content is nowhere any more.
    """
    wrong = damage(code)
    if manifest_path(code).name in wrong:
        _mend_manifest(code, repository, wrong)
        wrong |= damage(code)
    if not wrong:
        return wrong
    contents: dict[str, bytes] = {}
    for name, digest in (read_digests(code) or {}).items():
        if name not in wrong:
            continue
        content = content_of(repository / name)
        if not has_digest(content, digest):
            content = _committed(code, repository, name)
        if content is None or not has_digest(content, digest):
            raise _irreparable(code, repository, wrong)
        contents[name] = content
    for name, content in contents.items():
        _put(code / name, content)
    if not _facts_path(code).exists() and code_folder(code.parent, repository) == code:
        _record(code, repository, _listing(repository)[0])
    return wrong


def _mend_manifest(code: Path, repository: Path, wrong: Mapping[str, str]) -> None:
    """From the copy itself, or from a checkout that is as it was."""
    for folder, names in ((code, _files_of(code)), (repository, _listing(repository)[1])):
        manifest = make_manifest(folder, names)
        if copy_name(manifest) == code.name:
            return write_text(manifest_path(code), manifest)
    raise _irreparable(code, repository, wrong)


def _irreparable(code: Path, repository: Path, wrong: Mapping[str, str]) -> ValueError:
    commit, patch = _frozen_commit(code), _patch_path(code)
    patched = f" with {patch}" if patch.exists() else ""
    restored = f", or check out commit {commit}{patched} and give this command again"
    return ValueError(
        f"the frozen code {code} is damaged ({in_words(wrong)}) and cannot be made again as it "
        f"was: {repository} has changed since. Nothing was submitted, as it would run other code: "
        "`python -m sweeps run` freezes the code as it is now and goes on with that"
        + (restored if commit else "")
    )


def _facts_path(code: Path) -> Path:
    return code.with_name(code.name + ".json")


def _patch_path(code: Path) -> Path:
    return code.with_name(code.name + ".patch")


def _committed(code: Path, repository: Path, name: str) -> bytes | None:
    commit = _frozen_commit(code)
    return _git_bytes(repository, "show", f"{commit}:{name}") if commit else None


def _frozen_commit(code: Path) -> str | None:
    facts = readable_json(_facts_path(code), {"git_commit": str})
    return None if facts is None else str(facts["git_commit"])


def _put(path: Path, content: bytes) -> None:
    write_whole(path, lambda aside: void(aside.write_bytes(content)))


def _listing(repository: Path) -> tuple[bool, list[str]]:
    listed = _git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return listed is not None, _of_git(repository, listed) if listed else _of_packages(repository)


def _of_git(repository: Path, listed: str) -> list[str]:
    return sorted(name for name in listed.split("\0") if name and (repository / name).is_file())


def _of_packages(repository: Path) -> list[str]:
    return sorted(f"{each}/{name}" for each in PACKAGES for name in _files_of(repository / each))


def _files_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.relative_to(folder).parts
    )


def _record(code: Path, repository: Path, is_git: bool) -> None:
    patch = _git(repository, "diff", "--binary", "HEAD") if is_git else None
    commit = _git(repository, "rev-parse", "HEAD") if is_git else None
    new = _git(repository, "ls-files", "--others", "--exclude-standard") if is_git else None
    if patch:
        write_text(_patch_path(code), patch)
    facts = {
        "source": str(repository),
        "git_commit": commit.strip() if commit else None,
        "patched": bool(patch) if is_git else None,
        "untracked": new.splitlines() if new is not None else None,
        "frozen": now(),
    }
    write_json(_facts_path(code), facts)


def _git(repository: Path, *arguments: str) -> str | None:
    """What git prints; None outside a checkout or without git."""
    said = _git_bytes(repository, *arguments)
    return None if said is None else said.decode(errors="replace")


def _git_bytes(repository: Path, *arguments: str) -> bytes | None:
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
