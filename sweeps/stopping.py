"""Stopping: Ctrl-C and SIGTERM become a request that the pool answers in its own time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fgrpo_bench.stages.locks import is_locked, lock_holder

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
