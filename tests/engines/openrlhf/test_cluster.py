"""Where a run's Ray is, and what a task does that joins another's, with a stand-in for `ray
start`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from fgrpo_bench.engines import processes
from fgrpo_bench.engines.openrlhf import cluster
from fgrpo_bench.engines.openrlhf.cluster import Meeting, SlurmStep
from fgrpo_bench.stages.stage import Stopped

STEP = SlurmStep(rank=1, nodes=("n1", "n2"), node="n2", job=7, restarts=0)


@pytest.fixture
def meeting(tmp_path: Path) -> Meeting:
    found = Meeting.of(tmp_path, STEP)
    temporary = tmp_path / "ray"
    temporary.mkdir()
    found.tell("head", address="127.0.0.1:1", temporary=str(temporary), gpus=None)
    return found


def stand_in(monkeypatch: pytest.MonkeyPatch, meeting: Meeting, script: str) -> None:
    def start(*_: object, **__: object) -> subprocess.Popen[bytes]:
        with meeting.log("n2").open("wb") as log:
            return subprocess.Popen(["sh", "-c", script], stdout=log)

    monkeypatch.setattr(cluster, "start", start)
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.01)


def test_a_task_whose_first_one_ended_before_ray_began_ends_too(tmp_path: Path) -> None:
    meeting = Meeting.of(tmp_path, STEP)
    meeting.tell("over", exit_code=1)
    assert cluster.join(STEP, meeting) == 0


@pytest.mark.parametrize(("exit_code", "kept"), [(0, False), (75, False), (1, True)])
def test_ray_ends_with_the_first_task_and_its_logs_stay_where_that_failed(
    monkeypatch: pytest.MonkeyPatch, meeting: Meeting, tmp_path: Path, exit_code: int, kept: bool
) -> None:
    stand_in(monkeypatch, meeting, "exec sleep 60")
    meeting.tell("over", exit_code=exit_code)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert cluster.join(STEP, meeting) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert (tmp_path / "ray").exists() == kept


def test_a_node_whose_ray_ends_early_fails_and_says_so_to_the_first_task(
    monkeypatch: pytest.MonkeyPatch, meeting: Meeting, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, meeting, "echo the disk is full; exit 3")
    assert cluster.join(STEP, meeting) == 1
    said = "node n2 failed: Ray ended there with exit code 3; it said: the disk is full"
    assert said in capsys.readouterr().err
    with pytest.raises(RuntimeError, match=said):
        meeting.check(STEP)


def test_a_node_fails_where_the_head_is_gone_without_a_word(
    monkeypatch: pytest.MonkeyPatch, meeting: Meeting, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, meeting, "exec sleep 60")
    monkeypatch.setattr(cluster, "LOST_SECONDS", 0.05)
    assert cluster.join(STEP, meeting) == 1
    assert "Ray's head at 127.0.0.1:1 is gone" in capsys.readouterr().err


def test_two_jobs_on_one_host_have_heads_at_different_ports() -> None:
    first = cluster.free_address("127.0.0.1", 7)
    port = int(first.rpartition(":")[2])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        second = cluster.free_address("127.0.0.1", 7)
    assert abs(int(second.rpartition(":")[2]) - port) >= 2


@pytest.mark.parametrize(("size", "stays"), [(5, True), (28, True), (29, False), (80, False)])
def test_rays_sockets_have_room_below_the_folder_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, size: int, stays: bool
) -> None:
    usual = "/" + "x" * (size - 1)
    monkeypatch.setattr(tempfile, "tempdir", usual)
    folder = processes.short_folder(cluster.LONGEST_SOCKET)
    assert folder == (usual if stays else "/tmp")
    assert len(folder + cluster.LONGEST_SOCKET) <= 107


@pytest.mark.parametrize(("size", "stays"), [(70, True), (71, False), (80, False)])
def test_vllms_sockets_have_room_below_the_folder_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, size: int, stays: bool
) -> None:
    usual = "/" + "x" * (size - 1)
    monkeypatch.setattr(tempfile, "tempdir", usual)
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", "of another test")
    monkeypatch.delenv("VLLM_RPC_BASE_PATH")
    processes.shorten_vllm_sockets()
    folder = os.environ["VLLM_RPC_BASE_PATH"]
    assert folder == (usual if stays else "/tmp")
    assert len(f"{folder}/{uuid.uuid4()}") <= 107


@pytest.mark.parametrize(
    ("error", "kept"), [(None, False), (Stopped("saved"), False), (OSError("full"), True)]
)
def test_rays_folder_stays_for_its_logs_where_a_run_fails(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception | None,
    kept: bool,
) -> None:
    monkeypatch.setattr(cluster, "short_folder", lambda longest: str(tmp_path))
    try:
        with cluster.ray_folder() as folder:
            assert folder.parent == tmp_path and folder.stat().st_mode & 0o077 == 0
            if error is not None:
                raise error
    except type(error or Stopped()) as raised:
        assert raised is error
    assert folder.exists() == kept
    assert (f"Ray's logs are in {folder}" in capsys.readouterr().out) == kept


def test_a_node_without_a_default_route_is_told_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FGRPO_RAY_HOST", "127.0.0.1")
    assert cluster.own_host() == "127.0.0.1"
    monkeypatch.setenv("FGRPO_RAY_HOST", "198.51.100.7")  # kept for documentation: nobody's
    with pytest.raises(
        ValueError, match=r"FGRPO_RAY_HOST='198.51.100.7' is no address of .*hostname"
    ):
        cluster.own_host()
