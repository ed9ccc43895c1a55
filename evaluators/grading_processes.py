"""Processes that grade: each reads responses from a pipe and answers with judgements.

In: problems, and responses to them with a ticket each. Out: judgements with their tickets. They end
when the process that samples does, however it ends. A problem's gold answer decides which process
grades it, so that no question is put to two judges. A process imports this file and the graders
alone, as most of an evaluation of few draws is its start.
"""

from __future__ import annotations

import os
import queue
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.engines.processes import spawn
from fgrpo_bench.graders import BOXED, get_grader
from fgrpo_bench.graders.judge import default_judge

BY_JUDGE = BOXED
"""Graders that put questions to the judge of their process, which knows what was asked before."""
BATCH, WAITING_MOST = 64, 4_096
"""Responses sent at once, and that may wait for a process while sampling goes on."""


def grade_workers() -> int:
    """Processes that grade beside an engine: a quarter of the processors, one to four.

    The engine needs most of them, and sampling never waits for a grader.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(max(processors // 4, 1), 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What came of a response."""

    ticket: Any
    """As it was given with the response."""
    grade: Grade
    judgements: int
    """Questions put to a judge for it: 0 where the verdict was known."""


class GradeWorkers:
    """Some processes that grade the problems of a benchmark by any graders; a context manager.

    Processes start when they are first needed. RuntimeError where one cannot grade or has died.
    """

    def __init__(self, problems: Sequence[Problem], *, workers: int) -> None:
        self._problems = list(problems)
        self._lanes = [_Lane(self._problems) for _ in range(workers)]

    def __enter__(self) -> GradeWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.end()

    def offer(self, ticket: Any, row: int, grader: str, response: str, *, wait: bool) -> bool:
        """Hand a response to problem `row` over; False where too many wait and `wait` is not
        set."""
        target = self._problems[row].target.encode("utf-8", "replace")
        # by the gold, so that one process judges all questions about it; hash() differs by process
        lane = self._lanes[zlib.crc32(target) % len(self._lanes)]
        return lane.offer((ticket, row, grader, response), wait=wait)

    def answers(self, grader: str, *, wait: bool) -> Iterator[Judgement]:
        """A grader's judgements that have arrived; with `wait` all that are outstanding."""
        for lane in self._lanes:
            yield from lane.answers(grader, wait=wait)


class _Lane:
    """One process and the thread that speaks to it, a batch at a time."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._waiting: queue.Queue[tuple[Any, int, str, str]] = queue.Queue(WAITING_MOST)
        self._answered: defaultdict[str, queue.SimpleQueue[Judgement | str]]
        self._answered = defaultdict(queue.SimpleQueue)
        self._outstanding: Counter[str] = Counter()
        self._process: Any = None

    def offer(self, item: tuple[Any, int, str, str], *, wait: bool) -> bool:
        if self._process is None:
            self._start()
        self._answered[item[2]]  # so that it is there before the thread looks
        try:
            self._waiting.put(item, block=wait)
        except queue.Full:
            return False
        self._outstanding[item[2]] += 1
        return True

    def answers(self, grader: str, *, wait: bool) -> Iterator[Judgement]:
        answered = self._answered[grader]
        while self._outstanding[grader] and (wait or not answered.empty()):
            came = answered.get()
            if isinstance(came, str):
                answered.put(came)  # whoever asks again gets it again
                raise RuntimeError(came)
            self._outstanding[grader] -= 1
            yield came

    def _start(self) -> None:
        line, self._process = spawn(_serve, self._problems, daemon=True)
        threading.Thread(target=self._speak, args=(line,), daemon=True).start()

    def _speak(self, line: Connection) -> None:
        while True:
            batch = [self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                line.send([item[1:] for item in batch])
                came = line.recv()
            except (EOFError, OSError) as error:
                came = (
                    f"a grading process ended ({type(error).__name__}); the draws are stored: run "
                    "the same command again, and with more memory if it happens again"
                )
            if isinstance(came, str):
                for answered in list(self._answered.values()):
                    answered.put(came)
                return
            for item, (grade, asked) in zip(batch, came, strict=True):
                answer = Judgement(ticket=item[0], grade=grade, judgements=asked)
                self._answered[item[2]].put(answer)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _serve(line: Connection, problems: list[Problem]) -> None:
    """Grade what comes over a pipe until it is closed; an error goes back as its text."""
    while True:
        try:
            batch = line.recv()
        except (EOFError, OSError):
            return
        try:
            line.send([_graded(problems[row], grader, text) for row, grader, text in batch])
        except Exception as error:
            line.send(f"{type(error).__name__}: {error}")


def _graded(problem: Problem, grader: str, response: str) -> tuple[Grade, int]:
    if grader not in BY_JUDGE:
        return get_grader(grader)(replace(problem, grader=grader), response), 1
    before = default_judge().judgements
    grade = get_grader(grader)(replace(problem, grader=grader), response)
    return grade, default_judge().judgements - before
