"""`--also`: other readings of the draws that pass@k is computed from, beside it.

In: stored draws with their grades. Out: tables, of evaluations a row a benchmark, grader and k, of
compared ones with differences. The words: pass^k (all of k draws right), maj@k (the most frequent
answer of k is right), distinct@k (different right solutions among k); gini (how unequally success
is spread over problems) and cover@TAU, e.g. cover@0.5 (share of problems with a success rate of at
least that), both as bounds; of compared ones solutions (what became of the first one's).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.documents.table import NONE, Block, Paragraph, Table, percent, with_interval
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.graders import SOLUTIONS, grader_version
from fgrpo_bench.kinds.benchmarks import graders_of
from fgrpo_bench.stages.tables import GRADES, read_table
from fgrpo_bench.stats.intervals import (
    FRACTIONS,
    IntervalEstimate,
    estimate,
    estimate_difference,
)
from fgrpo_bench.stats.readings import (
    cover_at,
    distinct_at_k,
    gini,
    maj_at_k,
    pass_hat_k,
    solution_mass,
)
from fgrpo_bench.stats.staged import StagedDesign

from .stored import StoredDraws

COVER = re.compile(r"cover@(0?\.\d+)")
GINI, MASS = "gini", "solutions"
UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class ProblemDraws:
    """The draws of a problem, as these readings take them."""

    n_samples: int
    votes: Mapping[tuple[bool, str], int]
    """Draws by answer: whether it is right, and its text; of a right one the solution that it is
    (fgrpo_bench.graders.SOLUTIONS). Draws without an answer are in none."""

    @property
    def n_correct(self) -> int:
        return sum(n for (is_right, _), n in self.votes.items() if is_right)

    @property
    def n_by_solution(self) -> dict[str, int]:
        return {text: n for (is_right, text), n in self.votes.items() if is_right}


READINGS: dict[str, Callable[[ProblemDraws, int], float]] = {
    "pass^k": lambda of, k: float(pass_hat_k(n_samples=of.n_samples, n_correct=of.n_correct, k=k)),
    "maj@k": lambda of, k: maj_at_k(
        n_by_answer=[*of.votes.values()],
        is_right=[is_right for is_right, _ in of.votes],
        n_none=of.n_samples - sum(of.votes.values()),
        k=k,
    ),
    "distinct@k": lambda of, k: distinct_at_k(
        n_samples=of.n_samples, n_by_solution=[*of.n_by_solution.values()], k=k
    ),
}
"""A mean over problems, by k."""


def words_of(also: str | None, *, is_comparison: bool = False) -> list[str]:
    """The words of an option, none for None; ValueError for one that is no reading."""
    words = [] if also is None else [word.strip() for word in also.split(",")]
    known = [*READINGS, *([MASS] if is_comparison else [GINI])]
    for word in words:
        if word not in known and (is_comparison or not COVER.fullmatch(word)):
            further = "" if is_comparison else " and cover@TAU, e.g. cover@0.5"
            raise ValueError(f"--also {word!r}: choose among {', '.join(known)}{further}")
    return words


def problem_draws(grades: pl.DataFrame, grader: str) -> dict[str, ProblemDraws]:
    """By problem_id. grades: tables.GRADES. Draws that the grader could not judge are wrong; an
    answer of theirs votes. Right answers are one, but for graders with SOLUTIONS."""
    solution = SOLUTIONS.get(grader, _the_gold)
    out = {}
    for (problem_id,), rows in grades.group_by("problem_id", maintain_order=True):
        votes: Counter[tuple[bool, str]] = Counter()
        for answer, outcome in rows.select("extracted", "outcome").iter_rows():
            if outcome == "correct":
                votes[True, solution(answer or "")] += 1
            elif answer is not None:
                votes[False, answer.strip()] += 1
        out[str(problem_id)] = ProblemDraws(n_samples=len(rows), votes=votes)
    return out


def _the_gold(answer: str) -> str:
    """The one solution of a problem whose right answers all equal its gold."""
    return ""


def _graded(path: Path, design: StagedDesign) -> pl.DataFrame:
    """Grades of draws whose number does not depend on what they are: of a design that stops those
    of its first stage."""
    return read_table(path, GRADES).filter(pl.col("draw") < design.stages[0])


def _of_first_stage(benchmark: str, design: StagedDesign) -> list[str]:
    """What is to be said of a design that stops."""
    if design.is_fixed:
        return []
    return [
        f"{benchmark}: of the first {design.stages[0]:,} draws of each problem. Which later ones "
        "there are depends on how many of these are right, so that larger k have no value."
    ]


# Of evaluations.


def readings(stored: Sequence[StoredDraws], words: Sequence[str]) -> str:
    """Lines for a terminal: a row a benchmark, grader and k, a column a word; bounds below. Raises
    as `cover_at` for too few draws."""
    by_k = [word for word in words if word in READINGS]
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for evaluation in stored:
        design = evaluation.spec.stopping
        notes += _of_first_stage(evaluation.benchmark.name, design)
        for grader in graders_of(evaluation.benchmark):
            path = evaluation.paths.grades(grader_version(grader))
            if not path.exists():
                continue
            problems = [*problem_draws(_graded(path, design), grader).values()]
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


def _mean(problems: Sequence[ProblemDraws], word: str, k: int) -> str:
    values = np.array([READINGS[word](problem, k) for problem in problems])
    limits = UNBOUNDED if word == "distinct@k" else FRACTIONS
    return _shown(word, estimate(values[None, :, None], limits=limits)[0])


def _shown(word: str, interval: IntervalEstimate) -> str:
    """In percent, of distinct@k solutions."""
    if interval.mean is None:
        return NONE
    if word != "distinct@k":
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


# Of what is compared.


def between(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmarks: Sequence[str],
    ks: Sequence[int],
    words: Sequence[str],
) -> Iterator[Block]:
    """Tables of the labels of checkpoints, each against the first; problems that all have, paired
    over these and over seeds. ValueError where grades are missing, or where right answers are all
    one and `solutions` is among the words."""
    labels = list(dict.fromkeys(checkpoint.label for checkpoint in checkpoints))
    for benchmark in benchmarks if words else ():
        sides = {
            label: [_draws_of(item, benchmark) for item in checkpoints if item.label == label]
            for label in labels
        }
        shared = set.intersection(*(set(of) for seeds in sides.values() for of in seeds))
        problems = {
            label: [[of[name] for name in sorted(shared)] for of in seeds]
            for label, seeds in sides.items()
        }
        for word in words:
            if word in READINGS:
                rows = _differences(word, problems, ks)
                yield Table(
                    title=f"{benchmark}: {word}"
                    + (", different right solutions" if word == "distinct@k" else " in percent"),
                    header=("", "k", "value [95% interval]", f"less that of {labels[0]}"),
                    rows=tuple(rows),
                )
            else:
                yield _mass_table(benchmark, checkpoints, problems, sorted(shared))
        for text in dict.fromkeys(
            text for item in checkpoints for text in _of_first_stage(benchmark, item.stopping())
        ):
            yield Paragraph(text=text)


def _draws_of(
    checkpoint: EvaluatedCheckpoint, benchmark: str, *, parity: int | None = None
) -> dict[str, ProblemDraws]:
    """parity: of its draws those with an even (0) or odd (1) number; None: all."""
    version = checkpoint.judge_on(benchmark) or ""
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    if not path.exists():
        raise ValueError(
            f"--also: {checkpoint.name} has no grades on {benchmark} ({path} is not there): its "
            "draws were left behind; compare it where they are"
        )
    grades = _graded(path, checkpoint.stopping())
    if parity is not None:
        grades = grades.filter(pl.col("draw") % 2 == parity)
    return problem_draws(grades, version.split("+")[0].rpartition("-")[0])


Problems = Mapping[str, Sequence[Sequence[ProblemDraws]]]
"""By label: of each seed the draws of the same problems."""


def _differences(word: str, problems: Problems, ks: Sequence[int]) -> Iterator[tuple[str, ...]]:
    values = {
        label: np.array(
            [[[READINGS[word](of, k) for k in ks] for of in of_seed] for of_seed in seeds]
        )
        for label, seeds in problems.items()
    }
    first = next(iter(values.values()))
    is_count = word == "distinct@k"
    for label, of_label in values.items():
        means = estimate(of_label, limits=UNBOUNDED if is_count else FRACTIONS)
        if is_count:
            less = estimate(of_label - first, limits=UNBOUNDED)
        else:
            less = estimate_difference(of_label, first)
        for k, mean, apart in zip(ks, means, less, strict=True):
            difference = NONE if of_label is first else _shown(word, apart)
            yield label, str(k), _shown(word, mean), difference


def _mass_table(
    benchmark: str,
    checkpoints: Sequence[EvaluatedCheckpoint],
    problems: Problems,
    shared: Sequence[str],
) -> Table:
    """What became of the first label's mass on solutions under each other one."""
    old, *others = problems
    grader = (checkpoints[0].judge_on(benchmark) or "").split("+")[0].rpartition("-")[0]
    if grader not in SOLUTIONS:
        raise ValueError(
            f"--also {MASS}: all right answers of a problem of {benchmark} are one solution, its "
            f"gold; problems of {', '.join(SOLUTIONS)} have several"
        )
    halves = []
    for checkpoint in checkpoints:
        if checkpoint.label == old:
            even, odd = (_draws_of(checkpoint, benchmark, parity=parity) for parity in (0, 1))
            halves.append([_mass(even[name], odd[name]) for name in shared])
    rows = [
        (f"{old}, one half of its draws under the other", *_parts(np.array(halves))),
        *(
            (
                label,
                *_parts(
                    np.array(
                        [
                            [_mass(before, after) for before, after in zip(*seed, strict=True)]
                            for seed in zip(problems[old], problems[label], strict=True)
                        ]
                    )
                ),
            )
            for label in others
        ),
    ]
    return Table(
        title=f"{benchmark}: what became of {old}'s mass on right solutions, in percent of draws "
        "[95% interval]",
        header=("under", "kept", "moved to other solutions", "lost"),
        rows=tuple(rows),
        notes=(
            "Noise of the draws alone makes some mass look moved or lost: the first row has how "
            "much, of half as many draws.",
        ),
    )


def _mass(old: ProblemDraws, new: ProblemDraws) -> tuple[float, float, float]:
    shares = [{text: n / of.n_samples for text, n in of.n_by_solution.items()} for of in (old, new)]
    return solution_mass(*shares)


def _parts(values: NDArray[np.float64]) -> Iterator[str]:
    """values: [seeds, problems, 3]."""
    for part in estimate(values, limits=FRACTIONS):
        yield with_interval(part.mean, part.low, part.high)
