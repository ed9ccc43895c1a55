"""The code of a sweep, frozen: jobs that wait in a queue run what was there when they were sent.

<sweep>/code/<digest>/         the files, at their paths in the checkout
<sweep>/code/<digest>.sha256   their digests, as sha256sum writes them; <digest> is this file's own
<sweep>/code/<digest>.json     git commit, and whether files differ from it
<sweep>/code/<digest>.patch    the differences from the commit; absent where there are none

A copy may lose files (a purge of a scratch disk) or have them changed: it is compared with its
digests before anything is submitted and by each job, and made again as it was or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import now, readable_json, write_bytes, write_json, write_text
from sweeps import REPOSITORY

PACKAGES = ("fgrpo_bench", "sweeps", "evaluators", "conf")
"""What jobs need of a copy that is no git checkout."""
MAX_MEGABYTES = 200
NAME_DIGITS = 16


def _beside(code: Path, suffix: str) -> Path:
    return code.with_name(code.name + suffix)


def manifest_path(code: Path) -> Path:
    """Where the digests of a copy's files stand."""
    return _beside(code, ".sha256")


def damage(code: Path) -> dict[str, str]:
    """What is not as it was frozen: names with `is missing` or `was changed`; empty where all is
    whole. Where the file of digests is damaged, that alone.

    What was added is no damage: Python's caches are, and whatever a stage leaves where it runs.
    """
    digests = _read_digests(code)
    if digests is None:
        return {manifest_path(code).name: _fault(manifest_path(code))}
    return {
        name: _fault(code / name)
        for name, digest in digests.items()
        if _frozen_content(code / name, digest) is None
    }


def in_words(wrong: Mapping[str, str]) -> str:
    """e.g. `sweeps/cli.py is missing and 3 more`."""
    (name, fault), *more = wrong.items()
    return f"{name} {fault}" + (f" and {len(more)} more" if more else "")


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
    manifest = _make_manifest(repository, files)
    target = folder / _copy_name(manifest)
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
    return folder / _copy_name(_make_manifest(repository, _listing(repository)[1]))


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
    commit = _frozen_commit(code)
    contents: dict[str, bytes] = {}
    for name, digest in (_read_digests(code) or {}).items():
        if name not in wrong:
            continue
        content = _frozen_content(repository / name, digest)
        if content is None and commit is not None:
            content = _git(repository, "show", f"{commit}:{name}")
        if content is None or _sha256(content) != digest:
            raise _irreparable(code, repository, wrong)
        contents[name] = content
    for name, content in contents.items():
        write_bytes(code / name, content)
    if not _beside(code, ".json").exists() and code_folder(code.parent, repository) == code:
        _record(code, repository, _listing(repository)[0])
    return wrong


def _mend_manifest(code: Path, repository: Path, wrong: Mapping[str, str]) -> None:
    """From the copy itself, or from a checkout that is as it was."""
    for folder, names in ((code, _files_of(code)), (repository, _listing(repository)[1])):
        manifest = _make_manifest(folder, names)
        if _copy_name(manifest) == code.name:
            return write_text(manifest_path(code), manifest)
    raise _irreparable(code, repository, wrong)


def _irreparable(code: Path, repository: Path, wrong: Mapping[str, str]) -> ValueError:
    commit, patch = _frozen_commit(code), _beside(code, ".patch")
    patched = f" with {patch}" if patch.exists() else ""
    restored = f", or check out commit {commit}{patched} and give this command again"
    return ValueError(
        f"the frozen code {code} is damaged ({in_words(wrong)}) and cannot be made again as it "
        f"was: {repository} has changed since. Nothing was submitted, as it would run other code: "
        "`python -m sweeps run` freezes the code as it is now and goes on with that"
        + (restored if commit else "")
    )


def _make_manifest(folder: Path, names: Iterable[str]) -> str:
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


def _copy_name(manifest: str) -> str:
    return _sha256(manifest.encode())[:NAME_DIGITS]


def _read_digests(code: Path) -> dict[str, str] | None:
    """By name; None where the file of digests is missing or not as it was written."""
    try:
        text = manifest_path(code).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    if _copy_name(text) != code.name:
        return None
    rows = (line.partition("  ") for line in text.removesuffix("\n").split("\n"))
    return {name: digest for digest, _, name in rows}


def _frozen_content(path: Path, digest: str) -> bytes | None:
    """What a file holds; None where it cannot be read, or is not what was frozen."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if _sha256(content) == digest else None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _fault(path: Path) -> str:
    return "was changed" if path.exists() else "is missing"


def _frozen_commit(code: Path) -> str | None:
    facts = readable_json(_beside(code, ".json"), {"git_commit": str})
    return None if facts is None else str(facts["git_commit"])


def _listing(repository: Path) -> tuple[bool, list[str]]:
    """Whether git tells, and the names of the files that are frozen."""
    listed = _git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not listed:
        own = (f"{each}/{name}" for each in PACKAGES for name in _files_of(repository / each))
        return listed is not None, sorted(own)
    names = listed.decode(errors="replace").strip("\0").split("\0")
    return True, sorted(name for name in names if (repository / name).is_file())


def _files_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.relative_to(folder).parts
    )


def _record(code: Path, repository: Path, is_git: bool) -> None:
    asked = ("diff --binary HEAD", "rev-parse HEAD", "ls-files --others --exclude-standard")
    outputs = [_git(repository, *words.split()) if is_git else None for words in asked]
    patch, commit, new = ((each or b"").decode(errors="replace") for each in outputs)
    if patch:
        write_text(_beside(code, ".patch"), patch)
    facts = {
        "source": str(repository),
        "git_commit": commit.strip() or None,
        "patched": bool(patch) if is_git else None,
        "untracked": new.splitlines() if is_git else None,
        "frozen": now(),
    }
    write_json(_beside(code, ".json"), facts)


def _git(repository: Path, *arguments: str) -> bytes | None:
    """What git prints; None outside a checkout or without git."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
