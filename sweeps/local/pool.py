"""A bounded pool of worker processes that runs stages in the order of their needs.

In: stages. Out: what failed. The pool holds no truth: it starts commands, notes attempts and their
ends beside the stages' logs (fgrpo_bench.stages.attempts) and asks the markers what is done. Killed
at any moment, it loses nothing; workers that outlive it go on by themselves, and the next pool's
worker for the same stage waits for them at the stage's lock. Ctrl-C and SIGTERM become a request
that the pool answers in its own time, which `cancel` makes from another terminal.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.kinds import Stage
from fgrpo_bench.stages.attempts import Ending, Note, begin, end, ending, explain
from fgrpo_bench.stages.locks import describe_holder, is_locked, lock_holder
from fgrpo_bench.stages.markers import Marker, is_done, machine_load, read_marker, undivided
from fgrpo_bench.stages.plan import read_plan
from sweeps import REPOSITORY
from sweeps.schedule import in_order, ready
from sweeps.text import counted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = 60.0
"""How long to wait for workers to save."""
NAME_SECONDS = 1.0
"""How long to wait for the name of who holds a lock."""


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
    """Process on this host that holds the lock; None where nobody, or another host, does, and where
    whoever has just taken it has not named itself yet."""
    if not is_locked(lock):
        return None
    holder = lock_holder(lock)
    if holder.get("host") != host or "pid" not in holder:
        return None
    pid = int(holder["pid"])
    # until a new holder names itself, the file still names the last one
    return pid if _is_alive(pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _wait_for_name(lock: Path, host: str) -> int | None:
    """`holder_here`, a moment later where the holder on this host has yet to name itself."""
    deadline = time.monotonic() + NAME_SECONDS
    while (pid := holder_here(lock, host)) is None and is_locked(lock):
        if lock_holder(lock).get("host", host) != host or time.monotonic() > deadline:
            break
        time.sleep(TICK_SECONDS)
    return pid


def _terminate(pid: int) -> None:
    """SIGTERM; nothing where the process has just ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def cancel(paths: RunPaths) -> Iterator[str]:
    """Send SIGTERM to the driver, or without one to the workers it left; yields what was done.

    Raises ValueError where the driver runs on another host.
    """
    host = socket.gethostname()
    driver = _wait_for_name(paths.driver_lock, host)
    if driver is not None:
        _terminate(driver)
        yield f"asked the driver, process {driver}, to stop; its workers save first"
        locks = [paths.driver_lock]
    elif is_locked(paths.driver_lock):
        named = describe_holder(paths.driver_lock)
        raise ValueError(f"the driver is {named}, and this is {host}: run `cancel` there")
    else:
        stages = [paths.folder / stage.name for stage in read_plan(paths).stages]
        locks = [lock for lock in (StagePaths(stage).lock for stage in stages) if is_locked(lock)]
        for lock in locks:
            pid = _wait_for_name(lock, host)
            if pid is not None:
                _terminate(pid)
                yield f"no driver is running; asked process {pid} at {lock.parent} to save and stop"
            elif is_locked(lock):
                yield f"left alone: {lock.parent} is held by {describe_holder(lock)}"
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


