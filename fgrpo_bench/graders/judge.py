"""A judge that can be killed: asks math-verify in processes of its own, each with hard limits.

math-verify has no time limit that holds in a thread, takes a timeout for a wrong answer, and some
answers keep it busy or eat memory for ever. So it runs in workers (`judge_worker`) with limits on
processor time and address space; a worker that exceeds one is killed and replaced. Processor time
rather than wall time: a verdict must not depend on how busy the machine is. Each distinct question
is asked once, and where the judge has a store of verdicts (`verdicts`), once for all processes;
one whose worker starved or was killed from outside is unscored for now and asked when it comes
again.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from pathlib import Path

from fgrpo_bench.graders.judge_worker import TESTED
from fgrpo_bench.graders.verdicts import Question, VerdictStore
from fgrpo_bench.graders.worker import OfProcess, Workers, interrupted, judges
from fgrpo_bench.records import Grade

VERSION = 3
"""Raised with any change of judgement here or in the worker; stored verdicts belong to one."""
SECONDS = 5.0
"""Processor seconds of a judgement."""
WALL_FACTOR = 12.0
"""Wall seconds for each processor second; only a stopped or starved worker ever gets there."""
MEGABYTES = 1024
"""Address space of a worker."""
WORKERS = 4
"""Most workers of the judge of a process that has no FGRPO_JUDGES."""
LIFETIME = 20_000
"""Judgements after which a worker is replaced: SymPy's caches grow."""
REMEMBERED, LONGEST_REMEMBERED = 100_000, 2_000
"""Questions whose verdict is kept, and their most characters."""


class Judge:
    """A pool of workers that judge; for any number of threads, and as a context manager.

    workers: most at once. seconds: processor time of a judgement. megabytes: address space of a
    worker. store: verdicts of earlier processes, to which those of this one are added; None keeps
    none. Workers start when they are first needed and end with `close` or with this process.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        seconds: float = SECONDS,
        megabytes: int = MEGABYTES,
        store: VerdictStore | None = None,
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._workers = Workers(
            workers,
            seconds=seconds,
            megabytes=megabytes,
            lifetime=LIFETIME,
            module="fgrpo_bench.graders.judge_worker",
        )
        self._known: dict[Question, Future[Grade]] = {}
        self._lock = threading.Lock()
        self.judgements = 0
        """Questions put to workers so far."""

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the workers; a question in flight or asked later raises RuntimeError."""
        self._workers.close()

    def verdict(self, gold: str, answer: str, *, boxed: bool = True) -> Grade:
        """Whether an answer equals the gold; unscored where the judgement broke a limit.

        boxed: False where the answer is a text in which it has yet to be found. Raises
        RuntimeError where a worker cannot start, e.g. without math-verify.
        """
        key = (gold, answer, boxed)
        if len(gold) + len(answer) > LONGEST_REMEMBERED:
            return self._ask(*key)
        with self._lock:
            future = self._known.get(key)
            mine = future is None
            if future is None:
                future = self._known[key] = Future()
                if len(self._known) > REMEMBERED:
                    del self._known[next(iter(self._known))]
        if mine:
            try:
                verdict = self._stored(key)
                if verdict is None:
                    verdict = self._ask(*key)
                    self._keep(key, verdict)
                if interrupted(verdict.reason):
                    self._unknow(key)
                future.set_result(verdict)
            except BaseException as error:
                self._unknow(key)
                future.set_exception(error)
        return future.result()

    def _unknow(self, key: Question) -> None:
        with self._lock:
            self._known.pop(key, None)

    def _stored(self, key: Question) -> Grade | None:
        with self._lock:
            return None if self._store is None else self._store.get(key)

    def _keep(self, key: Question, verdict: Grade) -> None:
        if self._store is not None:
            with self._lock:
                self._store.add(key, verdict)

    def _ask(self, gold: str, answer: str, boxed: bool) -> Grade:
        request = {"gold": gold, "answer": answer, "boxed": boxed}
        with self._lock:
            self.judgements += 1
        reply = self._workers.ask(request, self._seconds * WALL_FACTOR)
        return Grade(**{"outcome": "unscored", "extracted": None} | reply)


def default_store() -> VerdictStore | None:
    """The verdicts of this version in the folder FGRPO_VERDICTS; None where that is not set."""
    folder = os.environ.get("FGRPO_VERDICTS")
    packages = "-".join(f"{name}-{version}" for name, version in TESTED.items())
    return VerdictStore(Path(folder) / f"judge-{VERSION}-{packages}") if folder else None


default_judge = OfProcess(lambda: Judge(workers=judges(WORKERS), store=default_store()))
"""The judge of this process."""
