"""What may befall a running job of a sweep, by the cluster, the sweep and the job's id.

Where a job is told to end, a strike is over when its attempt has noted that it stopped.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.attempts import attempts
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import POINT, logs

Strike = Callable[[Cluster, RunPaths, str], None]


def wait_for_stop(paths: RunPaths) -> None:
    """Or until the next attempt begins, where SLURM killed the job before it could note its end."""
    stage = paths.point(POINT)

    def stopped() -> bool:
        notes = attempts(stage)
        return len(notes) > 1 or notes[0].outcome == "stopped"

    wait_until(stopped, what=f"a stop of {POINT}")


def requeue(cluster: Cluster, paths: RunPaths, job: str) -> None:
    cluster.scontrol("requeue", job)
    wait_for_stop(paths)


def preempt(cluster: Cluster, paths: RunPaths, job: str) -> None:
    cluster.sbatch("sleep 3", "--partition=high", "--nodes=4", "--exclusive")
    wait_for_stop(paths)


def lose_node(cluster: Cluster, paths: RunPaths, job: str) -> None:
    """The node is declared down, and is back as soon as its job is off it."""
    node = cluster.node_of(job)
    cluster.node_down(node)
    wait_for_stop(paths)
    cluster.wait_for_state(job, "PENDING", "RUNNING", "COMPLETED")
    cluster.node_up(node)


def kill_controller(cluster: Cluster, paths: RunPaths, job: str) -> None:
    """It loses what it has not saved yet."""
    cluster.restart_slurmctld(signal.SIGKILL)


def kill_slurmd(cluster: Cluster, paths: RunPaths, job: str) -> None:
    """The stage goes on, watched by nobody, until SLURM has begun it again on another node.

    It stands still meanwhile, so that it is not done before.
    """
    stage = paths.point(POINT)
    with still(stage):
        cluster.kill_slurmd(cluster.node_of(job))
        what = f"a second execution of {POINT}"
        wait_until(lambda: waits_for_first(stage), what=what)


def waits_for_first(stage: StagePaths) -> bool:
    """Whether a second execution has come to the lock that the first one holds."""
    return any("waiting for process" in log for log in logs(stage)[1:])


@contextmanager
def still(stage: StagePaths) -> Iterator[None]:
    """Stop the process of a stage meanwhile, again and again: SLURM's own signals wake it."""
    pid, over = read_json(stage.owner)["pid"], threading.Event()

    def stop() -> None:
        with suppress(ProcessLookupError):
            while not over.wait(0.005):
                os.kill(pid, signal.SIGSTOP)

    os.kill(pid, signal.SIGSTOP)
    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        yield
    finally:
        over.set()
        stopping.join()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
