"""Where a run's Ray is, which task of a SLURM step this is, and what one does that joins another's
Ray, with a stand-in for `ray start`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.engines import processes
from fgrpo_bench.engines.openrlhf import cluster
from fgrpo_bench.engines.openrlhf.cluster import (
    Meeting,
    SlurmStep,
    fake_gpus,
    missing,
    slurm_step,
    start_arguments,
)
from fgrpo_bench.stages.stage import Stopped
from tests.support.plans import loaded

STEP = SlurmStep(rank=1, nodes=("n1", "n2"), node="n2", job=7, restarts=0)
FIRST = SlurmStep(rank=0, nodes=("n1", "n2", "n3"), node="n1", job=123, restarts=1)
ENVIRONMENT = {
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_PROCID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_JOB_ID": "7",
}


@pytest.fixture
def meeting(tmp_path: Path) -> Meeting:
    found = Meeting.from_step(tmp_path, STEP)
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
    meeting = Meeting.from_step(tmp_path, STEP)
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


@pytest.mark.parametrize("size", [5, 28, 29, 70, 71, 80])
def test_sockets_have_room_below_the_folder_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    usual = "/" + "x" * (size - 1)
    monkeypatch.setattr(tempfile, "tempdir", usual)
    of_ray = processes.short_folder(cluster.LONGEST_SOCKET)
    assert of_ray == (usual if size <= 28 else "/tmp")
    assert len(of_ray + cluster.LONGEST_SOCKET) <= 107
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", "of another test")
    monkeypatch.delenv("VLLM_RPC_BASE_PATH")
    processes.shorten_vllm_sockets()
    of_vllm = os.environ["VLLM_RPC_BASE_PATH"]
    assert of_vllm == (usual if size <= 70 else "/tmp")
    assert len(f"{of_vllm}/{uuid.uuid4()}") <= 107


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
    assert cluster.node_address() == "127.0.0.1"
    monkeypatch.setenv("FGRPO_RAY_HOST", "198.51.100.7")  # kept for documentation: nobody's
    with pytest.raises(
        ValueError, match=r"FGRPO_RAY_HOST='198.51.100.7' is no address of .*hostname"
    ):
        cluster.node_address()


def test_a_task_knows_its_nodes_its_place_and_its_attempt() -> None:
    found = slurm_step(ENVIRONMENT, {"n[1-2]": ["n1", "n2"]}.__getitem__)
    assert found == STEP
    again = slurm_step(ENVIRONMENT | {"SLURM_RESTART_COUNT": "3"}, lambda _: ["n1", "n2"])
    assert again is not None
    assert (found.key, again.key) == ("7.0", "7.3")


@pytest.mark.parametrize("environment", [{}, {"SLURM_NNODES": "2"}, {"SLURM_STEP_NUM_NODES": "1"}])
def test_outside_a_step_of_several_nodes_there_is_nothing_to_join(
    environment: dict[str, str],
) -> None:
    assert slurm_step(environment, str.split) is None


@pytest.mark.parametrize(
    ("changes", "nodes", "reference", "gpus"),
    [
        ({}, 2, False, 2),  # two of the policy and one engine
        ({}, 2, True, 3),
        ({"vllm_engines": 2, "vllm_tensor_parallel": 2}, 2, False, 3),
        ({"colocate": True, "actor_gpus_per_node": 4, "vllm_engines": 9}, 3, True, 4),
    ],
)
def test_without_gpus_ray_is_told_of_just_so_many_that_a_run_needs_all_nodes(
    changes: dict[str, int], nodes: int, reference: bool, gpus: int
) -> None:
    placement = loaded("rehearsal").profile.placement
    given = replace(placement, **changes)  # type: ignore[arg-type]
    assert fake_gpus(given, nodes=nodes, reference=reference) == gpus


def test_the_head_listens_where_it_is_told_and_the_others_join_it() -> None:
    head = start_arguments(FIRST, "10.0.0.1:20246", gpus=None, temporary=Path("/tmp/ray-x"))
    assert {"--head", "--node-ip-address=10.0.0.1", "--port=20246"} <= set(head)
    assert {"--ray-client-server-port=20247", "--temp-dir=/tmp/ray-x"} <= set(head)
    other = start_arguments(replace(FIRST, node="n2"), "10.0.0.1:20246", gpus=2, temporary=None)
    assert {"--address=10.0.0.1:20246", "--node-name=n2", "--num-gpus=2"} <= set(other)
    assert "--head" not in other
    assert not any(argument.startswith("--num-gpus") for argument in head)


def test_nodes_that_did_not_join_are_named_with_the_remedy() -> None:
    said = missing(FIRST, {"n1"}, seconds=120, logs=Path("/stage/nodes/123.1"))
    assert said.startswith("2 of 3 nodes did not join Ray within 120 s: n2, n3; ")
    assert "/stage/nodes/123.1" in said
    assert "profile.placement.start_seconds" in said and "FGRPO_RAY_HOST" in said


def test_the_tasks_of_one_attempt_meet_and_those_of_another_do_not(tmp_path: Path) -> None:
    meeting = Meeting.from_step(tmp_path, FIRST)
    meeting.tell("head", address="10.0.0.1:20246", gpus=None)
    assert Meeting.from_step(tmp_path, replace(FIRST, rank=1, node="n2")).read("head") == {
        "address": "10.0.0.1:20246",
        "gpus": None,
    }
    assert Meeting.from_step(tmp_path, replace(FIRST, restarts=2)).read("head") is None
    meeting.check(FIRST)
    meeting.tell("n3", failed="Ray ended there with exit code 1")
    with pytest.raises(RuntimeError, match="node n3 failed: Ray ended there with exit code 1"):
        meeting.check(FIRST)
