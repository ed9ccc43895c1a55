"""Judgements of a benchmark's draws, made as they arrive or later, each distinct response once.

In: draws, from `sample` or stored. Out: a layer of grades (tables.GRADES), the same whether it was
made while sampling or afterwards. `fgrpo_bench.analysis.scoring` makes pass@k of it.

Quick graders judge here; the others in processes of their own (`grading_processes`), whose
judgements are appended to a file as they come, so that a kill costs few. What such a process cannot
take in time is judged once sampling is over: sampling never waits for a grader. Judgements of
former runs are kept, but for those that were interrupted (`graders.worker.interrupted`): they are
made anew.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args

import numpy as np
import polars as pl

from fgrpo_bench.core.problems import Grade, Outcome, Problem
from fgrpo_bench.files.journal import append_lines, read_lines
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.graders import get_grader, grader_version, waits
from fgrpo_bench.graders.worker import interrupted
from fgrpo_bench.stages.tables import GRADES, read_table, write_table

from .grading_processes import BATCH, GradeWorkers, Judgement
from .records import Draw

SHORT = 32
"""Characters of a response up to which it is remembered itself, and longer ones by their hash."""
UNKNOWN, ASKED = -1, -2


@dataclass(kw_only=True)
class Tally:
    """What grading took, apart from what former runs had judged."""

    graded: int = 0
    """Draws that got their judgement."""
    judgements: int = 0
    """Questions that had to be judged for them: put to math-verify, or to a quick grader."""

    @property
    def cache_hits(self) -> int:
        """Draws that needed no judgement of their own."""
        return max(self.graded - self.judgements, 0)

    def facts(self) -> dict[str, int]:
        """For a completion marker."""
        return asdict(self) | {"cache_hits": self.cache_hits}


class Grading:
    """The judgements of one benchmark by one grader.

    problems: all of the benchmark. workers: for the same problems, used by a grader of WAITING.
    decides: whether sampling goes by these judgements; then none is left for later, and sampling
    waits where too many are outstanding.
    """

    def __init__(
        self,
        paths: BenchmarkPaths,
        problems: Sequence[Problem],
        grader: str,
        *,
        workers: GradeWorkers,
        decides: bool = False,
    ) -> None:
        self._decides = decides
        self.version = grader_version(grader)
        self.tally = Tally()
        self._paths, self.grader = paths, grader
        self._problems = [replace(problem, grader=grader) for problem in problems]
        self._rows = {problem.problem_id: row for row, problem in enumerate(problems)}
        self._grades: list[Grade] = []  # the different ones
        self._numbers: dict[Grade, int] = {}
        self._at = np.full((len(problems), 1), UNKNOWN, np.int32)  # number of a draw's grade
        self._known: dict[tuple[int, str | bytes], int] = {}  # by problem and response
        self._askers: dict[tuple[int, str | bytes], list[int]] = {}
        self._scored, self._correct = [0] * len(problems), [0] * len(problems)
        self._workers = workers if waits(grader) else None
        self._own = paths.judging(self.version)
        self._stored: int | None = None  # judgements in the table; None: it is to be written
        self._load()

    @property
    def pass_at_1(self) -> float | None:
        """Mean over the problems that have a scored draw so far; None before the first."""
        shares = [c / n for c, n in zip(self._correct, self._scored, strict=True) if n]
        return sum(shares) / len(shares) if shares else None

    def add(self, draws: Sequence[Draw]) -> None:
        """Draws that were just made; returns without waiting for a grader of WAITING."""
        for draw in draws:
            self._ask(self._rows[draw.problem_id], draw.draw, draw.response, wait=self._decides)
        if self._workers is not None:
            self._take(self._workers.answers(self.grader, wait=False))

    def judge(self, draws: pl.DataFrame, done: Callable[[int], None] = lambda n: None) -> None:
        """Judge what is not judged yet of these (tables.DRAWS), and wait for it. done: is told how
        many it was asked for so far."""
        rows, numbers = self._places(draws)
        self.wait()
        for n, i in enumerate(np.flatnonzero(self._at[rows, numbers] == UNKNOWN).tolist()):
            if n % BATCH == 0:
                done(n)
            self._ask(int(rows[i]), int(numbers[i]), draws["response"][i], wait=True)
            if self._workers is not None:
                self._take(self._workers.answers(self.grader, wait=False))
        self.wait()

    def wait(self) -> None:
        """Until all that was asked of a grader of WAITING is judged."""
        if self._workers is not None:
            self._take(self._workers.answers(self.grader, wait=True))

    def correct(self, problem_id: str, n_draws: int) -> int | None:
        """Of a problem's first draws those judged correct; None where some are not judged yet."""
        row = self._at[self._rows[problem_id], :n_draws]
        if len(row) < n_draws or (row == UNKNOWN).any():
            return None
        outcomes = [self._grades[number].outcome for number in row.tolist()]
        return outcomes.count("correct")

    def finish(
        self, draws: pl.DataFrame, done: Callable[[int], None] = lambda n: None
    ) -> pl.DataFrame:
        """Judgements (tables.GRADES) of all draws (tables.DRAWS), in their order, stored. done: as
        of `judge`."""
        self.judge(draws, done)
        rows, numbers = self._places(draws)
        kinds = self._at[rows, numbers]
        fields = {"outcome": "outcome", "extracted": "extracted", "reason": "stored_reason"}
        text = {
            name: pl.Series(name, [getattr(g, of) for g in self._grades], pl.String).gather(kinds)
            for name, of in fields.items()
        }
        table = draws.select("problem_id", "draw").with_columns(
            **text, grader_version=pl.lit(self.version)
        )
        if self._stored != len(table):  # else the file has these grades, and keeps its digest
            write_table(self._paths.grades(self.version), table, GRADES)
        shutil.rmtree(self._own, ignore_errors=True)
        return table

    def _ask(self, row: int, draw: int, response: str, *, wait: bool) -> None:
        key = (row, response if len(response) <= SHORT else _hash(response))
        stored = self._known.get(key, UNKNOWN)
        if stored >= 0:
            self._settle(row, [draw], stored)
        elif stored == ASKED:
            self._askers[key].append(draw)
        elif self._workers is None:
            self.tally.judgements += 1
            grade = get_grader(self.grader)(self._problems[row], response)
            self._known[key] = number = self._number(grade)
            self._settle(row, [draw], number)
        elif self._workers.offer(key, row, self.grader, response, wait=wait):
            self._known[key] = ASKED
            self._askers[key] = [draw]

    def _take(self, answers: Iterable[Judgement]) -> None:
        lines = []
        for answer in answers:
            row, key, grade = answer.ticket[0], answer.ticket, answer.grade
            self.tally.judgements += answer.judgements
            self._known[key] = number = self._number(grade)
            draws = self._askers.pop(key)
            self._settle(row, draws, number)
            name = self._problems[row].problem_id
            lines.append([name, draws, grade.outcome, grade.extracted, grade.stored_reason])
        if lines:
            append_lines(self._own / "grades.jsonl", lines, sync=False)

    def _settle(self, row: int, draws: Sequence[int], number: int) -> None:
        self._grow(max(draws) + 1)
        self._at[row, draws] = number
        self.tally.graded += len(draws)
        self._count(row, number, len(draws))

    def _count(self, row: int, number: int, draws: int) -> None:
        outcome = self._grades[number].outcome
        self._scored[row] += draws if outcome != "unscored" else 0
        self._correct[row] += draws if outcome == "correct" else 0

    def _number(self, grade: Grade) -> int:
        number = self._numbers.setdefault(grade, len(self._grades))
        if number == len(self._grades):
            self._grades.append(grade)
        return number

    def _kept(self, grade: Grade) -> int:
        """Number of a grade of a former run; UNKNOWN for one that is made anew."""
        again = grade.outcome == "unscored" and interrupted(grade.reason)
        return UNKNOWN if again else self._number(grade)

    def _grow(self, draws: int) -> None:
        if (missing := draws - self._at.shape[1]) > 0:
            wider = max(missing, self._at.shape[1])
            self._at = np.pad(self._at, ((0, 0), (0, wider)), constant_values=UNKNOWN)

    def _places(self, table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Row and number of every draw of a table, for which there is room then."""
        rows = table["problem_id"].replace_strict(self._rows, return_dtype=pl.Int64).to_numpy()
        numbers = table["draw"].to_numpy()
        self._grow(int(numbers.max(initial=0)) + 1)
        return rows, numbers

    def _load(self) -> None:
        """What was judged before: the table, then what a run that did not end has left."""
        path = self._paths.grades(self.version)
        if path.exists():
            table = read_table(path, GRADES)
            self._stored = len(table)
            fields = ["outcome", "extracted", "reason"]
            kinds = table.select(fields).unique(maintain_order=True).with_row_index("kind")
            numbers = [self._kept(Grade(**row)) for row in kinds.select(fields).to_dicts()]
            if UNKNOWN in numbers:
                self._stored = None
            joined = table.join(kinds, on=fields, nulls_equal=True, maintain_order="left")
            rows, draws = self._places(table)
            self._at[rows, draws] = np.array(numbers, np.int32)[joined["kind"].to_numpy()]
        for line in read_lines(self._own / "grades.jsonl"):
            if _is_judgement(line) and line[0] in self._rows:
                grade = Grade(outcome=line[2], extracted=line[3], reason=line[4])
                self._grow(max(line[1]) + 1)
                self._at[self._rows[line[0]], line[1]] = self._kept(grade)
        outcomes = np.array([str(grade.outcome) for grade in self._grades], dtype=np.str_)
        placed = self._at >= 0
        where, judged = np.nonzero(placed)[0], outcomes[self._at[placed]]
        size = len(self._problems)
        self._scored = np.bincount(where[judged != "unscored"], minlength=size).tolist()
        self._correct = np.bincount(where[judged == "correct"], minlength=size).tolist()


def _hash(response: str) -> bytes:
    return hashlib.blake2b(response.encode("utf-8", "replace"), digest_size=16).digest()


def _is_judgement(line: object) -> bool:
    return (
        isinstance(line, list)
        and len(line) == 5
        and isinstance(line[1], list)
        and bool(line[1])
        and line[2] in get_args(Outcome)
    )
