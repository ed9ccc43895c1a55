"""`--also`: other readings of the draws that pass@k is computed from, beside it.

In: stored draws with their grades. Out: tables, of evaluations a row a benchmark, grader and k, of
compared ones with differences. The words: pass^k (all of k draws right), maj@k (the most frequent
answer of k is right), best@k (the largest reward among k, where grades have others than 1 and 0),
distinct@k (different right solutions among k), share@k (the same of all solutions that there are,
where a task can enumerate them); gini (how unequally success is spread over problems) and
cover@TAU, e.g. cover@0.5 (share of problems with a success rate of at least that), both as bounds;
of compared ones solutions (what became of the first one's).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.analysis.checkpoints import cluster_numbers
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.readings import (
    BEST,
    COVER,
    DISTINCT,
    GINI,
    READINGS,
    SHARE,
    ProblemDraws,
    first_stage,
    part_in_words,
    parts_by_solutions,
    problem_draws,
    reading_bounds,
    says_right_or_wrong,
    solution_counts,
    units_in_words,
)
from fgrpo_bench.analysis.rows import ALL
from fgrpo_bench.analysis.solutions import solution_masses
from fgrpo_bench.documents.table import (
    NONE,
    Block,
    Paragraph,
    Table,
    with_interval,
)
from fgrpo_bench.graders import SOLUTIONS, grader_version, reward_of, split_version
from fgrpo_bench.kinds.benchmarks import grader_names, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationSpec
from fgrpo_bench.report.tables.solutions import (
    FATE_HEADS,
    bounds_in_percent,
    fates_table,
    reading_shown,
)
from fgrpo_bench.stages.tables import PASSK, read_table
from fgrpo_bench.stats.intervals import FRACTIONS, IntervalEstimate, estimate, estimate_difference
from fgrpo_bench.stats.staged import StagedDesign

from .stored import StoredDraws

MASS = "solutions"
UNITS = {BEST: ", the largest reward", DISTINCT: ", different right solutions"}
"""What a title says of numbers, which all others are not."""
NEED_SOLUTIONS = frozenset({DISTINCT, SHARE, MASS})
"""Words for which the solutions of each problem are enumerated, where they can be."""


def _shown(word: str, interval: IntervalEstimate) -> str:
    return reading_shown(word, interval.mean, interval.low, interval.high)


def parse_readings(also: str | None, *, is_comparison: bool = False) -> list[str]:
    """The readings that an option names, none for None; ValueError for one that is no reading."""
    names = [] if also is None else [word.strip() for word in also.split(",")]
    choices = [*READINGS, *([MASS] if is_comparison else [GINI])]
    for word in names:
        if word not in choices and (is_comparison or not COVER.fullmatch(word)):
            further = "" if is_comparison else " and cover@TAU, e.g. cover@0.5"
            raise ValueError(f"--also {word!r}: choose among {', '.join(choices)}{further}")
    return names


def _enumerated(
    spec: EvaluationSpec, benchmark: str, grader: str, names: Sequence[str]
) -> dict[str, int]:
    """As `solution_counts`; empty where no word asks for them."""
    if NEED_SOLUTIONS.isdisjoint(names):
        return {}
    return solution_counts(spec, benchmark, grader)


def _clusters(passk: pl.DataFrame, names: Iterable[str]) -> NDArray[np.int64] | None:
    """Of problems, which intervals follow as those of pass@k do. passk: tables.PASSK."""
    of_problem = dict(passk.select("problem_id", "cluster").iter_rows())
    return cluster_numbers([of_problem.get(name) for name in names])


def _first_stage_notes(benchmark: str, design: StagedDesign) -> list[str]:
    """What is to be said of a design that stops."""
    if design.is_fixed:
        return []
    return [
        f"{benchmark}: of the first {design.stages[0]:,} draws of each problem. Which later ones "
        "there are depends on how many of these are right, so that larger k have no value."
    ]


# Of evaluations.


def readings_table(
    stored: Sequence[StoredDraws], names: Sequence[str], more: Sequence[str] = ()
) -> Table:
    """A row a benchmark, grader and k, a column a word; bounds as notes. more: graders beside those
    of each benchmark. Raises as `cover_at` for too few draws."""
    by_k = [word for word in names if word in READINGS]
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for evaluation in stored:
        design = evaluation.spec.stopping
        notes += _first_stage_notes(evaluation.benchmark.name, design)
        for grader in dict.fromkeys((*grader_names(evaluation.benchmark), *more)):
            path = evaluation.paths.grades(grader_version(grader))
            if not path.exists():
                continue
            n_solutions = _enumerated(evaluation.spec, evaluation.benchmark.name, grader, names)
            by_name = problem_draws(first_stage(path, design), grader, n_solutions)
            passk = read_table(passk_path(evaluation.paths, evaluation.benchmark, grader), PASSK)
            clusters, problems = _clusters(passk, by_name), [*by_name.values()]
            named = (evaluation.benchmark.name, grader)
            ks = evaluation.spec.stored_evaluation.ks
            columns = [_means(problems, word, ks, clusters) for word in by_k]
            for k, *shown in zip(ks, *columns, strict=True) if columns else ():
                rows.append((*named, str(k), *shown))
            if BEST in names and reward_of(grader) is None:
                notes.append(says_right_or_wrong(evaluation.benchmark.name, grader))
            bounds = [f"{word} {_bounds(problems, word)}" for word in names if word not in by_k]
            notes += [f"{', '.join(named)}, bounds: {', '.join(bounds)}"] if bounds else []
    return Table(
        title=f"Other readings of the same draws, {units_in_words(names)} "
        "[95% interval over problems]",
        header=("benchmark", "grader", "k", *by_k),
        rows=tuple(rows),
        n_labels=2,
        notes=tuple(notes),
    )


def _means(
    problems: Sequence[ProblemDraws],
    word: str,
    ks: Sequence[int],
    clusters: NDArray[np.int64] | None,
) -> list[str]:
    reading = READINGS[word]
    values = reading.values(problems, ks)
    intervals = estimate(values[None], limits=reading.limits(values), clusters=clusters)
    return [_shown(word, interval) for interval in intervals]


def _bounds(problems: Sequence[ProblemDraws], word: str) -> str:
    """Of all draws; raises as `reading_bounds`."""
    low, high = reading_bounds(word, problems)
    return f"{NONE} (nothing is solved)" if math.isnan(low) else bounds_in_percent(low, high)


# Of what is compared.


def difference_tables(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmarks: Sequence[str],
    ks: Sequence[int],
    names: Sequence[str],
) -> Iterator[Block]:
    """Tables of the labels of checkpoints, each against the first; problems that all have, paired
    over these and over seeds. ValueError where grades are missing, or where right answers are all
    one and `solutions` is among the names."""
    labels = list(dict.fromkeys(checkpoint.label for checkpoint in checkpoints))
    for benchmark in benchmarks if names else ():
        sides = _with_shared_problems(
            {
                label: [
                    _checkpoint_grades(item, benchmark, names)
                    for item in checkpoints
                    if item.label == label
                ]
                for label in labels
            }
        )
        first = sides[labels[0]][0]
        parts = parts_by_solutions(first.grades["problem_id"].unique(), first.n_solutions)
        draws = {
            label: [problem_draws(of.grades, of.grader, of.n_solutions) for of in seeds]
            for label, seeds in sides.items()
        }
        for word in names:
            if word == MASS:
                yield from _mass_tables(benchmark, checkpoints, first.grader, parts)
                continue
            is_pass = word == BEST and reward_of(first.grader) is None
            for part in parts if word in NEED_SOLUTIONS else [ALL]:
                problems = {
                    label: [[of[name] for name in parts[part]] for of in seeds]
                    for label, seeds in draws.items()
                }
                yield Table(
                    title=f"{benchmark}: {word}{part_in_words(part, len(parts[part]))}"
                    + UNITS.get(word, " in percent"),
                    header=("", "k", "value [95% interval]", f"less that of {labels[0]}"),
                    rows=tuple(
                        _differences(
                            word,
                            problems,
                            ks,
                            _clusters(checkpoints[0].passk(benchmark), parts[part]),
                        )
                    ),
                    notes=(says_right_or_wrong(benchmark, first.grader),) if is_pass else (),
                )
        for text in dict.fromkeys(
            text for item in checkpoints for text in _first_stage_notes(benchmark, item.stopping())
        ):
            yield Paragraph(text=text)


@dataclass(frozen=True, kw_only=True)
class CheckpointGrades:
    """Grades of a checkpoint's draws (tables.GRADES) and whose they are."""

    grader: str
    grades: pl.DataFrame
    n_solutions: Mapping[str, int]
    """As of `solution_counts`."""


