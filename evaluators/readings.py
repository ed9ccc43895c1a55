"""`--also`: other readings of the draws that pass@k is computed from, beside it.

In: stored draws with their grades. Out: tables, of evaluations a row a benchmark, grader and k, of
compared ones with differences. The words: pass^k (all of k draws right), maj@k (the most frequent
answer of k is right), distinct@k (different right solutions among k), share@k (the
same of all solutions that there are, where a task can enumerate them); gini (how unequally success
is spread over problems) and cover@TAU, e.g. cover@0.5 (share of problems with a success rate of at
least that), both as bounds; of compared ones solutions (what became of the first one's).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.checkpoints import cluster_numbers
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.solutions import solution_masses
from fgrpo_bench.documents.table import NONE, Block, Paragraph, Table, percent, with_interval
from fgrpo_bench.graders import SOLUTIONS, grader_version, split_version
from fgrpo_bench.kinds.benchmarks import graders_of, load_problems, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec
from fgrpo_bench.stages.tables import GRADES, PASSK, read_table
from fgrpo_bench.stats.intervals import (
    FRACTIONS,
    IntervalEstimate,
    Limits,
    estimate,
    estimate_difference,
)
from fgrpo_bench.stats.readings import (
    cover_at,
    distinct_at_k,
    gini,
    maj_at_k,
    pass_hat_k,
)
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.tasks.countdown import all_solutions

from .stored import StoredDraws

COVER = re.compile(r"cover@(0?\.\d+)")
GINI, MASS, SHARE = "gini", "solutions", "share@k"
ENUMERATED = dict.fromkeys(("countdown", "countdown-partial"), all_solutions)
"""By grader: from a problem's target to all its solutions."""


@dataclass(frozen=True, kw_only=True)
class ProblemDraws:
    """The draws of a problem, as these readings take them."""

    n_samples: int
    votes: Mapping[tuple[bool, str], int]
    """Draws by answer: whether it is right, and its text; of a right one the solution that it is
    (fgrpo_bench.graders.SOLUTIONS). Draws without an answer are in none."""
    n_solutions: int | None = None
    """All that the problem has; None where they are not enumerated."""

    @property
    def n_correct(self) -> int:
        return sum(n for (is_right, _), n in self.votes.items() if is_right)

    @property
    def n_by_solution(self) -> dict[str, int]:
        return {text: n for (is_right, text), n in self.votes.items() if is_right}


@dataclass(frozen=True, kw_only=True)
class ReadingByK:
    """A mean over problems, by k."""

    of: Callable[[ProblemDraws, int], float]
    is_fraction: bool = True
    """Else a number of solutions, which nothing bounds."""

    @property
    def limits(self) -> Limits:
        return FRACTIONS if self.is_fraction else (-math.inf, math.inf)

    def shown(self, interval: IntervalEstimate) -> str:
        """In percent, or a number of solutions."""
        if interval.mean is None:
            return NONE
        if self.is_fraction:
            return with_interval(interval.mean, interval.low, interval.high)
        ends = "" if interval.low is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
        return f"{interval.mean:.2f}{ends}"


def _pass_hat_k(of: ProblemDraws, k: int) -> float:
    return float(pass_hat_k(n_samples=of.n_samples, n_correct=of.n_correct, k=k))


def _maj_at_k(of: ProblemDraws, k: int) -> float:
    return maj_at_k(
        n_by_answer=[*of.votes.values()],
        is_right=[is_right for is_right, _ in of.votes],
        n_none=of.n_samples - sum(of.votes.values()),
        k=k,
    )


def _distinct_at_k(of: ProblemDraws, k: int) -> float:
    return distinct_at_k(n_samples=of.n_samples, n_by_solution=[*of.n_by_solution.values()], k=k)


def _share_at_k(of: ProblemDraws, k: int) -> float:
    return math.nan if of.n_solutions is None else _distinct_at_k(of, k) / of.n_solutions


READINGS = {
    "pass^k": ReadingByK(of=_pass_hat_k),
    "maj@k": ReadingByK(of=_maj_at_k),
    "distinct@k": ReadingByK(of=_distinct_at_k, is_fraction=False),
    SHARE: ReadingByK(of=_share_at_k),
}


