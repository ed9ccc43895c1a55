"""What keeps the processes of a judge together: a parent that adopts whatever the judge starts.

In: the socket over which a judge is asked. Out: the judge goes on as a child of this process, which
stays as its guard. Code of somebody's own may fork, and leave the session too; Linux gives what it
orphans to the guard (PR_SET_CHILD_SUBREAPER). Once the judge has ended, or whoever asks has hung
up, however it ended, the guard kills all of it and ends as the judge did.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
from contextlib import suppress

# linux/prctl.h: the signal at a parent's death; whether orphans below are given to this process
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def guarded(line: socket.socket) -> None:
    """Return in a child of this process, which is the judge; this process itself never returns."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)  # so that one poll waits for a child's end and for a hang-up
    guard = os.getpid()
    judge = os.fork()
    if judge:
        _end_as(_watched(judge, line, woken))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(woken)
    os.close(wake)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the judge ends with its guard
    if os.getppid() != guard:  # which died before this took effect
        os._exit(1)


def _watched(judge: int, line: socket.socket, woken: int) -> int:
    """Wait for the judge's end or a hang-up and kill what is left; the judge's wait status."""
    poller = select.poll()
    poller.register(line, 0)  # a hang-up is told without being asked for
    poller.register(woken, select.POLLIN)
    while line.fileno() not in (ready := dict(poller.poll())):
        if woken in ready:
            os.read(woken, 4096)
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == judge:
                _kill_all()
                return ended[1]
    return _kill_all().get(judge, signal.SIGKILL)


def _kill_all() -> dict[int, int]:
    """Kill every process below this one; their wait statuses. A killed one's own children become
    this one's before it can be waited for, so that none is below once none is a child."""
    ended: dict[int, int] = {}
    while True:
        for child in _children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return ended
        ended[pid] = status


def _children() -> list[int]:
    guard_id = os.getpid()
    children = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (light)
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # pid (command) state parent ..., where the command may hold brackets too
            if int(file.read().rpartition(b")")[2].split()[1]) == guard_id:
                children.append(int(name))
    return children


def _end_as(status: int) -> None:
    """End this process with the exit code or the signal of a wait status."""
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # SIGKILL has no handler to take away
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
