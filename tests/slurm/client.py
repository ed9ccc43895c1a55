"""What a test asks of a SLURM cluster, through the command-line programs that users have."""

from __future__ import annotations

import os
import subprocess

from tests.slurm.config import NODES, user_name
from tests.slurm.processes import PATIENCE_S, wait_until


class Client:
    """Runs SLURM's commands against the cluster that `environment` leads to."""

    @property
    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def run(self, *command: str) -> str:
        """What the command prints; raises RuntimeError with its own words if it fails."""
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command)} exited {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout.strip()

    def answers(self, *command: str) -> bool:
        try:
            self.run(*command)
        except RuntimeError:
            return False
        return True

    def squeue(self, *arguments: str) -> str:
        return self.run("squeue", "--noheader", *arguments)

    def sacct(self, *arguments: str) -> str:
        return self.run("sacct", "--noheader", "--parsable2", *arguments)

    def sacctmgr(self, *arguments: str) -> str:
        return self.run("sacctmgr", "--immediate", "--noheader", "--parsable2", *arguments)

    def add_account(self, name: str) -> None:
        """An account of this user's, if there is none of the name."""
        if not self.sacctmgr("show", "account", name):
            self.sacctmgr("add", "account", name)
            self.sacctmgr("add", "user", user_name(), f"account={name}")

    def scontrol(self, *arguments: str) -> str:
        return self.run("scontrol", *arguments)

    def sbatch(self, shell_command: str, *options: str) -> str:
        """Submits the command; returns the job's id. Its output is lost unless an option says."""
        quiet = ("--output=/dev/null", "--chdir=/tmp")
        return self.run("sbatch", "--parsable", *quiet, *options, f"--wrap={shell_command}")

    def state(self, job: str) -> str:
        """The controller's word, such as PENDING; raises RuntimeError for a job it forgot."""
        return self.squeue("--states=all", f"--jobs={job}", "--format=%T")

    def node_of(self, job: str) -> str:
        return self.squeue(f"--jobs={job}", "--format=%N")

    def wait_for_state(self, job: str, *states: str, within_s: float = PATIENCE_S) -> None:
        what = f"job {job} to be {' or '.join(states)}"
        wait_until(lambda: self.state(job) in states, what=what, within_s=within_s)

    def wait_for_idle(self, within_s: float = PATIENCE_S) -> None:
        """Waits until no job is left and every node is idle."""

        def idle() -> bool:
            nodes = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T").splitlines()
            return not self.squeue() and sorted(nodes) == [f"{node} idle" for node in NODES]

        wait_until(idle, what="every node to be idle", within_s=within_s)