def words_of(also: str | None, *, is_comparison: bool = False) -> list[str]:
    """The words of an option, none for None; ValueError for one that is no reading."""
    words = [] if also is None else [word.strip() for word in also.split(",")]
    known = [*READINGS, *([MASS] if is_comparison else [GINI])]
    for word in words:
        if word.startswith("best@"):
            raise ValueError(
                f"--also {word}: grades say right or wrong and store no reward, of which this is "
                "the best; fgrpo_bench.stats.readings.best_at_k takes rewards"
            )
        if word not in known and (is_comparison or not COVER.fullmatch(word)):
            further = "" if is_comparison else " and cover@TAU, e.g. cover@0.5"
            raise ValueError(f"--also {word!r}: choose among {', '.join(known)}{further}")
    return words


def problem_draws(
    grades: pl.DataFrame, grader: str, n_solutions: Mapping[str, int] | None = None
) -> dict[str, ProblemDraws]:
    """By problem_id. Draws that the grader could not judge are wrong; an answer of theirs votes.
    Right answers are one, but for graders with SOLUTIONS.

    grades: tables.GRADES; n_solutions: as of `_numbers_of_solutions`."""
    solution = SOLUTIONS.get(grader, _the_gold)
    out = {}
    for (problem_id,), rows in grades.group_by("problem_id", maintain_order=True):
        votes: Counter[tuple[bool, str]] = Counter()
        for answer, outcome in rows.select("extracted", "outcome").iter_rows():
            if outcome == "correct":
                votes[True, solution(answer or "")] += 1
            elif answer is not None:
                votes[False, answer.strip()] += 1
        out[str(problem_id)] = ProblemDraws(
            n_samples=len(rows),
            votes=votes,
            n_solutions=(n_solutions or {}).get(str(problem_id)),
        )
    return out


def _numbers_of_solutions(
    spec: EvaluationSpec, benchmark: str, grader: str, words: Sequence[str]
) -> dict[str, int]:
    """How many solutions each problem has, by problem_id; empty where no word asks for them or they
    cannot be enumerated. ValueError of `all_solutions`."""
    if SHARE not in words or grader not in ENUMERATED:
        return {}
    problems = load_problems(spec.benchmark(benchmark), spec.task, spec.data_folder(benchmark))
    return {of.problem_id: len(ENUMERATED[grader](of.target)) for of in problems}


def _clusters(passk: pl.DataFrame, names: Iterable[str]) -> NDArray[np.int64] | None:
    """Of problems, which intervals follow as those of pass@k do. passk: tables.PASSK."""
    of_problem = dict(passk.select("problem_id", "cluster").iter_rows())
    return cluster_numbers([of_problem.get(name) for name in names])


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


def readings(stored: Sequence[StoredDraws], words: Sequence[str]) -> Table:
    """A row a benchmark, grader and k, a column a word; bounds as notes. Raises as `cover_at` for
    too few draws."""
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
            n_solutions = _numbers_of_solutions(
                evaluation.spec, evaluation.benchmark.name, grader, words
            )
            by_name = problem_draws(_graded(path, design), grader, n_solutions)
            passk = read_table(passk_path(evaluation.paths, evaluation.benchmark, grader), PASSK)
            clusters, problems = _clusters(passk, by_name), [*by_name.values()]
            named = (evaluation.benchmark.name, grader)
            for k in evaluation.spec.stored_evaluation.ks if by_k else ():
                rows.append(
                    (*named, str(k), *(_mean(problems, word, k, clusters) for word in by_k))
                )
            bounds = [f"{word} {_bounds(problems, word)}" for word in words if word not in by_k]
            notes += [f"{', '.join(named)}, bounds: {', '.join(bounds)}"] if bounds else []
    return Table(
        title="Other readings of the same draws, in percent but for distinct@k "
        "[95% interval over problems]",
        header=("benchmark", "grader", "k", *by_k),
        rows=tuple(rows),
        n_words=2,
        notes=tuple(notes),
    )


def _mean(
    problems: Sequence[ProblemDraws], word: str, k: int, clusters: NDArray[np.int64] | None
) -> str:
    reading = READINGS[word]
    values = np.array([reading.of(problem, k) for problem in problems])
    interval = estimate(values[None, :, None], limits=reading.limits, clusters=clusters)[0]
    return reading.shown(interval)


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
        sides = _of_shared_problems(
            {
                label: [
                    _grades_of(item, benchmark, words)
                    for item in checkpoints
                    if item.label == label
                ]
                for label in labels
            }
        )
        names, problems = _names(sides), _by_problem(sides)
        clusters = _clusters(checkpoints[0].passk(benchmark), names)
        for word in words:
            if word in READINGS:
                is_fraction = READINGS[word].is_fraction
                yield Table(
                    title=f"{benchmark}: {word}"
                    + (" in percent" if is_fraction else ", different right solutions"),
                    header=("", "k", "value [95% interval]", f"less that of {labels[0]}"),
                    rows=tuple(_differences(READINGS[word], problems, ks, clusters)),
                )
            else:
                yield _mass_table(benchmark, checkpoints, sides[labels[0]][0].grader)
        for text in dict.fromkeys(
            text for item in checkpoints for text in _of_first_stage(benchmark, item.stopping())
        ):
            yield Paragraph(text=text)


