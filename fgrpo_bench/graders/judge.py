"""A judge that can be killed: asks math-verify in processes of its own, each with hard limits.

In: a normalised gold and an answer, from `math`. Out: a verdict, or `unscored` with the limit that
was broken. What runs in the processes is `judge_worker`; how processes are started, asked and
killed is `worker`.

math-verify has no time limit that holds in a thread, takes a timeout for a wrong answer, and some
answers keep it busy or eat memory for ever. So its workers have limits on processor time and
address space, and one that exceeds a limit is killed and replaced. Processor time rather than wall
time: a verdict must not depend on how busy the machine is. Each distinct question is asked once,
and where the judge has a store of verdicts, once for all processes; one whose worker starved or was
killed from outside is unscored for now and asked when it comes again.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import get_args

from fgrpo_bench.core.problems import Grade, Outcome
from fgrpo_bench.files.journal import append_lines, read_lines
from fgrpo_bench.graders.judge_worker import TESTED
from fgrpo_bench.graders.worker import OfProcess, Workers, interrupted, judges

VERSION = 4
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
        # one question that several threads ask at once goes to one worker
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
            # one thread asks; others with the same question wait for its future
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
        with self._lock:  # so that it is asked when it comes again
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


Question = tuple[str, str, bool]
"""Gold, answer, and whether the answer stood in a box."""
LONGEST_STORED = 2_000
"""Characters of a stored answer; one that is longer is judged again where it comes again."""


class VerdictStore:
    """Verdicts that outlive the process; used by one thread at a time.

    A folder of append-only files, one for each process that adds to it, so that any number of jobs
    on any number of machines can share it without a lock; all are read when it is opened. A line:

        ["5a0c...", "correct", "\\\\frac{1}{2}", "equal by math-verify"]

    The first field is a hash of gold, answer and whether the answer stood in a box. What a question
    itself causes is kept, such as `unscored` for its processor time; that its worker starved or was
    killed from outside is not, so the question is asked again.
    """

    def __init__(self, folder: Path) -> None:
        self._own = folder / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        self._known: dict[str, Grade] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for line in read_lines(path):
                if _is_verdict(line):
                    key, outcome, extracted, reason = line
                    self._known[key] = Grade(outcome=outcome, extracted=extracted, reason=reason)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, question: Question) -> Grade | None:
        """What was said of a question; None where it was never asked."""
        return self._known.get(_key(question))

    def add(self, question: Question, verdict: Grade) -> None:
        """Keep a verdict, unless it was interrupted or is very long; a crash may lose the last
        ones. What is not kept is asked again."""
        if interrupted(verdict.reason) or len(verdict.extracted or "") > LONGEST_STORED:
            return
        key = _key(question)
        self._known[key] = verdict
        line = (key, verdict.outcome, verdict.extracted, verdict.reason)
        append_lines(self._own, [line], sync=False)


def _key(question: Question) -> str:
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()[:32]


def _is_verdict(line: object) -> bool:
    return (
        isinstance(line, list)
        and len(line) == 4
        and all(isinstance(line[i], str) for i in (0, 1, 3))
        and line[1] in get_args(Outcome)
        and (line[2] is None or isinstance(line[2], str))
    )
