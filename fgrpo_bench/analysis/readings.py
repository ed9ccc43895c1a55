"""Other readings of the draws that pass@k is computed from: pass^k, maj@k, best@k, distinct@k,
share@k, how success is spread over problems, and what became of the base models' solutions.

In: stored grades of checkpoints. Out: the draws of each problem (`problem_draws`), READINGS of
them, and the rows of the frame `readings`. Next: the formulas are in fgrpo_bench.stats.readings;
`--also` of evaluate and compare takes READINGS for single evaluations.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.checkpoints import At, cluster_numbers, frame_key
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import ALL, SEVERAL, ReadingRow
from fgrpo_bench.analysis.solutions import solution_masses
from fgrpo_bench.graders import SOLUTIONS, reward_of, split_version
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.evaluate import EvaluationSpec
from fgrpo_bench.stages.tables import GRADES, read_table
from fgrpo_bench.stats.intervals import FRACTIONS, IntervalEstimate, Limits, estimate
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.readings import best_at_ks, cover_at, gini, maj_at_ks, pass_hat_k
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.tasks.countdown import all_solutions

MOST_VOTES = 8
"""Largest k of maj@k in the frame: of a countdown checkpoint, 256 problems of 108 answers each, it
takes 0.15 s of a processor, and three times as much at 16. `--also maj@k` has every k."""
GINI, COVER = "gini", re.compile(r"cover@(0?\.\d+)")
"""Readings of which there are bounds, no means; cover@TAU of any TAU."""
BOUNDED = (GINI, "cover@0.5")
"""Of these in the frame."""
FATES = ("kept", "moved", "lost")
"""What became of the base models' right draws, each a reading of the frame."""
ENUMERATED = dict.fromkeys(("countdown", "countdown-partial"), all_solutions)
"""By grader: from a problem's target to all its solutions."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ProblemDraws:
    """The draws of a problem, as these readings take them."""

    n_samples: int
    votes: Mapping[tuple[bool, str], int]
    """Draws by answer: whether it is right, and its text; of a right one the solution that it is
    (fgrpo_bench.graders.SOLUTIONS). Draws without an answer are in none."""
    n_solutions: int | None = None
    """All that the problem has; None where they are not enumerated."""
    rewards: Mapping[float, int] | None = None
    """Draws by reward; None where right ones earn 1 and all others 0."""

    @property
    def n_correct(self) -> int:
        return sum(n for (is_right, _), n in self.votes.items() if is_right)

    @property
    def n_by_reward(self) -> Mapping[float, int]:
        right = self.n_correct
        return self.rewards or {1.0: right, 0.0: self.n_samples - right}

    @property
    def n_by_solution(self) -> dict[str, int]:
        return {text: n for (is_right, text), n in self.votes.items() if is_right}


@dataclass(frozen=True, kw_only=True)
class ReadingByK:
    """A mean over problems, by k."""

    values: Callable[[Sequence[ProblemDraws], Sequence[int]], Floats]
    """[problems, ks]; nan where a problem has none."""
    digits: int | None = None
    """Of a number, behind the point; None: a fraction, shown in percent."""
    is_reward: bool = False
    """Whether the number is a fraction all the same where no value lies outside 0 and 1."""

    def limits(self, *values: Floats) -> Limits:
        """Of means of these values: FRACTIONS, or infinite ones where nothing bounds them."""
        is_within = not any(((of < 0) | (of > 1)).any() for of in values)
        is_fraction = self.digits is None or (self.is_reward and is_within)
        return FRACTIONS if is_fraction else (-math.inf, math.inf)


def _pass_hat(problems: Sequence[ProblemDraws], ks: Sequence[int]) -> Floats:
    n_samples = np.array([problem.n_samples for problem in problems])[:, None]
    n_correct = np.array([problem.n_correct for problem in problems])[:, None]
    return np.asarray(pass_hat_k(n_samples=n_samples, n_correct=n_correct, k=np.array(ks)))


def _maj(problems: Sequence[ProblemDraws], ks: Sequence[int]) -> Floats:
    return maj_at_ks(
        n_by_answer=[[*problem.votes.values()] for problem in problems],
        is_right=[[is_right for is_right, _ in problem.votes] for problem in problems],
        n_none=[problem.n_samples - sum(problem.votes.values()) for problem in problems],
        ks=ks,
    )


def _best(problems: Sequence[ProblemDraws], ks: Sequence[int]) -> Floats:
    return best_at_ks(n_by_reward=[problem.n_by_reward for problem in problems], ks=ks)


def _distinct(problems: Sequence[ProblemDraws], ks: Sequence[int]) -> Floats:
    """distinct_at_k of many: the sum of pass@k of each solution."""
    places = [i for i, problem in enumerate(problems) for _ in problem.n_by_solution]
    counts = [n for problem in problems for n in problem.n_by_solution.values()]
    n_samples = np.array([problem.n_samples for problem in problems])
    numbers = np.zeros((len(problems), len(ks)))
    if places:
        n_correct = np.array(counts)[:, None]
        within = pass_at_k(
            n_samples=n_samples[places][:, None], n_correct=n_correct, k=np.array(ks)
        )
        np.add.at(numbers, places, within)
    numbers[n_samples[:, None] < np.array(ks)] = math.nan
    return numbers


def _share(problems: Sequence[ProblemDraws], ks: Sequence[int]) -> Floats:
    known = [problem.n_solutions or math.nan for problem in problems]
    share: Floats = _distinct(problems, ks) / np.array(known)[:, None]
    return share


MAJ, BEST, DISTINCT, SHARE = "maj@k", "best@k", "distinct@k", "share@k"
READINGS = {
    "pass^k": ReadingByK(values=_pass_hat),
    MAJ: ReadingByK(values=_maj),
    BEST: ReadingByK(values=_best, digits=3, is_reward=True),
    DISTINCT: ReadingByK(values=_distinct, digits=2),
    SHARE: ReadingByK(values=_share),
}


def units_in_words(words: Iterable[str]) -> str:
    """In what a table of these of READINGS is, e.g. `in percent but for distinct@k`."""
    numbers = [word for word in words if word in READINGS and READINGS[word].digits is not None]
    return "in percent" + (f" but for {' and '.join(numbers)}" if numbers else "")


def says_right_or_wrong(benchmark: str, grader: str) -> str:
    """What stands beside best@k of such a grader."""
    return (
        f"{benchmark}: {grader} says right or wrong alone, so that best@k is pass@k there, with "
        "unscored draws as wrong ones"
    )


def reading_bounds(word: str, problems: Sequence[ProblemDraws]) -> tuple[float, float]:
    """Bounds of GINI or COVER over problems, at least one; nan where nothing is solved. ValueError
    where problems have unequal numbers of draws, or too few (`cover_at`, `gini`)."""
    numbers = {problem.n_samples for problem in problems}
    if len(numbers) > 1:
        raise ValueError(
            f"{word}: problems have {min(numbers)} to {max(numbers)} draws, and this needs as many "
            "of each; leave it out"
        )
    n_samples, n_correct = numbers.pop(), [problem.n_correct for problem in problems]
    tau = COVER.fullmatch(word)
    if tau is None:
        return gini(n_samples=n_samples, n_correct=n_correct)
    return cover_at(n_samples=n_samples, n_correct=n_correct, tau=float(tau[1]))


def problem_draws(
    grades: pl.DataFrame, grader: str, n_solutions: Mapping[str, int] | None = None
) -> dict[str, ProblemDraws]:
    """By problem_id. Draws that the grader could not judge are wrong and earn 0; an answer of
    theirs votes. Right answers are one, but for graders with SOLUTIONS.

    grades: tables.GRADES; n_solutions: as of `solution_counts`."""
    solution = SOLUTIONS.get(grader, _the_gold)
    sizes = grades.group_by("problem_id", maintain_order=True).len()
    votes: dict[str, Counter[tuple[bool, str]]] = {name: Counter() for name in sizes["problem_id"]}
    answers = grades.group_by(
        "problem_id", "extracted", is_right=pl.col("outcome") == "correct", maintain_order=True
    ).len()
    for name, answer, is_right, n in answers.iter_rows():
        if is_right:
            votes[name][True, solution(answer or "")] += n
        elif answer is not None:
            votes[name][False, answer.strip()] += n
    rewards = _rewards(grades, grader)
    return {
        name: ProblemDraws(
            n_samples=n_samples,
            votes=votes[name],
            n_solutions=(n_solutions or {}).get(name),
            rewards=rewards.get(name),
        )
        for name, n_samples in sizes.iter_rows()
    }


def _rewards(grades: pl.DataFrame, grader: str) -> dict[str, Counter[float]]:
    """Draws by reward, by problem_id; empty where grades say right or wrong alone."""
    reward, rewards = reward_of(grader), dict[str, Counter[float]]()
    if reward is not None:
        kinds = grades.group_by("problem_id", "outcome", "reason", maintain_order=True).len()
        for name, outcome, reason, n in kinds.iter_rows():
            rewards.setdefault(name, Counter())[reward(outcome, reason)] += n
    return rewards


def _the_gold(answer: str) -> str:
    """The one solution of a problem whose right answers all equal its gold."""
    return ""


def solution_counts(spec: EvaluationSpec, benchmark: str, grader: str) -> dict[str, int]:
    """How many solutions each problem has, by problem_id; empty where they cannot be enumerated.
    ValueError of `all_solutions`."""
    if grader not in ENUMERATED:
        return {}
    problems = load_problems(spec.benchmark(benchmark), spec.task, spec.data_folder(benchmark))
    return {problem.problem_id: len(ENUMERATED[grader](problem.target)) for problem in problems}


def parts_by_solutions(
    names: Iterable[str], n_solutions: Mapping[str, int]
) -> dict[str, list[str]]:
    """problem_ids, sorted: ALL of them, and SEVERAL, those of more than one solution, where some
    but not all are. Of a problem with one solution nothing can move.

    n_solutions: as of `solution_counts`."""
    every = sorted(names)
    several = [name for name in every if n_solutions.get(name, 1) > 1]
    return {ALL: every, SEVERAL: several} if 0 < len(several) < len(every) else {ALL: every}


def part_in_words(part: str, n_problems: int) -> str:
    """What a title says of the problems of a part, behind what the table is of."""
    return "" if part == ALL else f" of the {n_problems} problems with several solutions"


def first_stage(path: Path, design: StagedDesign) -> pl.DataFrame:
    """Grades of draws whose number does not depend on what they are: of a design that stops those
    of its first stage."""
    return read_table(path, GRADES).filter(pl.col("draw") < design.stages[0])


def readings(
    results: Results, chosen: Collection[At], problem_ids: Mapping[str, Collection[str]]
) -> Iterator[ReadingRow]:
    """The rows of the frame `readings`: a row a benchmark, cell, reading and k. A cell of which
    grades are not there has none.

    chosen: the checkpoint that stands for each cell. problem_ids: by benchmark those that count.
    """
    for benchmark in results.benchmarks:
        checkpoints = [
            item
            for item in results.checkpoints
            if frame_key(item) in chosen and grades_path(item, benchmark) is not None
        ]
        if checkpoints:
            yield from _benchmark_readings(benchmark, checkpoints, problem_ids[benchmark])


def grades_path(checkpoint: EvaluatedCheckpoint, benchmark: str) -> Path | None:
    """Where the grades of a checkpoint are that its pass@k is of; None where they are not there."""
    if checkpoint.results_on(benchmark) is None:
        return None
    version = checkpoint.judge_on(benchmark)
    path = checkpoint.evaluate.benchmark(benchmark).grades(version or "")
    return path if version is not None and path.exists() else None


def _benchmark_readings(
    benchmark: str, checkpoints: Sequence[EvaluatedCheckpoint], names: Collection[str]
) -> Iterator[ReadingRow]:
    ks = tuple(checkpoints[0].evaluation_spec().stored_evaluation.ks)
    table = checkpoints[0].passk(benchmark)
    cluster = dict(table.select("problem_id", "cluster").unique().iter_rows())
    graders = {split_version(item.judge_on(benchmark) or "")[0] for item in checkpoints}
    grader = next(iter(graders)) if len(graders) == 1 else ""
    n_solutions: dict[str, int] = {}
    with suppress(OSError, ValueError):  # a dataset that is gone, more digits than are enumerated
        n_solutions = solution_counts(checkpoints[0].evaluation_spec(), benchmark, grader)
    parts = parts_by_solutions(names, n_solutions)
    by_cell: dict[str, list[EvaluatedCheckpoint]] = {}
    for item in checkpoints:
        by_cell.setdefault(item.label, []).append(item)
    for cell, seeds in by_cell.items():
        draws = [_draws(item, benchmark, grader, n_solutions) for item in seeds]
        row = _empty(benchmark, cell, tuple(item.seed for item in seeds))
        for part, of_part in parts.items():
            clusters = cluster_numbers([cluster.get(name) for name in of_part])
            # of problems with one solution these are what they are over all problems
            words = [DISTINCT, SHARE] if part == SEVERAL else _readings_of(grader, n_solutions)
            for word in words:
                yield from _by_k(
                    replace(row, reading=word, problems=part), draws, of_part, ks, clusters
                )
        yield from _bounds(row, draws, names)
    for mass in solution_masses(checkpoints, benchmark, parts=parts):
        row = _empty(benchmark, mass.cell, mass.seeds)
        for fate, interval in zip(FATES, (mass.kept, mass.moved, mass.lost), strict=True):
            yield from _estimated(replace(row, reading=fate, problems=mass.problems), interval)


def _empty(benchmark: str, cell: str, seeds: tuple[int | None, ...]) -> ReadingRow:
    """A row of a cell that says nothing yet, of all problems."""
    return ReadingRow(
        benchmark=benchmark, cell=cell, reading="", k=None, problems=ALL, mean=None, low=None,
        high=None, is_bounds=False, seeds=seeds, by_seed=(), n_problems=0,
    )  # fmt: skip


def _readings_of(grader: str, n_solutions: Mapping[str, int]) -> list[str]:
    """Of READINGS those that tell something of a grader's problems."""
    tell = {
        BEST: grader != "" and reward_of(grader) is not None,
        DISTINCT: grader in SOLUTIONS,
        SHARE: bool(n_solutions),
    }
    return [word for word in READINGS if tell.get(word, True)]


