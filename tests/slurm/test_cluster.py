"""The private cluster is a real SLURM: it runs, accounts, preempts, requeues and survives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES
from tests.slurm.processes import wait_until

WHOLE_CLUSTER = ("--nodes=4", "--ntasks=4", "--cpus-per-task=8")
ALL_OF_N1 = ("--nodelist=n1", "--gres=gpu:4")


def restarts(cluster: Cluster, job: str) -> int:
    return int(cluster.run("squeue", "-h", "-t", "all", "-j", job, "-O", "RestartCnt"))


def accounted(cluster: Cluster, job: str) -> str:
    """The state in the accounting database, without who cancelled it; empty before it is known."""
    return cluster.sacct("--jobs", job, "--allocations", "--format=State").split(" ")[0]


def wait_for_accounting(cluster: Cluster, job: str, state: str) -> None:
    what = f"{state} of job {job} in sacct"
    wait_until(lambda: accounted(cluster, job) == state, what=what)


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
    script = (
        f'echo "${{CUDA_VISIBLE_DEVICES-unset}}"; until [ -e {tmp_path}/go ]; do sleep 0.1; done'
    )
    jobs = [
        cluster.sbatch(script, "--gres=gpu:2", "--nodelist=n1", f"--output={tmp_path}/{i}")
        for i in range(2)
    ]
    third = cluster.sbatch("true", "--gres=gpu:1", "--nodelist=n1")

    def said() -> list[str]:
        return [(tmp_path / str(i)).read_text().strip() for i in range(2)]

    wait_until(lambda: all(said()), what=f"output of jobs {jobs}")
    assert cluster.state(third) == "PENDING"
    devices = (cluster.settings.folder / "dev" / "gpu0").is_char_device()
    assert sorted(said()) == (["0,1", "2,3"] if devices else ["unset", "unset"])
    (tmp_path / "go").touch()
    cluster.wait_for_state(third, "COMPLETED")


def submit_preemptible(cluster: Cluster, output: Path, *, on_signal: str) -> str:
    """A started job on all of n1's GPUs that runs the command when USR2 reaches its step."""
    # SLURM signals the step, not the batch shell. One that ended of itself would not be requeued.
    # It writes by itself: what goes through srun is lost when a requeue kills srun first.
    said = f"echo USR2 >> {output}"
    step = f"trap '{said}; {on_signal}' USR2; echo start; while :; do sleep 0.1; done"
    job = cluster.sbatch(
        f'if [ "$SLURM_RESTART_COUNT" ]; then echo again; else srun bash -c "{step}"; fi',
        "--signal=USR2@1",
        "--open-mode=append",
        f"--output={output}",
        *ALL_OF_N1,
    )
    wait_until(lambda: "start" in output.read_text(), what="its start")
    return job


def test_a_preempted_job_is_signalled_gives_way_and_runs_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    low = submit_preemptible(cluster, output, on_signal="scontrol requeue $SLURM_JOB_ID")
    going = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    high = cluster.sbatch(going, "--partition=high", *ALL_OF_N1)
    cluster.wait_for_state(high, "RUNNING")
    cluster.wait_for_state(low, "PENDING")
    (tmp_path / "go").touch()
    cluster.wait_for_state(low, "COMPLETED")
    assert cluster.state(high) == "COMPLETED"
    words = output.read_text().split()
    assert "USR2" in words
    assert (words[0], words[-1]) == ("start", "again")


@pytest.mark.slow  # SLURM looks only every 30 s whether a time of grace is over
def test_a_preempted_job_that_does_nothing_is_requeued_by_slurm(
    cluster: Cluster, tmp_path: Path
) -> None:
    low = submit_preemptible(cluster, tmp_path / "out", on_signal="true")
    high = cluster.sbatch("true", "--partition=high", *ALL_OF_N1)
    cluster.wait_for_state(high, "COMPLETED")
    cluster.wait_for_state(low, "COMPLETED")
    assert restarts(cluster, low) == 1


def test_a_job_of_a_lost_node_runs_elsewhere(cluster: Cluster) -> None:
    job = cluster.sbatch('[ "$SLURM_RESTART_COUNT" ] || sleep 60')
    cluster.wait_for_state(job, "RUNNING")
    lost = cluster.node_of(job)
    cluster.node_down(lost)
    cluster.wait_for_state(job, "COMPLETED")
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
    cluster.stop_slurmdbd()
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
