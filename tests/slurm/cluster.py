"""A private, disposable SLURM cluster on this machine, for tests and by hand.

It is a real one: munged, MariaDB, slurmdbd, slurmctld and four slurmd nodes of 8 CPUs and 4 GPUs
each, with the preemptible partitions `gpu` (default) and `eval` and the partition `high` that
preempts both. All of it lives in one temporary folder, listens on 127.0.0.1 and is found through
SLURM_CONF. config.py has its settings, client.py the commands that a test may give.

In a test under tests/slurm, take the fixture; it sets SLURM_CONF and PATH in os.environ, so that
submitit and child processes find the cluster:

    def test_a_job_survives_a_lost_node(cluster: Cluster) -> None:
        job = cluster.sbatch("sleep 30", "--gres=gpu:1")
        cluster.wait_for_state(job, "RUNNING")
        cluster.node_down(cluster.node_of(job))
        ...
        with cluster.changed(enforce_accounts=True):
            ...

After each test the fixture starts what is down and cancels what is queued, so that a test starts
from idle nodes and needs no cleaning up of its own.

By hand, `python -m tests.slurm.cluster` is a shell on a cluster that ends with it.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tests.slurm import bringup
from tests.slurm.client import Client
from tests.slurm.config import CLUSTER_NAME, N_PORTS, NODES, Settings, user_name
from tests.slurm.install import SEARCH_PATH, SLURM
from tests.slurm.processes import Daemon, job_processes, kill, wait_until
from tests.support.servers import free_port


class Cluster(Client):
    """A cluster in a new folder; `with Cluster() as cluster:` brings it up and takes it down."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.settings = Settings(folder=folder, first_port=free_port(N_PORTS))

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to find this cluster: SLURM_CONF, and a PATH with the daemons."""
        return {"SLURM_CONF": str(self.settings.slurm_conf), "PATH": SEARCH_PATH}

    def __enter__(self) -> Cluster:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.down()

    def up(self) -> None:
        """Starts every daemon and returns when all nodes are idle; if it fails, nothing is left."""
        try:
            self._start_everything()
        except BaseException as error:
            error.add_note(bringup.last_words(self.settings.folder))
            self.down()
            raise

    def _start_everything(self) -> None:
        SLURM.require()
        bringup.write_files(self.settings)
        self._start("munged")
        wait_until(self.settings.munge_socket.exists, what="munged's socket")
        bringup.install_database(self.settings)
        self._start("mariadbd")
        bringup.make_accounts(self.settings)
        self.start_slurmdbd()
        self.run("sacctmgr", "--immediate", "add", "cluster", CLUSTER_NAME)
        self.start_slurmctld()
        for node in NODES:
            self.start_slurmd(node)
        self.wait_for_idle()

    def down(self) -> None:
        """Ends every process of the cluster, jobs included, and removes its folder."""
        for name in ("slurmctld", *NODES):
            self._daemon(name).stop(signal.SIGKILL)
        while pids := job_processes(self.settings.slurm_conf):
            kill(pids)
        for name in ("slurmdbd", "mariadbd", "munged"):
            self._daemon(name).stop(signal.SIGKILL)
        shutil.rmtree(self.settings.folder, ignore_errors=True)

    def _daemon(self, name: str) -> Daemon:
        return Daemon(name, self.settings.folder, bringup.command(self.settings, name))

    def _start(self, name: str) -> None:
        environment = {**os.environ, **self.environment}
        self._daemon(name).start(environment)

    def reset(self) -> None:
        """Starts what is down, takes nodes back, cancels every job and waits for idle nodes."""
        if self._daemon("slurmdbd").pid() is None:
            self.start_slurmdbd()
        if self._daemon("slurmctld").pid() is None:
            self.start_slurmctld()
        for node in NODES:
            if self._daemon(node).pid() is None:
                self.start_slurmd(node)
            self.node_up(node)
        self.run("scancel", f"--user={user_name()}")
        self.wait_for_idle(within_s=120)  # on a busy machine a node that was lost is long in coming

    # What befalls a cluster

    def start_slurmctld(self) -> None:
        self._start("slurmctld")
        wait_until(lambda: self.answers("scontrol", "ping"), what="slurmctld")

    def stop_slurmctld(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._daemon("slurmctld").stop(number)

    def restart_slurmctld(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.stop_slurmctld(number)
        self.start_slurmctld()

    def lose_state(self, *, next_job_id: int) -> None:
        """Kills the controller and starts it with an empty state: it knows no job, ends those that
        run once their nodes have come back, after some 5 s, and gives out ids from next_job_id on.
        """
        self.stop_slurmctld(signal.SIGKILL)
        shutil.rmtree(self.settings.controller_state)
        self.settings = dataclasses.replace(self.settings, first_job_id=next_job_id)
        bringup.write_files(self.settings)
        self.start_slurmctld()

    def start_slurmdbd(self) -> None:
        self._start("slurmdbd")
        wait_until(lambda: self.answers("sacctmgr", "show", "cluster"), what="slurmdbd")

    def start_slurmd(self, node: str) -> None:
        self._start(node)

    def kill_slurmd(self, node: str) -> None:
        """Kills the node's daemon; jobs there run on, and SLURM misses the node after some 10 s."""
        self._daemon(node).stop(signal.SIGKILL)

    def node_down(self, node: str) -> None:
        """Declares the node down; SLURM ends its jobs as NODE_FAIL or requeues them."""
        self.scontrol("update", f"nodename={node}", "state=down", "reason=test")

    def node_up(self, node: str) -> None:
        """Takes the node back into service, if it has not come back by itself."""
        try:
            if self._is_away(node):
                self.scontrol("update", f"nodename={node}", "state=resume")
        except RuntimeError:
            if self._is_away(node):  # else it came back between the question and the order
                raise

    @contextmanager
    def drained(self, nodes: Sequence[str] = NODES) -> Iterator[None]:
        """These nodes begin no job meanwhile."""
        names = f"nodename={','.join(nodes)}"
        self.scontrol("update", names, "state=drain", "reason=test")
        yield
        self.scontrol("update", names, "state=resume")

    def _is_away(self, node: str) -> bool:
        state = self.run("sinfo", "-h", "-N", "-n", node, "-o", "%T").upper()
        return "DOWN" in state or "DRAIN" in state

    @contextmanager
    def hidden_from(self, node: str, folder: Path) -> Iterator[None]:
        """Restarts the node's daemon where the folder is empty, as it is on a machine that does not
        see it; only root may. What is in the folder stays."""
        daemon = self._daemon(node)
        daemon.stop()
        hide = (
            f"mount -t tmpfs tmpfs {shlex.quote(str(folder))} && exec {shlex.join(daemon.command)}"
        )
        blind = dataclasses.replace(daemon, command=["unshare", "--mount", "sh", "-c", hide])
        blind.start({**os.environ, **self.environment})
        try:
            yield
        finally:
            daemon.stop()
            self.start_slurmd(node)

    @contextmanager
    def changed(self, **changes: object) -> Iterator[None]:
        """Restarts the controller with these settings, and with the former ones at the end."""
        before = self.settings
        self._reconfigure(dataclasses.replace(before, **changes))  # type: ignore[arg-type]
        try:
            yield
        finally:
            self._reconfigure(before)

    def _reconfigure(self, settings: Settings) -> None:
        self.settings = settings
        bringup.write_files(settings)
        self.restart_slurmctld()


if __name__ == "__main__":
    with Cluster() as by_hand:
        shell = os.environ.get("SHELL", "bash")
        sys.exit(subprocess.call([shell], env={**os.environ, **by_hand.environment}))
