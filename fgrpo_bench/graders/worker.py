"""Processes that judge and can be killed: how they are started, asked and ended.

What runs in it is a program such as `judge_worker`, which keeps to its limits of processor time and
address space by itself; a limit of wall time comes with each question.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

JUDGES = "FGRPO_JUDGES"
"""Variable of the environment: most processes that judge for this one."""
START_SECONDS = 300.0
"""For a worker to import what it needs, from a slow network disk too."""
GUARD_SECONDS = 30.0
"""For a guard to kill what a judge has started."""
UNASKED = "the judge's process answered what it was not asked: what it calls writes to its socket"
_INTERRUPTED = re.compile(
    r"took more than \S+ s of wall time"
    r"|the judge's process (?:fell silent|ended with exit code -?[0-9]+ twice)"
)


def interrupted(reason: str) -> bool:
    """Whether a reason is one of `Worker.cause` that is not the question's own doing: the process
    starved, was stopped or was killed from outside. Such a question is worth asking again later.

    >>> interrupted("took more than 60 s of wall time"), interrupted("took more than 5 s of ...")
    (True, False)
    """
    return _INTERRUPTED.fullmatch(reason) is not None


class Worker:
    """One process with its guard (fgrpo_bench.graders.guard) and the socket to it. Any OSError ends
    its use.

    module: the program, which takes seconds and megabytes and answers a line with a line. seconds:
    processor time of an answer. megabytes: its address space.
    """

    def __init__(self, seconds: float, megabytes: int, *, module: str) -> None:
        self._seconds, self._megabytes, self._module = seconds, megabytes, module
        self._socket, theirs = socket.socketpair()
        search = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(seconds), str(megabytes)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # equal hashes: SymPy's order of arguments, and with it a verdict, may follow them
                env=os.environ | {"PYTHONPATH": search, "PYTHONHASHSEED": "0"},
                start_new_session=True,  # Ctrl-C is this process's to handle
            )
        self.n_questions = 0

    def wait_ready(self) -> None:
        """Until it can judge; RuntimeError that says why where it cannot."""
        try:
            ready = self._receive(time.monotonic() + START_SECONDS)
        except OSError as error:
            self.end()
            raise RuntimeError(
                f"a process that judges ended while it started ({error}): run "
                f"`{sys.executable} -P -m {self._module} {self._seconds:g} {self._megabytes}` to "
                "see why; it needs its packages and about 500 MB of address space"
            ) from error
        if "error" in ready:
            self.end()
            raise RuntimeError(ready["error"])

    def ask(self, request: dict[str, Any], wall_seconds: float) -> dict[str, Any]:
        """The reply; OSError where the worker died or the time is up."""
        self.n_questions += 1
        deadline = time.monotonic() + wall_seconds
        self._socket.settimeout(wall_seconds)
        self._socket.sendall(json.dumps(request | {"question": self.n_questions}).encode() + b"\n")
        reply = self._receive(deadline)
        if reply.pop("question", None) != self.n_questions:
            raise ConnectionAbortedError(UNASKED)
        return reply

    def _receive(self, deadline: float) -> dict[str, Any]:
        parts: list[bytes] = []
        while not parts or b"\n" not in parts[-1]:  # a line a question: nothing comes after it
            self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))
            part = self._socket.recv(65_536)
            if not part:
                raise ConnectionResetError("the process ended")
            parts.append(part)
        try:
            reply = json.loads(b"".join(parts))
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise ConnectionAbortedError(UNASKED)
        return reply

    def cause(self, error: OSError, wall_seconds: float) -> tuple[str, bool]:
        """Why there was no reply, and whether asking again at once is pointless."""
        if isinstance(error, TimeoutError):
            return f"took more than {wall_seconds:g} s of wall time", True
        if isinstance(error, ConnectionAbortedError):
            return str(error), True
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            return "the judge's process fell silent", False
        if code == -signal.SIGPROF:
            return f"took more than {self._seconds:g} s of processor time", True
        return f"the judge's process ended with exit code {code} twice", False

    def end(self) -> None:
        """Kill and reap it, with all that it has started."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # then its guard kills them
        try:
            self.process.wait(GUARD_SECONDS)
        except subprocess.TimeoutExpired:  # the guard was stopped from outside
            self.process.kill()
            self.process.wait()
        self._socket.close()


def judges(otherwise: int) -> int:
    """Most processes that judge for this one, as FGRPO_JUDGES says; without it `otherwise`."""
    return int(os.environ.get(JUDGES, otherwise))


class Workers:
    """Processes of one program, for any number of threads: each starts when all others are busy.

    count: most at once. lifetime: answers after which a process is replaced, since what it keeps
    grows. Others as those of Worker.
    """

    def __init__(
        self, count: int, *, seconds: float, megabytes: int, lifetime: int, module: str
    ) -> None:
        self._limits, self._lifetime, self._module = (seconds, megabytes), lifetime, module
        # last in, first out, with the places of processes that are not started below: so one
        # starts only when all that live are busy
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(None)
        # guards `living` and `_closed`: what is closed starts no worker any more
        self._lock, self._closed = threading.Lock(), False
        self.living: set[Worker] = set()

    def ask(self, request: dict[str, Any], wall_seconds: float) -> dict[str, Any]:
        """The reply; a `reason` alone where there was none within the limits.

        RuntimeError where a process cannot start, or all are closed.
        """
        worker = self._idle.get()
        try:
            for _ in range(2):  # once more where a process died of something else than the question
                worker = worker or self._start()
                try:
                    reply = worker.ask(request, wall_seconds)
                except OSError as error:
                    reason, final = worker.cause(error, wall_seconds)
                    self._bury(worker)
                    worker = None
                    if final:
                        break
                    continue
                if reply.pop("spent", False) or worker.n_questions >= self._lifetime:
                    self._bury(worker)
                    worker = None
                return reply
            return {"reason": reason}
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """Kill them all; a question in flight or asked later raises RuntimeError."""
        with self._lock:
            self._closed = True
            living = list(self.living)
        for worker in living:
            self._bury(worker)

    def _start(self) -> Worker:
        with self._lock:
            if self._closed:
                raise RuntimeError("the processes that judge are closed: start others")
        worker = Worker(*self._limits, module=self._module)
        with self._lock:  # listed before it is ready, so that `close` ends it while it starts
            self.living.add(worker)
        worker.wait_ready()
        return worker

    def _bury(self, worker: Worker) -> None:
        with self._lock:
            self.living.discard(worker)
        worker.end()


class Closed(Protocol):
    """What has processes that end with `close`."""

    def close(self) -> None:
        """Kill them."""


T = TypeVar("T", bound=Closed)


class OfProcess(Generic[T]):
    """What a process makes at its first call and closes at exit. A forked process makes its own, as
    it must not speak over its parent's sockets."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._value: T | None = None
        # a fork may copy a lock that another thread of the parent holds: nobody would release it
        self._lock = threading.Lock()

    def __call__(self) -> T:
        with self._lock:
            if self._value is None:
                self._value = self._make()
                atexit.register(self._value.close)
            return self._value
