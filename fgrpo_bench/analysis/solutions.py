"""What became of a base model's right solutions: which a point lost of the problems that it still
solves, and how much of the draws on them is kept, moved to other solutions or lost, by cell.

In: stored grades of checkpoints. Out: a row a trained point and problem, which the dashboard shows
beside the problems that are lost as a whole; intervals by cell, for the report. Next:
fgrpo_bench.stats.coverage has the probabilities, as for problems, and stats.readings the mass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fgrpo_bench.analysis.checkpoints import cluster_numbers
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.rows import ALL
from fgrpo_bench.graders import SOLUTIONS, split_version
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stages.tables import GRADES, reading, scan_table
from fgrpo_bench.stats.coverage import coverage
from fgrpo_bench.stats.intervals import FRACTIONS, IntervalEstimate, estimate
from fgrpo_bench.stats.readings import solution_mass

LOST = pl.Schema(
    {
        "cell": pl.String,
        "seed": pl.Int64,
        "problem_id": pl.String,
        "n_solutions": pl.Int64,  # of the problem's, those that the base model gave
        "n_lost": pl.Int64,  # of these, those that are more likely lost than not
    }
)
LIKELY = 0.5
"""Probability from which a solution counts as lost."""
RIGHT = pl.Schema(
    {
        "problem_id": pl.String,
        "n_scored": pl.Int64,
        "solution": pl.String,
        "n_correct": pl.Int64,
    }
)
"""Right draws by solution, with the judged draws of its problem; a problem without a right draw has
no row."""


def solutions_lost(
    checkpoints: Sequence[EvaluatedCheckpoint], benchmark: str, k: int
) -> pl.DataFrame:
    """LOST of the problems that the trained points of `checkpoints` solve as the base model of the
    same seed does; no rows where right answers are all one, or grades are not there.

    A solution is within reach at k as a problem is, by its share of the draws (`coverage`).
    """
    bases = {item.seed: item for item in checkpoints if item.label == BASE}
    tables = [LOST.to_frame()]
    before = {seed: right_draws(item, benchmark) for seed, item in bases.items()}
    for item in checkpoints:
        if item.label != BASE and item.seed in before:
            lost = _lost(before[item.seed], right_draws(item, benchmark), k)
            of_point = {"cell": pl.lit(item.label), "seed": pl.lit(item.seed, pl.Int64)}
            tables.append(lost.with_columns(**of_point).select(*LOST))
    return pl.concat(tables)


@dataclass(frozen=True, kw_only=True)
class SolutionMass:
    """What became of the old models' draws of right solutions; shares of the judged draws, means
    over problems and seeds, which add up to the old models' pass@1."""

    cell: str
    """That of the old models: one half of their draws, the even ones, under the other half, which
    shows how much the noise of the draws alone makes look moved or lost."""
    kept: IntervalEstimate
    moved: IntervalEstimate
    """To other right solutions of the same problems."""
    lost: IntervalEstimate
    problems: str
    """Of which problems, a key of `parts`."""
    seeds: tuple[int | None, ...]


