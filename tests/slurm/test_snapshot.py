"""Frozen code: what is taken, what is recorded, and that later edits do not reach it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fgrpo_bench.files import read_json
from sweeps.slurm import snapshot
from sweeps.slurm.snapshot import freeze_code


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
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_tracked_and_new_files_are_kept_and_ignored_ones_are_not(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "sweeps" / "a.py").write_text("a = 2\n")
    (checkout / "new.py").write_text("new\n")
    (checkout / "gone.py").unlink()
    code = freeze_code(tmp_path / "code", checkout)
    assert contents(code) == {
        ".gitignore": "runs/\n",
        "new.py": "new\n",
        "sweeps/a.py": "a = 2\n",
    }
    facts = read_json(code.with_name(code.name + ".json"))
    assert len(facts["git_commit"]) == 40
    assert (facts["patched"], facts["untracked"]) == (True, ["new.py"])
    patch = code.with_name(code.name + ".patch").read_text()
    assert "-a = 1\n+a = 2\n" in patch


def test_edits_make_another_copy_and_leave_the_first(checkout: Path, tmp_path: Path) -> None:
    first = freeze_code(tmp_path / "code", checkout)
    assert freeze_code(tmp_path / "code", checkout) == first
    before = contents(first)
    (checkout / "sweeps" / "a.py").write_text("a = 3\n")
    second = freeze_code(tmp_path / "code", checkout)
    assert second != first
    assert contents(first) == before
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == sorted(
        [first.name, f"{first.name}.json", second.name, f"{second.name}.json", *patches(second)]
    )


def patches(code: Path) -> list[str]:
    return [f"{code.name}.patch"]


def test_a_copy_outside_git_gives_its_packages(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    for name in ("sweeps/a.py", "fgrpo_bench/b.py", "numpy/c.py", "sweeps/__pycache__/a.pyc"):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(name)
    code = freeze_code(tmp_path / "code", installed)
    assert sorted(contents(code)) == ["fgrpo_bench/b.py", "sweeps/a.py"]
    assert read_json(code.with_name(code.name + ".json"))["git_commit"] is None


def test_a_large_file_among_the_code_is_refused_by_name(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_MEGABYTES", 0.5)
    (checkout / "weights.bin").write_bytes(b"0" * 1_000_000)
    with pytest.raises(ValueError, match=r"ignore what is no code in \.gitignore, e\.g\. weights"):
        freeze_code(tmp_path / "code", checkout)
    assert not (tmp_path / "code").exists()
