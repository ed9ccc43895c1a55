"""Limits that change while the jobs of a sweep wait on a real SLURM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from sweeps.slurm import drive, scheduler
from tests.slurm.cluster import Cluster
from tests.slurm.config import user_name
from tests.slurm.processes import wait_until
from tests.slurm.running import check_begun_once, finish_fake, hold, job_at_hold, start_fake

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
@pytest.mark.parametrize(
    ("change", "reason", "remedy", "chosen", "resent"),
    [
        (
            "maxtime=2",
            "PartitionTimeLimit",
            "give `run` with a lower profile.time_minutes",
            [*EVAL, "profile.time_minutes=2"],
            "--time=2 in place of --time=5",
        ),
        pytest.param(
            "state=down",
            "PartitionDown",
            "another profile.partition",
            ["profile.signal_seconds=20"],
            "--partition=gpu in place of --partition=eval",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["less-time", "closed"],
)
def test_a_partition_that_changes_under_waiting_jobs_is_said_and_a_remedy_reaches_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    change: str,
    reason: str,
    remedy: str,
    chosen: list[str],
    resent: str,
) -> None:
    with cluster.drained():
        paths = start_fake(tmp_path, monkeypatch, *EVAL)
        capsys.readouterr()
        start_fake(tmp_path, monkeypatch, *EVAL, "profile.max_parallel=2")
        assert "sent again" not in capsys.readouterr().out, "they wait where they are"
        with partition(cluster, change):
            wait_for_reason(cluster, reason)
            lines = followed(paths)
            (told,) = [line for line in lines if f"SLURM says {reason}" in line]
            assert remedy in told
            assert any(reason in line for line in lines if " active (" in line)
            capsys.readouterr()
            start_fake(tmp_path, monkeypatch, *chosen)
            assert f"6 jobs that waited: sent again with {resent}" in capsys.readouterr().out
            waiting = cluster.squeue("--array", "--state=PENDING", "--format=%l").split()
            assert len(waiting) == 7, "six stages and the report"
            if change == "maxtime=2":
                assert set(waiting) == {"2:00"}
    finish_fake(paths)
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
        finish_fake(paths)
    check_begun_once(paths)
