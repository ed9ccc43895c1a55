"""Verdicts that outlive the process: each question gets its verdict once, ever.

A folder of append-only files, one for each process that adds to it, so that any number of jobs on
any number of machines can share it without a lock; all are read when it is opened. A line:

    ["5a0c...", "correct", "\\\\frac{1}{2}", "equal by math-verify"]

The first field is a hash of gold, answer and whether the answer stood in a box. What a question
itself causes is kept, such as `unscored` for its processor time; that its worker starved or was
killed from outside is not, so the question is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import uuid
from dataclasses import astuple
from pathlib import Path
from typing import get_args

from fgrpo_bench.graders.worker import interrupted
from fgrpo_bench.records import Grade, Outcome
from fgrpo_bench.stages.journal import append_lines, read_lines

Question = tuple[str, str, bool]
"""Gold, answer, and whether the answer stood in a box."""
LONGEST = 2_000
"""Characters of a stored answer; one that is longer is judged again where it comes again."""


class VerdictStore:
    """The verdicts in a folder; used by one thread at a time."""

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
        if interrupted(verdict.reason) or len(verdict.extracted or "") > LONGEST:
            return
        key = _key(question)
        self._known[key] = verdict
        append_lines(self._own, [(key, *astuple(verdict))], sync=False)


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
