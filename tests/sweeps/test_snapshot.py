"""Frozen code: what is taken, what is recorded, and that later edits do not reach it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.whole import read_json
from sweeps.slurm import code as snapshot
from sweeps.slurm.code import damage, freeze_code, manifest_path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "sweeps").mkdir(parents=True)
    (folder / "sweeps" / "a.py").write_text("a = 1\n")
    (folder / "gone.py").write_text("")
    (folder / ".gitignore").write_text("runs/\n")
    (folder / "runs").mkdir()
    (folder / "runs" / "large").write_text("no code")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    return folder


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_tracked_and_new_files_are_kept_and_ignored_ones_are_not(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "sweeps" / "a.py").write_text("a = 2\n")
    (checkout / "new.py").write_text("new\n")
    (checkout / "gone.py").unlink()
    code = freeze_code(tmp_path / "code", checkout)
    kept = {".gitignore": "runs/\n", "new.py": "new\n", "sweeps/a.py": "a = 2\n"}
    assert contents(code) == kept
    facts = read_json(code.with_name(code.name + ".json"))
    assert len(facts["git_commit"]) == 40
    assert (facts["patched"], facts["untracked"]) == (True, ["new.py"])


def test_edits_make_another_copy_and_leave_the_first(checkout: Path, tmp_path: Path) -> None:
    first = freeze_code(tmp_path / "code", checkout)
    assert freeze_code(tmp_path / "code", checkout) == first
    before = contents(first)
    (checkout / "sweeps" / "a.py").write_text("a = 3\n")
    second = freeze_code(tmp_path / "code", checkout)
    assert second != first
    assert contents(first) == before
    assert {path.name for path in (tmp_path / "code").iterdir()} == {
        *(f"{code.name}{end}" for code in (first, second) for end in ("", ".json", ".sha256")),
    }


def test_a_copy_outside_git_gives_its_packages(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    for name in ("sweeps/a.py", "fgrpo_bench/b.py", "numpy/c.py", "sweeps/__pycache__/a.pyc"):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(name)
    code = freeze_code(tmp_path / "code", installed)
    assert sorted(contents(code)) == ["fgrpo_bench/b.py", "sweeps/a.py"]
    assert not list(code.rglob("*.pyc"))
    assert read_json(code.with_name(code.name + ".json"))["git_commit"] is None


def test_a_large_file_among_the_code_is_refused_by_name(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_MEGABYTES", 0.5)
    (checkout / "weights.bin").write_bytes(b"0" * 1_000_000)
    with pytest.raises(ValueError, match=r"ignore what is no code in \.gitignore, e\.g\. weights"):
        freeze_code(tmp_path / "code", checkout)
    assert not (tmp_path / "code").exists()


def lose_a_file(code: Path) -> None:
    (code / "sweeps" / "a.py").unlink()


def edit_a_file(code: Path) -> None:
    """Of the same size and with the old time, as no look at the folder would see."""
    path = code / "sweeps" / "a.py"
    before = path.stat()
    path.write_text("a = 9\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def lose_the_digests(code: Path) -> None:
    manifest_path(code).unlink()


def edit_the_digests(code: Path) -> None:
    text = manifest_path(code).read_text()
    manifest_path(code).write_text(text.replace("sweeps/a.py", "sweeps/b.py"))


def lose_all(code: Path) -> None:
    for path in code.parent.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


DAMAGES = {
    lose_a_file: {"sweeps/a.py": "is missing"},
    edit_a_file: {"sweeps/a.py": "was changed"},
    lose_the_digests: {"*.sha256": "is missing"},
    edit_the_digests: {"*.sha256": "was changed"},
    lose_all: {"*.sha256": "is missing"},
}


@pytest.mark.parametrize("strike", DAMAGES, ids=lambda strike: strike.__name__)
def test_a_damaged_copy_is_noticed_and_moved_aside_for_a_new_one(
    checkout: Path, tmp_path: Path, strike: Callable[[Path], None]
) -> None:
    code = freeze_code(tmp_path / "code", checkout)
    before = contents(code)
    (code / "sweeps" / "__pycache__").mkdir()
    (code / "sweeps" / "__pycache__" / "a.pyc").write_bytes(b"what stages leave is no damage")
    assert damage(code) == {}
    strike(code)
    named = {name.replace(code.name, "*"): fault for name, fault in damage(code).items()}
    assert named == DAMAGES[strike]
    damaged = contents(code) if code.exists() else None
    assert freeze_code(tmp_path / "code", checkout) == code
    assert (contents(code), damage(code)) == (before, {})
    assert read_json(code.with_name(code.name + ".json"))["patched"] is False
    if damaged is not None:
        assert contents(tmp_path / "code" / "damaged" / code.name) == damaged


def test_the_digests_are_those_of_sha256sum(checkout: Path, tmp_path: Path) -> None:
    """Jobs compare with it, as nothing of the copy can be trusted to."""
    code = freeze_code(tmp_path / "code", checkout)
    command = ["sha256sum", "--check", "--quiet", str(manifest_path(code))]
    assert subprocess.run(command, cwd=code, check=True, capture_output=True).stdout == b""
    lose_a_file(code)
    assert subprocess.run(command, cwd=code, capture_output=True).returncode == 1


def test_a_name_that_cannot_stand_in_a_line_is_refused(checkout: Path, tmp_path: Path) -> None:
    (checkout / "a\nb.py").write_text("")
    with pytest.raises(ValueError, match=r"'a\\nb.py' has a line break .*: rename it"):
        freeze_code(tmp_path / "code", checkout)