Sides = Mapping[str, Sequence[CheckpointGrades]]
"""By label: of each seed."""
Problems = Mapping[str, Sequence[Sequence[ProblemDraws]]]
"""By label: of each seed the draws of the same problems."""


def _checkpoint_grades(
    checkpoint: EvaluatedCheckpoint, benchmark: str, names: Sequence[str]
) -> CheckpointGrades:
    version = checkpoint.judge_on(benchmark) or ""
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    if not path.exists():
        raise ValueError(
            f"--also: {checkpoint.name} has no grades on {benchmark} ({path} is not there): its "
            "draws were left behind; compare it where they are"
        )
    grader = split_version(version)[0]
    return CheckpointGrades(
        grader=grader,
        grades=first_stage(path, checkpoint.stopping()),
        n_solutions=_enumerated(checkpoint.evaluation_spec(), benchmark, grader, names),
    )


def _with_shared_problems(sides: Sides) -> Sides:
    """Without the grades of problems that not all have."""
    seeds = [of for of_label in sides.values() for of in of_label]
    shared = set.intersection(*(set(of.grades["problem_id"]) for of in seeds))
    is_shared = pl.col("problem_id").is_in(sorted(shared))
    return {
        label: [replace(of, grades=of.grades.filter(is_shared)) for of in of_label]
        for label, of_label in sides.items()
    }


