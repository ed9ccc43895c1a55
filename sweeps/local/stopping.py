"""Stopping: Ctrl-C and SIGTERM become a request that the pool answers in its own time, which
`cancel` makes from another terminal."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.stages.locks import is_locked, lock_holder
from fgrpo_bench.stages.plan import read_plan

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = 60.0
"""How long to wait for workers to save."""


class Stop:
    """What was asked for so far: nothing, to stop, or (asked twice) to stop at once."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.at_once = False

    def request(self, signum: int, _frame: object) -> None:
        """Signal handler."""
        self.at_once = self.signum is not None
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 + the signal, as shells do: 130 after Ctrl-C."""
        return 128 + (self.signum or 0)


@contextmanager
def stop_requests() -> Iterator[Stop]:
    """Within, signals only set the request; a signal that is ignored (nohup) stays ignored."""
    stop = Stop()
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, stop.request)
    try:
        yield stop
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def holder_here(lock: Path, host: str) -> int | None:
    """Process on this host that holds the lock; None where nobody, or another host, does."""
    if not is_locked(lock):
        return None
    holder = lock_holder(lock)
    return int(holder["pid"]) if holder.get("host") == host and "pid" in holder else None


def terminate(pid: int) -> None:
    """SIGTERM; nothing where the process has just ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def cancel(paths: RunPaths) -> Iterator[str]:
    """Send SIGTERM to the driver, or without one to the workers it left; yields what was done.

    Raises ValueError where the driver runs on another host.
    """
    host = socket.gethostname()
    if is_locked(paths.driver_lock):
        driver = lock_holder(paths.driver_lock)
        pid = holder_here(paths.driver_lock, host)
        if pid is None:
            raise ValueError(
                f"the driver is process {driver.get('pid')} on {driver.get('host')}, and this is "
                f"{host}: run `cancel` there"
            )
        terminate(pid)
        yield f"asked the driver, process {pid}, to stop; its workers save first"
        locks = [paths.driver_lock]
    else:
        stages = [paths.folder / stage.name for stage in read_plan(paths).stages]
        locks = [lock for lock in (StagePaths(stage).lock for stage in stages) if is_locked(lock)]
        for lock in locks:
            pid = holder_here(lock, host)
            if pid is None:
                yield f"left alone: {lock.parent} is held on {lock_holder(lock).get('host')}"
                continue
            terminate(pid)
            yield f"no driver is running; asked process {pid} at {lock.parent} to save and stop"
    if not locks:
        yield f"nothing of {paths.sweep} is running"
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(map(is_locked, locks)):
        if time.monotonic() > deadline:
            yield f"still saving after {PATIENCE_SECONDS:.0f} s; `status` tells when it has stopped"
            return
        time.sleep(0.1)
    yield "stopped; run the same command again to continue"
