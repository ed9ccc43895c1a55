"""The private cluster's processes: started in the foreground, found and stopped by process id.

A process id is kept in a file with the time at which the process started, so that another process
that was given the same number later is never taken for it. A zombie counts as gone: its parent may
be a container's first process, which reaps late.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.05
PATIENCE_S = 150
"""Long: a busy machine is slow, and only a failure waits to the end."""
# The children that this process has to reap, by process id.
_children: dict[int, subprocess.Popen[bytes]] = {}


def wait_until(condition: Callable[[], bool], *, what: str, within_s: float = PATIENCE_S) -> None:
    """Returns once the condition holds; raises TimeoutError, naming `what`, if it does not.

    A condition about a file that is not there yet does not hold: a job runs before its output does.
    """
    deadline = time.monotonic() + within_s
    while True:
        with suppress(FileNotFoundError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(POLL_S)


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it is gone or a zombie."""
    if (child := _children.get(pid)) and child.poll() is not None:
        del _children[pid]
    try:
        # The second field is the program's name in brackets, which may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def kill(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Signals the processes and waits until they are gone."""
    started = {pid: ticks for pid in pids if (ticks := start_ticks(pid)) is not None}
    for pid in started:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue

    def all_gone() -> bool:
        return all(start_ticks(pid) != ticks for pid, ticks in started.items())

    wait_until(all_gone, what=f"processes {sorted(started)} to end")


@dataclass(frozen=True)
class Daemon:
    """A program of the cluster: its process id in run/<name>.pid, its output in log/<name>.out."""

    name: str
    folder: Path
    command: list[str] = field(default_factory=list)

    @property
    def pid_file(self) -> Path:
        return self.folder / "run" / f"{self.name}.pid"

    def pid(self) -> int | None:
        """Its process id, or None when it does not run."""
        if not self.pid_file.exists():
            return None
        pid, ticks = map(int, self.pid_file.read_text().split())
        return pid if start_ticks(pid) == ticks else None

    def start(self, environment: dict[str, str]) -> None:
        """It ends with this process, even if that is killed."""
        if self.pid() is not None:
            raise RuntimeError(f"{self.name} runs already, as process {self.pid()}")
        leash = ["setpriv", "--pdeathsig", "KILL", "--"]
        with (self.folder / "log" / f"{self.name}.out").open("ab") as log:
            child = subprocess.Popen(
                [*leash, *self.command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _children[child.pid] = child
        self.pid_file.write_text(f"{child.pid} {start_ticks(child.pid) or 0}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, if it runs."""
        if (pid := self.pid()) is not None:
            kill([pid], number)
        self.pid_file.unlink(missing_ok=True)


def job_processes(slurm_conf: Path) -> list[int]:
    """The processes of this cluster's jobs: slurmstepd, its tasks, and their descendants."""
    ours, children = [], dict[int, list[int]]()
    marker = f"SLURM_CONF={slurm_conf}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        children.setdefault(int(rest.split()[1]), []).append(pid)
        in_a_job = any(entry.startswith(b"SLURM_JOB_ID=") for entry in environment)
        if marker in environment and (in_a_job or name == "slurmstepd"):
            ours.append(pid)
    for pid in ours:
        ours.extend(child for child in children.get(pid, []) if child not in ours)
    return [pid for pid in ours if pid != os.getpid() and start_ticks(pid) is not None]
