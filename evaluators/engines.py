"""The engines of one evaluation, each in a process of its own, on GPUs of its own.

Draws wait in one queue, and an engine gets a block of them whenever it has room, so that long
answers leave no engine idle while others have draws to begin. A draw follows from its own seed,
whichever engine makes it. The processes are deaf to the stop signals, which are the stage's to
handle. They end with the last reference to their sampler, so that what comes after it has the GPUs,
or with the process that started them.
"""

from __future__ import annotations

import atexit
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from threading import Thread
from typing import Any

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.processes import spawn

from .records import Draw, RequestQueue, SampleRequest, SamplingEngine

Make = Callable[[], SamplingEngine]
"""Starts an engine in the process that calls it; must be picklable."""
END = "end"
"""To an engine, in place of draws: all are there that are wanted on this benchmark."""
BLOCKS = 8
"""In what an engine draws at once; towards the end of the queue they are smaller."""
END_SECONDS = 30.0
"""For a process to shut its engine down before it is killed."""


def start_engines(
    make: Make,
    *,
    engines: int,
    gpus_per_engine: int,
    at_once: int,
    check: Callable[[Problem], object],
) -> SamplingEngine:
    """So many engines as one, with their common fingerprint.

    gpus_per_engine: 0 on processors. at_once: draws that one makes together. check: raises
    ValueError for a problem that no engine takes; called before the first draw. Raises RuntimeError
    with its own words where an engine cannot start or fails, ValueError where there are too few
    GPUs.
    """
    devices = shares(os.environ.get("CUDA_VISIBLE_DEVICES"), engines, gpus_per_engine)
    # no daemons: vLLM starts processes of its own, which a daemon may not
    started = [spawn(_serve, make, gpus, daemon=False) for gpus in devices]
    sampler = _Engines(started, at_once, check)
    facts = [_receive(line, process)[1] for line, process in sampler.started]
    more = {"engines": engines} if engines > 1 else {}
    return SamplingEngine(draw=sampler, facts=facts[0] | more)


def shares(visible: str | None, engines: int, gpus_per_engine: int) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES of each engine; None where it stays as it is.

    visible: that of this process; None is every GPU from 0 on.
    """
    if not gpus_per_engine:
        return [None] * engines
    needed = engines * gpus_per_engine
    names = list(map(str, range(needed))) if visible is None else visible.split(",")
    if len(names) < needed:
        raise ValueError(
            f"evaluation_engines={engines} of {gpus_per_engine} GPUs need {needed}, but this job "
            f"sees {len(names)} ({visible}): lower evaluation_engines or ask for more GPUs"
        )
    return [",".join(names[i : i + gpus_per_engine]) for i in range(0, needed, gpus_per_engine)]


def deal(
    queue: deque[SampleRequest], held: Sequence[int], at_once: int
) -> list[list[SampleRequest]]:
    """What each engine gets off the queue now: the one that holds fewest draws gets the next block,
    until every engine has what it draws at once and a block besides, to begin as some are made.

    held: draws that each engine has got and not made. at_once: draws that an engine makes together.
    """
    parts: list[list[SampleRequest]] = [[] for _ in held]
    loads, block = list(held), max(1, at_once // BLOCKS)
    while queue and min(loads) < at_once + block:
        engine = loads.index(min(loads))
        smaller = math.ceil(len(queue) / (BLOCKS * len(loads)))  # so that all end together
        part = [queue.popleft() for _ in range(min(block, smaller))]
        parts[engine] += part
        loads[engine] += len(part)
    return parts


Started = tuple[Connection, BaseProcess]


class _Engines:
    """A sampler that holds its engines while it is held, or draws."""

    def __init__(
        self, started: Sequence[Started], at_once: int, check: Callable[[Problem], object]
    ) -> None:
        self.started = started
        self._at_once, self._check = at_once, check
        # the first ends them with the last reference, so that what comes next has the GPUs
        weakref.finalize(self, _end, started).atexit = False
        atexit.register(_end, started)  # runs before multiprocessing waits for its processes

    def __call__(self, requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        """Draws as the engines make them."""
        running: dict[Any, BaseProcess] = dict(self.started)
        held = dict.fromkeys(running, 0)
        waiting, queue = RequestQueue(requests), deque[SampleRequest]()
        try:
            self._hand_out(waiting, queue, held)
            while running:
                for ready in wait(list(running)):
                    kind, value = _receive(ready, running[ready])
                    if kind == "done":
                        del running[ready]
                    else:
                        held[ready] -= len(value)
                        yield value
                        self._hand_out(waiting, queue, held)
        finally:
            if running:  # stopped in the middle: the engines are of no more use
                _end(self.started)

    def _hand_out(
        self, waiting: RequestQueue, queue: deque[SampleRequest], held: dict[Any, int]
    ) -> None:
        """Fill the queue with what is wanted by now, and the engines from it; END with the last."""
        if waiting.ended and not queue:
            return
        for request in waiting.take():
            self._check(request.problem)
            queue.append(request)
        for line, part in zip(held, deal(queue, list(held.values()), self._at_once), strict=True):
            held[line] += len(part)
            with suppress(OSError):  # its process has ended: why is told where its word is awaited
                if part:
                    line.send(part)
                if waiting.ended and not queue:
                    line.send(END)


class _Arriving:
    """What comes over the pipe, read by a thread, so that neither side waits for the other to read
    while both write."""

    def __init__(self, line: Connection) -> None:
        self._line, self._parts = line, SimpleQueue[Any]()
        self.in_the_making = 0
        """Draws that were taken, less those that were made."""
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._parts.put(self._line.recv())
        self._parts.put(None)

    def __iter__(self) -> Iterator[SampleRequest | None]:
        """Up to the next END; EOFError where the other side has closed the pipe."""
        ready: deque[SampleRequest] = deque()
        while True:
            # with nothing ready and nothing in the making there is nothing to do but wait
            is_idle = not ready and not self.in_the_making
            if is_idle or not self._parts.empty():
                part = self._parts.get()
                if part is None:
                    raise EOFError
                if part == END:
                    self.in_the_making += len(ready)
                    yield from ready
                    return
                ready.extend(part)
            elif ready:
                self.in_the_making += 1
                yield ready.popleft()
            else:
                yield None


def _receive(line: Any, process: BaseProcess) -> tuple[str, Any]:
    try:
        kind, value = line.recv()
    except (EOFError, OSError) as error:
        process.join(END_SECONDS)
        raise RuntimeError(
            f"an engine's process ended with exit code {process.exitcode}; the draws are stored: "
            "its reason stands above; rerun the command to resume"
        ) from error
    if kind == "error":
        raise RuntimeError(value)
    return kind, value


def _end(started: Sequence[Started]) -> None:
    for line, _ in started:
        line.close()  # the process sees it at its next word, and shuts its engine down
    for _, process in started:
        if process.is_alive():
            process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(line: Connection, make: Make, devices: str | None) -> None:
    """Start an engine and draw what comes over the pipe until it is closed."""
    if devices is not None:
        # before torch is imported, which counts devices once
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
    try:
        try:
            engine = make()
            line.send(("ready", engine.facts))
            arriving = _Arriving(line)
            while True:
                for draws in engine.draw(arriving):
                    arriving.in_the_making -= len(draws)
                    line.send(("draws", draws))
                line.send(("done", None))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            line.send(("error", f"{type(error).__name__}: {error}"))
    except OSError:
        return