def _differences(
    word: str,
    problems: Problems,
    ks: Sequence[int],
    clusters: NDArray[np.int64] | None,
) -> Iterator[tuple[str, ...]]:
    reading = READINGS[word]
    values = {
        label: np.array([reading.values(of_seed, ks) for of_seed in seeds])
        for label, seeds in problems.items()
    }
    first = next(iter(values.values()))
    limits = reading.limits(*values.values())
    for label, of_label in values.items():
        means = estimate(of_label, limits=limits, clusters=clusters)
        if limits == FRACTIONS:
            less = estimate_difference(of_label, first, clusters=clusters)
        else:
            less = estimate(of_label - first, limits=limits, clusters=clusters)
        for k, mean, apart in zip(ks, means, less, strict=True):
            difference = NONE if of_label is first else _shown(word, apart)
            yield label, str(k), _shown(word, mean), difference


def _mass_tables(
    benchmark: str,
    checkpoints: Sequence[EvaluatedCheckpoint],
    grader: str,
    parts: Mapping[str, Sequence[str]],
) -> Iterator[Table]:
    """What became of the first label's mass on solutions under each other one. parts: problem_ids
    by ALL and SEVERAL."""
    old = checkpoints[0].label
    if grader not in SOLUTIONS:
        raise ValueError(
            f"--also {MASS}: all right answers of a problem of {benchmark} are one solution, its "
            f"gold; problems of {', '.join(SOLUTIONS)} have several"
        )
    masses = [*solution_masses(checkpoints, benchmark, old, parts=parts)]
    for part, names in parts.items():
        yield fates_table(
            f"{benchmark}: what became of {old}'s right solutions",
            part_in_words(part, len(names)),
            ("under", *FATE_HEADS),
            (
                (
                    f"{old}, one half of its draws under the other" if of.cell == old else of.cell,
                    *(with_interval(p.mean, p.low, p.high) for p in (of.kept, of.moved, of.lost)),
                )
                for of in masses
                if of.problems == part
            ),
        )