def solution_masses(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmark: str,
    old: str = BASE,
    *,
    parts: Mapping[str, Collection[str]] | None = None,
) -> Iterator[SolutionMass]:
    """Of the old models themselves, then of each other cell with all its seeds that have an old
    model; nothing where right answers are all one, or grades are not there.

    old: their cell. parts: problem_ids by a name, of each of which there is a mass; None is all.
    Problems are those that all checkpoints have.
    """
    bases = {item.seed: item for item in checkpoints if item.label == old}
    before = {seed: right_draws(item, benchmark) for seed, item in bases.items()}
    before = {seed: right for seed, right in before.items() if len(right)}
    if not before:
        return
    clusters_by_checkpoint = []
    for item in checkpoints:
        table = item.passk(benchmark)
        if table.height:
            problems = table.select("problem_id", "cluster").unique()
            clusters_by_checkpoint.append(dict(problems.iter_rows()))
    # Shares of different problems do not compare.
    shared = set.intersection(*map(set, clusters_by_checkpoint))
    problem_clusters = {name: clusters_by_checkpoint[0][name] for name in sorted(shared)}
    named = {
        part: [name for name in problem_clusters if name in names]
        for part, names in ({ALL: shared} if parts is None else parts).items()
    }

    def of_cell(
        cell: str, seeds: Sequence[int | None], pairs: Sequence[tuple[pl.DataFrame, pl.DataFrame]]
    ) -> Iterator[SolutionMass]:
        shares = [(_shares(first), _shares(then)) for first, then in pairs]
        for part, names in named.items():
            values = [
                [solution_mass(first.get(name, {}), then.get(name, {})) for name in names]
                for first, then in shares
            ]
            clusters = cluster_numbers([problem_clusters[name] for name in names])
            kept, moved, lost = estimate(
                np.array(values).reshape(len(pairs), len(names), 3),
                limits=FRACTIONS,
                clusters=clusters,
            )
            yield SolutionMass(
                cell=cell, kept=kept, moved=moved, lost=lost, problems=part, seeds=tuple(seeds)
            )

    # How much would look moved were nothing moved: one half of the draws under the other.
    halves = [
        (right_draws(bases[seed], benchmark, half=0), right_draws(bases[seed], benchmark, half=1))
        for seed in before
    ]
    yield from of_cell(old, [*before], halves)
    for label in dict.fromkeys(item.label for item in checkpoints if item.label != old):
        points = [item for item in checkpoints if item.label == label and item.seed in before]
        after = [(before[item.seed], right_draws(item, benchmark)) for item in points]
        if after and all(len(right) for _, right in after):
            yield from of_cell(label, [item.seed for item in points], after)


def _shares(right: pl.DataFrame) -> Mapping[str, Mapping[str, float]]:
    """By problem_id and solution, of the judged draws (RIGHT)."""
    shares: dict[str, dict[str, float]] = {}
    for problem, n_scored, solution, n_correct in right.iter_rows():
        shares.setdefault(problem, {})[solution] = n_correct / n_scored
    return shares


def right_draws(
    checkpoint: EvaluatedCheckpoint, benchmark: str, *, half: int | None = None
) -> pl.DataFrame:
    """RIGHT of a checkpoint, of a design that stops its first stage alone; no rows where its
    grader tells no solutions apart, or its grades are not there. half: 0 for the even draws alone,
    1 for the odd ones."""
    if checkpoint.results_on(benchmark) is None:
        return RIGHT.to_frame()
    version = checkpoint.judge_on(benchmark) or ""
    solution = SOLUTIONS.get(split_version(version)[0])
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    if solution is None or not path.exists():
        return RIGHT.to_frame()
    grades = scan_table(path, GRADES).filter(pl.col("draw") < checkpoint.stopping().stages[0])
    if half is not None:
        grades = grades.filter(pl.col("draw") % 2 == half)
    judged = grades.filter(pl.col("outcome") != "unscored")
    scored = judged.group_by("problem_id").agg(n_scored=pl.len().cast(pl.Int64))
    right = judged.filter(pl.col("outcome") == "correct").group_by("problem_id", "extracted")
    with reading(path):
        texts, totals = pl.collect_all([right.agg(n_correct=pl.len().cast(pl.Int64)), scored])
    # Two spellings of one solution count as one, so they are named before they are added up.
    named = [solution(text or "") for text in texts["extracted"]]
    return (
        texts.with_columns(solution=pl.Series(named, dtype=pl.String))
        .group_by("problem_id", "solution")
        .agg(pl.col("n_correct").sum())
        .join(totals, on="problem_id")
        .select(*RIGHT)
    )


def _lost(before: pl.DataFrame, after: pl.DataFrame, k: int) -> pl.DataFrame:
    """problem_id, n_solutions and n_lost of problems that are solved before and after (RIGHT)."""
    solved = after.select("problem_id", n_after="n_scored").unique()
    still = after.select("problem_id", "solution", right_after="n_correct")
    pairs = before.join(solved, on="problem_id").join(
        still, on=["problem_id", "solution"], how="left"
    )
    chances = coverage(
        n_old=pairs["n_scored"],
        old=pairs["n_correct"],
        n_new=pairs["n_after"],
        new=pairs["right_after"].fill_null(0),
        k=k,
        solved_only=True,
    )
    is_lost = pl.Series("is_lost", chances.lost >= LIKELY, pl.Boolean)
    return (
        pairs.with_columns(is_lost)
        .group_by("problem_id")
        .agg(n_solutions=pl.len().cast(pl.Int64), n_lost=pl.col("is_lost").sum().cast(pl.Int64))
        .sort("problem_id")
    )
