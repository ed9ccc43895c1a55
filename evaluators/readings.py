"""`--also`: other readings of the draws that pass@k is computed from, beside it.

In: stored draws with their grades. Out: a table with a row a benchmark, grader and k. The words are
pass^k (all of k draws right), maj@k (the most frequent answer of k is right), distinct@k (different
right solutions among k), gini (how unequally success is spread over problems) and cover@TAU, e.g.
cover@0.5 (share of problems with a success rate of at least that), the last two as bounds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fgrpo_bench.documents.table import NONE, Table, percent, with_interval
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.graders import SOLUTIONS, grader_version
from fgrpo_bench.kinds.benchmarks import graders_of
from fgrpo_bench.stages.tables import GRADES, read_table
from fgrpo_bench.stats.intervals import FRACTIONS, estimate
from fgrpo_bench.stats.readings import cover_at, distinct_at_k, gini, maj_at_k, pass_hat_k

from .stored import StoredDraws

COVER = re.compile(r"cover@(0?\.\d+)")
UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class ProblemDraws:
    """What the draws of a problem are, for these readings."""

    n_samples: int
    n_correct: int
    n_by_answer: tuple[int, ...]
    """Draws by different answers, right ones by solution (fgrpo_bench.graders.SOLUTIONS)."""
    is_right: tuple[bool, ...]
    """Of these answers."""
    n_none: int
    """Draws without an answer."""


READINGS: dict[str, Callable[[ProblemDraws, int], float]] = {
    "pass^k": lambda of, k: float(pass_hat_k(n_samples=of.n_samples, n_correct=of.n_correct, k=k)),
    "maj@k": lambda of, k: maj_at_k(
        n_by_answer=of.n_by_answer, is_right=of.is_right, n_none=of.n_none, k=k
    ),
    "distinct@k": lambda of, k: distinct_at_k(
        n_samples=of.n_samples,
        n_by_solution=[n for n, right in zip(of.n_by_answer, of.is_right, strict=True) if right],
        k=k,
    ),
}
"""A mean over problems, by k."""


def check_words(words: Sequence[str]) -> None:
    """ValueError for a word that is no reading."""
    for word in words:
        if word not in (*READINGS, "gini") and not COVER.fullmatch(word):
            raise ValueError(
                f"--also {word}: choose among {', '.join(READINGS)}, gini and cover@TAU, e.g. "
                "cover@0.5, with commas between them"
            )


def readings(stored: Sequence[StoredDraws], words: Sequence[str]) -> str:
    """Lines for a terminal: a row a benchmark, grader and k, a column a word. Raises as
    `check_words`, and as `cover_at` for too few draws."""
    check_words(words)
    by_k = [word for word in words if word in READINGS]
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for evaluation in stored:
        design = evaluation.spec.stopping
        if not design.is_fixed:
            notes.append(
                f"{evaluation.benchmark.name}: of the first {design.stages[0]:,} draws of each "
                "problem. Which later ones there are depends on how many of these are right, so "
                "that larger k have no value."
            )
        for grader in graders_of(evaluation.benchmark):
            path = evaluation.paths.grades(grader_version(grader))
            if not path.exists():
                continue
            first = read_table(path, GRADES).filter(pl.col("draw") < design.stages[0])
            problems = [*problem_draws(first, grader)]
            named = (evaluation.benchmark.name, grader)
            for k in evaluation.spec.asked.ks if by_k else ():
                rows.append((*named, str(k), *(_mean(problems, word, k) for word in by_k)))
            bounds = [f"{word} {_bounds(problems, word)}" for word in words if word not in by_k]
            notes += [f"{', '.join(named)}, bounds: {', '.join(bounds)}"] if bounds else []
    table = Table(
        title="Other readings of the same draws, in percent but for distinct@k "
        "[95% interval over problems]",
        header=("benchmark", "grader", "k", *by_k),
        rows=tuple(rows),
        n_words=2,
    )
    return "\n".join(["", *(plain_table(table) if rows else []), *notes])


def problem_draws(grades: pl.DataFrame, grader: str) -> Iterator[ProblemDraws]:
    """By problem. grades: tables.GRADES. Draws that the grader could not judge are wrong; an answer
    of theirs votes. Right answers are one, but for graders with SOLUTIONS."""
    solution = SOLUTIONS.get(grader, _the_gold)
    for (_,), rows in grades.group_by("problem_id", maintain_order=True):
        votes: Counter[tuple[bool, str]] = Counter()
        for answer, outcome in rows.select("extracted", "outcome").iter_rows():
            if outcome == "correct":
                votes[True, solution(answer or "")] += 1
            elif answer is not None:
                votes[False, answer.strip()] += 1
        yield ProblemDraws(
            n_samples=len(rows),
            n_correct=sum(n for (right, _), n in votes.items() if right),
            n_by_answer=tuple(votes.values()),
            is_right=tuple(right for right, _ in votes),
            n_none=len(rows) - votes.total(),
        )


def _the_gold(answer: str) -> str:
    """The one solution of a problem whose right answers all equal its gold."""
    return ""


def _mean(problems: Sequence[ProblemDraws], word: str, k: int) -> str:
    values = np.array([READINGS[word](problem, k) for problem in problems])
    if np.isnan(values).any():
        return NONE
    is_fraction = word != "distinct@k"
    (interval,) = estimate(values[None, :, None], limits=FRACTIONS if is_fraction else UNBOUNDED)
    if is_fraction:
        return with_interval(interval.mean, interval.low, interval.high)
    ends = "" if interval.low is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
    return f"{interval.mean:.2f}{ends}"


def _bounds(problems: Sequence[ProblemDraws], word: str) -> str:
    """Of all draws; ValueError where problems have unequal numbers of them."""
    numbers = {problem.n_samples for problem in problems}
    if len(numbers) > 1:
        raise ValueError(
            f"--also {word}: problems have {min(numbers)} to {max(numbers)} draws, and this needs "
            "as many of each; leave it out"
        )
    n_samples, n_correct = numbers.pop(), [problem.n_correct for problem in problems]
    tau = COVER.fullmatch(word)
    low, high = (
        gini(n_samples=n_samples, n_correct=n_correct)
        if tau is None
        else cover_at(n_samples=n_samples, n_correct=n_correct, tau=float(tau[1]))
    )
    if math.isnan(low):
        return f"{NONE} (nothing is solved)"
    return f"{percent(low)} to {percent(high)}"
