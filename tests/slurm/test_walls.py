"""What another attempt would only meet again: a full disk, and a stage that gets no further."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.stages.attempts import attempts
from sweeps.cli import main
from sweeps.slurm import tick
from sweeps.slurm.decide import Decision
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    POINT,
    all_done,
    check_complete,
    check_fake,
    fake_until,
    finish_fake,
    hold,
    start_fake,
    start_held,
)
from tests.support.fake_stage import fake_command

pytestmark = pytest.mark.usefixtures("cluster")
FULL = "No space left on device"
MEMORY = "want of memory"


def at_rest(decision: Decision) -> bool:
    return not tick.is_pending(decision)


def status(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status", "smoke", f"run_root={root}"]) == 0
    return capsys.readouterr().out


@pytest.mark.fault
def test_a_stage_that_a_full_disk_ends_names_the_file_and_not_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own file leads to /dev/full, where every write ends as on a full disk."""
    file = tmp_path / "smoke/countdown-tiny/v1" / POINT / "steps.jsonl"
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/full")
    paths = start_fake(tmp_path, monkeypatch)
    wait_until(
        lambda: any(note.outcome is not None for note in attempts(paths.point(POINT))),
        what=f"the end of {POINT}",
    )
    words = f"disk full: cannot append to {file}: {FULL}"
    wait_until(lambda: words in status(tmp_path, capsys), what="its end in SLURM's queue")
    file.unlink()
    fake_until(paths, all_done)
    said = capsys.readouterr().out
    assert f"{POINT}: {words}" in said
    assert MEMORY not in said
    check_fake(paths)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, 40 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match=FULL):
        while True:
            file.write(bytes(1_000_000))
    with ballast.open("ab", buffering=0) as file, pytest.raises(OSError, match=FULL):
        while True:
            file.write(bytes(512))
    return ballast


def wait_for_an_empty_queue(cluster: Cluster) -> None:
    wait_until(lambda: not cluster.squeue(), what="an empty queue")


def check_refused(paths: RunPaths, capsys: pytest.CaptureFixture[str], *, words: str) -> None:
    """`tick` and `status` name the disk, and nothing is sent."""
    root, before = paths.root, paths.submissions.read_bytes()
    for _ in range(2):
        capsys.readouterr()
        assert main(["tick", "smoke", f"run_root={root}"]) == 2
        said = capsys.readouterr()
        assert f"disk full: cannot write under {paths.folder}: {FULL}" in said.err
    assert paths.submissions.read_bytes() == before
    assert words in status(root, capsys)
    assert MEMORY not in said.out


@pytest.mark.slow
@pytest.mark.fault
def test_a_disk_that_fills_up_under_a_stage_is_named_and_nothing_is_sent_until_there_is_room(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    disk: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    paths, _ = start_held(disk, monkeypatch)
    ballast = fill(disk)
    hold(disk).unlink()
    wait_for_an_empty_queue(cluster)
    check_refused(paths, capsys, words="disk full: ")
    ballast.unlink()
    fake_until(paths, all_done)
    assert MEMORY not in capsys.readouterr().out
    check_fake(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_a_disk_that_is_full_when_jobs_begin_is_named_and_does_not_end_the_sweep(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    disk: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hold(disk).touch()
    paths = start_fake(disk, monkeypatch, FAKE_HELD="_warmup")
    wait_until(lambda: (paths.warmup(11).folder / "saved.json").exists(), what="a save")
    with cluster.drained():
        hold(disk).unlink()
        cluster.wait_for_state(str(attempts(paths.warmup(11))[-1].job_id), "COMPLETED")
        ballast = fill(disk)
    wait_for_an_empty_queue(cluster)
    check_refused(paths, capsys, words="disk full? it could not even write its log")
    ballast.unlink()
    fake_until(paths, all_done)
    check_complete(paths)


@pytest.mark.fault
def test_a_stage_that_is_killed_before_its_first_save_every_time_is_given_up_with_these_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_KILLED", POINT)
    paths = start_fake(tmp_path, monkeypatch, "profile.max_attempts=9")
    decision = fake_until(paths, at_rest)
    assert "killed; it got no further in 3 attempts" in tick.failed(decision)[POINT]
    assert len(attempts(paths.point(POINT))) == 3
    assert "it got no further in 3 attempts" in status(tmp_path, capsys)
    assert tick.tick(paths, say=print, command=fake_command).submit == ()
    monkeypatch.delenv("FAKE_KILLED")
    start_fake(tmp_path, monkeypatch, "profile.max_attempts=9")
    finish_fake(paths)
