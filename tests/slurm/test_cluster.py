"""The private cluster is a real SLURM: it runs, accounts, preempts, requeues and survives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES
from tests.slurm.processes import wait_until

WHOLE_CLUSTER = ("--nodes=4", "--ntasks=4", "--cpus-per-task=8")


def restarts(cluster: Cluster, job: str) -> int:
    return int(cluster.run("squeue", "-h", "-t", "all", "-j", job, "-O", "RestartCnt"))


def accounted(cluster: Cluster, job: str) -> str:
    """The state in the accounting database, without who cancelled it; empty before it is known."""
    return cluster.sacct("--jobs", job, "--allocations", "--format=State").split(" ")[0]


def wait_for_accounting(cluster: Cluster, job: str, state: str) -> None:
    what = f"{state} of job {job} in sacct"
    wait_until(lambda: accounted(cluster, job) == state, what=what, within_s=20)


def test_every_node_is_idle_at_the_start(cluster: Cluster) -> None:
    lines = cluster.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T %c %G").splitlines()
    assert lines == [f"{node} idle 8 gpu:4" for node in NODES]


def test_a_job_runs_and_is_accounted_for(cluster: Cluster, tmp_path: Path) -> None:
    good = cluster.sbatch("echo $SLURMD_NODENAME", f"--output={tmp_path}/out")
    bad = cluster.sbatch("exit 3")
    wait_for_accounting(cluster, good, "COMPLETED")
    wait_for_accounting(cluster, bad, "FAILED")
    assert (tmp_path / "out").read_text().strip() in NODES
    assert cluster.sacct("-X", "-j", bad, "-o", "ExitCode") == "3:0"


def test_two_jobs_on_a_node_get_different_gpus(cluster: Cluster, tmp_path: Path) -> None:
    script = 'echo "${CUDA_VISIBLE_DEVICES-unset}"; sleep 2'
    jobs = [
        cluster.sbatch(script, "--gres=gpu:2", "--nodelist=n1", f"--output={tmp_path}/{i}")
        for i in range(2)
    ]
    third = cluster.sbatch("true", "--gres=gpu:1", "--nodelist=n1")
    for job in jobs:
        cluster.wait_for_state(job, "RUNNING")
    assert cluster.state(third) == "PENDING"
    wait_until(
        lambda: all((tmp_path / str(i)).read_text().strip() for i in range(2)),
        what="both jobs' output",
        within_s=10,
    )
    seen = [(tmp_path / str(i)).read_text().strip() for i in range(2)]
    with_devices = list((cluster.settings.folder / "dev").iterdir())
    assert sorted(seen) == (["0,1", "2,3"] if with_devices else ["unset", "unset"])


def test_preemption_signals_requeues_and_runs_again(cluster: Cluster, tmp_path: Path) -> None:
    # SLURM signals the step, not the batch shell. One that ended of itself would not be requeued.
    step = "trap 'echo USR2' USR2; echo start; while :; do sleep 0.1; done"
    low = cluster.sbatch(
        f'if [ "$SLURM_RESTART_COUNT" ]; then echo again; else srun bash -c "{step}"; fi',
        "--partition=gpu",
        "--signal=USR2@1",
        "--open-mode=append",
        f"--output={tmp_path}/out",
        "--nodelist=n1",
        "--gres=gpu:4",
    )
    wait_until(
        lambda: (tmp_path / "out").exists() and "start" in (tmp_path / "out").read_text(),
        what="the first start",
        within_s=20,
    )
    high = cluster.sbatch("true", "--partition=high", "--nodelist=n1", "--gres=gpu:4")
    cluster.wait_for_state(high, "COMPLETED")
    cluster.wait_for_state(low, "COMPLETED", within_s=40)
    words = (tmp_path / "out").read_text().split()
    assert words[:2] == ["start", "USR2"]
    assert words[-1] == "again"


def test_a_job_of_a_lost_node_runs_elsewhere(cluster: Cluster) -> None:
    job = cluster.sbatch('[ "$SLURM_RESTART_COUNT" ] || sleep 60')
    cluster.wait_for_state(job, "RUNNING")
    lost = cluster.node_of(job)
    cluster.node_down(lost)
    cluster.wait_for_state(job, "PENDING")
    cluster.wait_for_state(job, "COMPLETED", within_s=40)
    assert restarts(cluster, job) == 1
    cluster.node_up(lost)
    cluster.wait_for_idle()


def test_a_running_job_outlives_a_restart_of_the_controller(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = cluster.sbatch(f"until [ -e {tmp_path}/go ]; do sleep 0.1; done")
    cluster.wait_for_state(job, "RUNNING")
    cluster.restart_slurmctld()
    assert cluster.state(job) == "RUNNING"
    (tmp_path / "go").touch()
    cluster.wait_for_state(job, "COMPLETED")
    assert restarts(cluster, job) == 0


def test_accounting_that_was_down_catches_up(cluster: Cluster) -> None:
    cluster.stop_slurmdbd()
    job = cluster.sbatch("true")
    cluster.wait_for_state(job, "COMPLETED")
    with pytest.raises(RuntimeError, match="sacct"):
        cluster.sacct("-j", job)
    cluster.start_slurmdbd()
    wait_for_accounting(cluster, job, "COMPLETED")


def test_another_array_limit_holds_for_a_while(cluster: Cluster) -> None:
    with cluster.changed(max_array_size=4, preempt_signal=False):
        config = cluster.scontrol("show", "config")
        assert "preempt_send_user_signal" not in config
        with pytest.raises(RuntimeError, match="Invalid job array specification"):
            cluster.sbatch("true", "--array=0-4")
        cluster.sbatch("true", "--array=0-3")
    assert "preempt_send_user_signal" in cluster.scontrol("show", "config")
    cluster.sbatch("true", "--array=0-4")


def test_reset_mends_what_a_test_broke(cluster: Cluster) -> None:
    job = cluster.sbatch("sleep 60", *WHOLE_CLUSTER)
    cluster.wait_for_state(job, "RUNNING")
    cluster.kill_slurmd("n2")
    cluster.node_down("n3")
    cluster.stop_slurmctld()
    cluster.reset()
    cluster.wait_for_idle(within_s=0)


def test_nothing_is_left_of_a_cluster_that_was_taken_down() -> None:
    with Cluster() as other:
        folder, conf = other.settings.folder, other.environment["SLURM_CONF"]
        job = other.sbatch("sleep 60 & setsid sleep 61 & wait")
        other.wait_for_state(job, "RUNNING")
        assert processes_that_name(str(folder))
    assert not folder.exists()
    assert processes_that_name(str(folder)) == []
    assert conf not in os.environ.values()


def processes_that_name(text: str) -> list[str]:
    """The command lines of the processes whose arguments or environment hold the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes()
            if text.encode() in arguments + (folder / "environ").read_bytes():
                found.append(arguments.replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
