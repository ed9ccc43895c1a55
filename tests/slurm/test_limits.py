"""Limits that change while the jobs of a sweep wait on a real SLURM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from sweeps.slurm import drive, scheduler
from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES, user_name
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    all_done,
    check_begun_once,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    start_fake,
)

EVAL = ("profile.partition=eval", "profile.signal_seconds=20")
POLLS = 6


class SeenEnough(Exception):
    """Ends a `follow` that would go on."""


def followed(paths: RunPaths) -> list[str]:
    """What `follow` says while it looks POLLS times."""
    polls, lines = 0, list[str]()

    def call(command: list[str]) -> str:
        nonlocal polls
        polls += command[0] == "squeue"
        if polls > POLLS:
            raise SeenEnough
        return scheduler.call(command)

    with pytest.raises(SeenEnough):
        drive.follow(paths, seconds=0.1, say=lines.append, call=call)
    return lines


@contextmanager
def nothing_begins(cluster: Cluster) -> Iterator[None]:
    """No node takes a job meanwhile."""
    for node in NODES:
        cluster.scontrol("update", f"nodename={node}", "state=drain", "reason=test")
    yield
    for node in NODES:
        cluster.scontrol("update", f"nodename={node}", "state=resume")


@contextmanager
def partition(cluster: Cluster, *changes: str) -> Iterator[None]:
    """The partition `eval` with these settings."""
    cluster.scontrol("update", "partitionname=eval", *changes)
    try:
        yield
    finally:
        cluster.scontrol("update", "partitionname=eval", "maxtime=60", "state=up")


def wait_for_reason(cluster: Cluster, reason: str) -> None:
    wait_until(lambda: reason in cluster.squeue("--format=%r"), what=f"jobs that wait for {reason}")


@pytest.mark.fault
def test_a_time_limit_that_is_lowered_under_waiting_jobs_is_said_and_a_new_one_reaches_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with partition(cluster, "maxtime=60"), nothing_begins(cluster):
        paths = start_fake(tmp_path, monkeypatch, *EVAL)
        with partition(cluster, "maxtime=2"):
            wait_for_reason(cluster, "PartitionTimeLimit")
            lines = followed(paths)
            told = [line for line in lines if "SLURM says PartitionTimeLimit" in line]
            assert len(told) == 1, lines
            assert "give `run` with a lower profile.time_minutes" in told[0]
            assert any("PartitionTimeLimit" in line for line in lines if " active (" in line)
            capsys.readouterr()
            start_fake(tmp_path, monkeypatch, *EVAL, "profile.time_minutes=2")
            said = capsys.readouterr().out
            assert "6 jobs that waited: sent again with --time=2 in place of --time=5" in said
            limits = cluster.squeue("--array", "--state=PENDING", "--format=%l").split()
            assert limits == ["2:00"] * 7, "six stages and the report"
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_a_quality_of_service_that_allows_less_time_is_said_and_so_is_a_suspended_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    cluster.add_account("lab")
    cluster.sacctmgr("add", "qos", "short", "maxwall=2")
    cluster.sacctmgr("modify", "user", user_name(), "set", "qos+=short")
    chosen = ("profile.account=lab", "profile.qos=short", "profile.signal_seconds=20")
    hold(tmp_path).touch()
    with cluster.changed(enforce_accounts=True):
        paths = start_fake(tmp_path, monkeypatch, *chosen)
        wait_for_reason(cluster, "QOSMaxWallDurationPerJobLimit")
        (told, *_) = [line for line in followed(paths) if "says QOSMaxWallDurationPerJob" in line]
        assert "give `run` with a lower profile.time_minutes or another profile.qos" in told
        start_fake(tmp_path, monkeypatch, *chosen, "profile.time_minutes=2")
        job = job_at_hold(paths)
        cluster.scontrol("suspend", job)
        assert any("suspended 1" in line for line in followed(paths) if " active (" in line)
        cluster.scontrol("resume", job)
        hold(tmp_path).unlink()
        fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_jobs_that_wait_for_a_partition_that_was_closed_go_to_another(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with nothing_begins(cluster):
        paths = start_fake(tmp_path, monkeypatch, *EVAL)
        with partition(cluster, "state=down"):
            wait_for_reason(cluster, "PartitionDown")
            told = [line for line in followed(paths) if "SLURM says PartitionDown" in line]
            assert len(told) == 1
            assert "another profile.partition" in told[0]
            capsys.readouterr()
            start_fake(tmp_path, monkeypatch, "profile.signal_seconds=20")
            said = capsys.readouterr().out
            assert "sent again with --partition=gpu in place of --partition=eval" in said
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_jobs_that_are_held_by_hand_are_said_to_be_and_go_on_when_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    with nothing_begins(cluster):
        paths = start_fake(tmp_path, monkeypatch)
        (warmup, *_) = sorted(set(cluster.squeue("--format=%F").split()), key=int)
        cluster.scontrol("uhold", warmup)
        told = [line for line in followed(paths) if "somebody holds them: `scontrol rel" in line]
        assert len(told) == 1
        cluster.scontrol("release", warmup)
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
def test_the_same_run_again_leaves_waiting_jobs_where_they_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with nothing_begins(cluster):
        start_fake(tmp_path, monkeypatch)
        before = set(cluster.squeue("--array", "--format=%i").split())
        start_fake(tmp_path, monkeypatch, "profile.max_parallel=2")
        assert set(cluster.squeue("--array", "--format=%i").split()) == before
    assert "sent again" not in capsys.readouterr().out
