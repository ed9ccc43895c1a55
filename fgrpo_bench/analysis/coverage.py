"""Problems retained, gained and lost against the base model of the same seed.

In: counts of every problem. Out: the rows of `coverage`, and what became of each problem
(`outcomes`), which the dashboard shows. Next: the formulas are in fgrpo_bench.stats.coverage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl

from fgrpo_bench.analysis.checkpoints import At
from fgrpo_bench.analysis.comparisons import Resamples
from fgrpo_bench.analysis.rows import CoverageRow
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stats.coverage import Coverage as ByProblem
from fgrpo_bench.stats.coverage import between, coverage, reach
from fgrpo_bench.stats.coverage import least_rate as least_rate

SURE = 0.95
"""Probability from which a problem counts as surely lost or gained; as high as the level of
intervals. Shared random numbers cannot bring it below 0.949 (fgrpo_bench.stats.coverage)."""
OUTCOMES = ("retained", "lost", "gained", "neither")
"""What became of a problem."""


def coverages(
    resamples: Resamples, columns: Sequence[str], chosen: Collection[At], ks: Sequence[int]
) -> Iterator[CoverageRow]:
    """Rows of every trained cell that has seeds in common with the base models, at every k."""
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for base in [at for at in chosen if at[0] == BASE]:
            for at in chosen:
                seeds = resamples.seeds(column, at, base)
                if at == base or not seeds:
                    continue
                counts = []
                for side in (base, at):
                    parts = [resamples.scores[name][side].for_seeds(seeds) for name in names]
                    n_scored = np.concatenate([part.n_scored for part in parts], axis=1)
                    n_correct = np.concatenate([part.n_correct for part in parts], axis=1)
                    counts.append((n_scored, n_correct))
                for k in ks:
                    likely = [reach(n_samples=n, n_correct=right, k=k) for n, right in counts]
                    solved = [right > 0 for _, right in counts]
                    # Thousands of problems that nobody solved, each within reach with a small
                    # probability, would add up to problems lost and gained.
                    counted = [chances * kept for chances, kept in zip(likely, solved, strict=True)]
                    yield _row(column, at[0], k, between(*counted), between(*likely))


def _row(column: str, cell: str, k: int, counted: ByProblem, likely: ByProblem) -> CoverageRow:
    """[seeds, problems]. counted: what sums are made of; likely: the posterior's probabilities."""
    sums = {name: getattr(counted, name).sum(axis=1) for name in OUTCOMES}
    sure = {
        name: float((getattr(likely, name) >= SURE).sum(axis=1).mean())
        for name in ("lost", "gained")
    }
    reached = sums["lost"] + sums["retained"]
    shares = np.divide(sums["lost"], reached, where=reached > 0, out=np.zeros(len(reached)))
    return CoverageRow(
        column=column,
        cell=cell,
        k=k,
        **{name: float(np.mean(values)) for name, values in sums.items()},
        surely_lost=sure["lost"],
        surely_gained=sure["gained"],
        lost_share=float(shares.mean()) if (reached > 0).all() else None,
        n_seeds=len(counted.lost),
        n_problems=counted.lost.shape[1],
    )


def surely_out(*, n_samples: int, k: int) -> float:
    """Probability that a problem without a correct draw among so many is out of reach at k."""
    return float(1 - reach(n_samples=n_samples, n_correct=0, k=k))


def outcomes(problems: pl.DataFrame, benchmark: str, k: int) -> pl.DataFrame:
    """What became of every problem at every point, a row each: points in the order of the frame,
    the problems of each by name.

    problems: Analysis.problems, whose columns it has but for the benchmark; n_scored and n_correct
    are 0 where a point lacks a problem. Against the base model of the same seed, at k, and null
    where that has no results and for base models: the probability of each of OUTCOMES, a problem
    that a model never solved being out of its reach, as in the sums of `coverages`; and `drop`, how
    far the success rate fell (one that is not known counts as 0).
    """
    of_benchmark = problems.filter(benchmark=benchmark).drop("benchmark")
    points = of_benchmark.select("cell", "seed").unique(maintain_order=True)
    rows = (
        points.join(of_benchmark.select("problem_id").unique().sort("problem_id"), how="cross")
        .join(
            of_benchmark,
            on=["cell", "seed", "problem_id"],
            how="left",
            maintain_order="left",
            nulls_equal=True,  # checkpoints without a seed are one a label
        )
        .with_columns(pl.col("n_scored", "n_correct").fill_null(0))
    )
    base = rows.filter(cell=BASE).drop("cell")
    pairs = rows.with_row_index().filter(pl.col("cell") != BASE)
    pairs = pairs.join(base, on=["seed", "problem_id"], suffix="_base", nulls_equal=True)
    chances = coverage(
        n_old=pairs["n_scored_base"],
        old=pairs["n_correct_base"],
        n_new=pairs["n_scored"],
        new=pairs["n_correct"],
        k=k,
        solved_only=True,
    )
    before, after = (pl.col(f"success_rate{end}").fill_null(0.0) for end in ("_base", ""))
    changes = pairs.select(
        "index",
        drop=before - after,
        **{name: pl.Series(getattr(chances, name)) for name in OUTCOMES},
    )
    return rows.with_row_index().join(changes, on="index", how="left").sort("index").drop("index")


def by_point(rows: pl.DataFrame) -> pl.DataFrame:
    """cell, seed, and of `outcomes` the expected numbers of problems of trained points."""
    return (
        rows.drop_nulls("lost")
        .group_by("cell", "seed", maintain_order=True)
        .agg(pl.col(OUTCOMES).sum())
    )


def by_problem(rows: pl.DataFrame) -> pl.DataFrame:
    """problem_id, and of `outcomes` means over trained points: lost, gained and drop; `base` is the
    mean success rate of the base models, one that is not known counting as 0. By name."""
    trained = [pl.col(name).mean() for name in ("lost", "gained", "drop")]
    base = pl.col("success_rate").fill_null(0.0).filter(pl.col("cell") == BASE).mean()
    return rows.group_by("problem_id").agg(*trained, base=base).sort("problem_id")