def _draws(
    checkpoint: EvaluatedCheckpoint, benchmark: str, grader: str, n_solutions: Mapping[str, int]
) -> dict[str, ProblemDraws]:
    path = grades_path(checkpoint, benchmark)
    assert path is not None
    return problem_draws(first_stage(path, checkpoint.stopping()), grader, n_solutions)


def _by_k(
    row: ReadingRow,
    draws: Sequence[Mapping[str, ProblemDraws]],
    names: Sequence[str],
    ks: Sequence[int],
    clusters: NDArray[np.int64] | None,
) -> Iterator[ReadingRow]:
    reading = READINGS[row.reading]
    shown = [k for k in ks if k <= MOST_VOTES] if row.reading == MAJ else ks
    values = np.full((len(draws), len(names), len(shown)), math.nan)
    for seed, by_name in enumerate(draws):
        places = [place for place, name in enumerate(names) if name in by_name]
        if places and shown:
            values[seed, places] = reading.values([by_name[names[i]] for i in places], shown)
    if shown:
        intervals = estimate(values, limits=reading.limits(values), clusters=clusters)
        for k, interval in zip(shown, intervals, strict=True):
            yield from _estimated(replace(row, k=k), interval)


def _estimated(row: ReadingRow, interval: IntervalEstimate) -> Iterator[ReadingRow]:
    """The row with its interval; none where no problem has a value."""
    if interval.mean is not None:
        yield replace(
            row,
            mean=interval.mean,
            low=interval.low,
            high=interval.high,
            by_seed=interval.by_seed,
            n_problems=interval.n_problems,
        )


def _bounds(
    row: ReadingRow, draws: Sequence[Mapping[str, ProblemDraws]], names: Collection[str]
) -> Iterator[ReadingRow]:
    """Means over seeds of the BOUNDED, of the problems that all seeds have; none where these have
    unequal or too few draws."""
    shared = [name for name in names if all(name in of_seed for of_seed in draws)]
    problems = [[of_seed[name] for name in shared] for of_seed in draws]
    for word in BOUNDED if shared else ():
        with suppress(ValueError):  # of unequal or too few draws
            bounds = [reading_bounds(word, of_seed) for of_seed in problems]
            low, high = np.mean(bounds, axis=0).tolist()
            if not math.isnan(low):
                yield replace(
                    row, reading=word, low=low, high=high, is_bounds=True, n_problems=len(shared)
                )