TICK_SECONDS = 0.05
"""Between looks at the running stages."""
MAX_CONTINUES = 20
"""Times a stage that stops itself is started again before it counts as failed."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A worker process at a stage."""

    stage: Stage
    note: Note
    process: subprocess.Popen[bytes]
    begun: float
    """time.monotonic() of the start."""
    log: Path

    @property
    def number(self) -> int:
        """Counted from 1 over all attempts at the stage, of whomever."""
        return self.note.attempt


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A stage that ended badly."""

    stage: Stage
    reason: str
    log: Path


class Watcher(Protocol):
    """Who is told what happens, and tells people."""

    def say(self, text: str) -> None:
        """A line of its own."""

    def started(self, attempt: Attempt) -> None:
        """A worker was started."""

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        """A worker ended."""

    def tick(self, pool: Pool) -> None:
        """Time has passed."""


@dataclass(kw_only=True)
class Pool:
    """Stages on their way; `run` brings them as far as they go."""

    paths: RunPaths
    stages: Sequence[Stage]
    seconds: Mapping[str, float]
    """Estimated seconds of every stage, by name; they set the order."""
    workers: int
    command: Callable[[Stage, Path], list[str]]
    environment: Callable[[Stage], dict[str, str]]
    driver: str
    """This driver in the notes of attempts."""
    watcher: Watcher
    stop: Stop
    done: set[str] = field(default_factory=set)
    waiting: dict[str, Stage] = field(default_factory=dict)
    running: dict[str, Attempt] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    walls: dict[str, float] = field(default_factory=dict)
    """Wall seconds of the stages that were done by one attempt here, and those that draws which an
    evaluation took from another one took there."""
    loads: dict[str, float] = field(default_factory=dict)
    """Wall over processor seconds of these, as their workers counted: what else the machine did.
    Not of stages that other programs compute for."""

    def __post_init__(self) -> None:
        self._tried = Counter[str]()
        self._signalled: set[int] = set()
        self.done = {stage.name for stage in self.stages if self._is_marked(stage)}
        remaining = [stage for stage in self.stages if stage.name not in self.done]
        self.waiting = in_order(remaining, self.seconds)

    def run(self) -> None:
        """Until all is done, nothing more can be done, or a stop was asked for and obeyed."""
        try:
            while True:
                self._collect()
                if self.stop.signum is None:
                    self._fill()
                else:
                    if self.running and not self._signalled:
                        self.watcher.say(
                            f"stopping: {counted(len(self.running), 'worker')} will save first; "
                            "the same signal again kills"
                        )
                    self._wind_down()
                self.watcher.tick(self)
                if not self.running:
                    return
                time.sleep(TICK_SECONDS)
        finally:  # on an error of the driver itself, e.g. a full disk, leave no worker behind
            while any(attempt.process.poll() is None for attempt in self.running.values()):
                self._wind_down()
                time.sleep(TICK_SECONDS)

    def _fill(self) -> None:
        free = self.workers - len(self.running)
        for stage in list(islice(ready(self.waiting, self.done), free)):
            self._start(stage)

    def _start(self, stage: Stage) -> None:
        folder = StagePaths(self.paths.folder / stage.name)
        note, log = begin(folder, driver=self.driver)
        with log:
            process = subprocess.Popen(
                self.command(stage, folder.folder),
                cwd=REPOSITORY,
                env=self.environment(stage),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the driver alone, which asks for a save
            )
        path = folder.log(note.attempt)
        attempt = Attempt(stage=stage, note=note, process=process, begun=time.monotonic(), log=path)
        self._tried[stage.name] += 1
        del self.waiting[stage.name]
        self.running[stage.name] = attempt
        self.watcher.started(attempt)

    def _collect(self) -> None:
        for attempt in list(self.running.values()):
            exit_code = attempt.process.poll()
            if exit_code is not None:
                self._end(attempt, exit_code)

    def _end(self, attempt: Attempt, exit_code: int) -> None:
        stage, seconds = attempt.stage, time.monotonic() - attempt.begun
        outcome = ending(exit_code, marked=self._is_marked(stage))
        if self.stop.at_once and exit_code == -signal.SIGKILL:
            outcome = "stopped"
        tried = self._tried[stage.name]
        endless = outcome == "stopped" and tried > MAX_CONTINUES and self.stop.signum is None
        outcome = "failed" if endless else outcome
        del self.running[stage.name]
        folder = StagePaths(self.paths.folder / stage.name)
        end(folder, attempt.note, exit_code=exit_code, outcome=outcome, seconds=seconds)
        if outcome == "done":
            self.done.add(stage.name)
            if tried == 1:
                self._learn(stage, read_marker(folder), seconds)
        elif outcome == "stopped":
            self.waiting = {stage.name: stage} | self.waiting
        else:
            reason = f"stopped itself {tried} times" if endless else explain(exit_code)
            self.failures.append(Failure(stage=stage, reason=reason, log=attempt.log))
        self.watcher.ended(attempt, outcome, seconds)

    def _learn(self, stage: Stage, marker: Marker, seconds: float) -> None:
        """How long it took."""
        whole = undivided(marker, seconds)
        if whole is None:
            return
        self.walls[stage.name] = whole
        measured = machine_load(marker)
        if measured is not None and stage.environment == "base":
            self.loads[stage.name] = measured

    def _wind_down(self) -> None:
        """Ask every worker once to save and stop, and whoever its stage waits for; kill when asked
        twice."""
        for attempt in self.running.values():
            if attempt.process.poll() is not None:
                continue
            if self.stop.at_once:
                with suppress(ProcessLookupError):
                    os.killpg(attempt.process.pid, signal.SIGKILL)
            lock = StagePaths(self.paths.folder / attempt.stage.name).lock
            for pid in {attempt.process.pid, holder_here(lock, socket.gethostname())}:
                if pid is not None and pid not in self._signalled:
                    self._signalled.add(pid)
                    _terminate(pid)

    def _is_marked(self, stage: Stage) -> bool:
        folder = StagePaths(self.paths.folder / stage.name)
        return is_done(folder, fingerprint=stage.fingerprint, target=stage.target)