@dataclass(frozen=True, kw_only=True)
class Graded:
    """Grades of a checkpoint's draws (tables.GRADES) and whose they are."""

    grader: str
    grades: pl.DataFrame
    n_solutions: Mapping[str, int]
    """As of `_numbers_of_solutions`."""


Sides = Mapping[str, Sequence[Graded]]
"""By label: of each seed."""
Problems = Mapping[str, Sequence[Sequence[ProblemDraws]]]
"""By label: of each seed the draws of the same problems."""


def _grades_of(checkpoint: EvaluatedCheckpoint, benchmark: str, words: Sequence[str]) -> Graded:
    version = checkpoint.judge_on(benchmark) or ""
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    if not path.exists():
        raise ValueError(
            f"--also: {checkpoint.name} has no grades on {benchmark} ({path} is not there): its "
            "draws were left behind; compare it where they are"
        )
    grader = split_version(version)[0]
    return Graded(
        grader=grader,
        grades=_graded(path, checkpoint.stopping()),
        n_solutions=_numbers_of_solutions(checkpoint.evaluation_spec(), benchmark, grader, words),
    )


def _names(sides: Sides) -> list[str]:
    """problem_ids of sides of the same problems, in the order of `_by_problem`."""
    return sorted(next(iter(sides.values()))[0].grades["problem_id"].unique())


def _of_shared_problems(sides: Sides) -> Sides:
    """Without the grades of problems that not all have."""
    seeds = [of for of_label in sides.values() for of in of_label]
    shared = set.intersection(*(set(of.grades["problem_id"]) for of in seeds))
    is_shared = pl.col("problem_id").is_in(sorted(shared))
    return {
        label: [replace(of, grades=of.grades.filter(is_shared)) for of in of_label]
        for label, of_label in sides.items()
    }


def _by_problem(sides: Sides) -> Problems:
    """sides: of the same problems."""
    return {
        label: [
            [
                of
                for _, of in sorted(
                    problem_draws(graded.grades, graded.grader, graded.n_solutions).items()
                )
            ]
            for graded in of_label
        ]
        for label, of_label in sides.items()
    }


def _differences(
    reading: ReadingByK,
    problems: Problems,
    ks: Sequence[int],
    clusters: NDArray[np.int64] | None,
) -> Iterator[tuple[str, ...]]:
    values = {
        label: np.array([[[reading.of(of, k) for k in ks] for of in of_seed] for of_seed in seeds])
        for label, seeds in problems.items()
    }
    first = next(iter(values.values()))
    for label, of_label in values.items():
        means = estimate(of_label, limits=reading.limits, clusters=clusters)
        if reading.is_fraction:
            less = estimate_difference(of_label, first, clusters=clusters)
        else:
            less = estimate(of_label - first, limits=reading.limits, clusters=clusters)
        for k, mean, apart in zip(ks, means, less, strict=True):
            difference = NONE if of_label is first else reading.shown(apart)
            yield label, str(k), reading.shown(mean), difference


def _mass_table(benchmark: str, checkpoints: Sequence[EvaluatedCheckpoint], grader: str) -> Table:
    """What became of the first label's mass on solutions under each other one."""
    old = checkpoints[0].label
    if grader not in SOLUTIONS:
        raise ValueError(
            f"--also {MASS}: all right answers of a problem of {benchmark} are one solution, its "
            f"gold; problems of {', '.join(SOLUTIONS)} have several"
        )
    masses = solution_masses(checkpoints, benchmark, old)
    return Table(
        title=f"{benchmark}: what became of {old}'s mass on right solutions, in percent of draws "
        "[95% interval]",
        header=("under", "kept", "moved to other solutions", "lost"),
        rows=tuple(
            (
                f"{old}, one half of its draws under the other" if of.cell == old else of.cell,
                *(with_interval(p.mean, p.low, p.high) for p in (of.kept, of.moved, of.lost)),
            )
            for of in masses
        ),
        notes=(
            "Noise of the draws alone makes some mass look moved or lost: the first row has how "
            "much, of half as many draws.",
        ),
    )
