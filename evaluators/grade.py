"""From draws to judgements, each distinct response of a problem judged once; then to pass@k."""

from __future__ import annotations

import polars as pl

from fgrpo_bench.graders import get_grader
from fgrpo_bench.passk import pass_at_k
from fgrpo_bench.records import Problem
from fgrpo_bench.tables import GRADES, PASSK


def grade_draws(draws: pl.DataFrame, problems: list[Problem], version: str) -> pl.DataFrame:
    """Judgements (tables.GRADES) of draws (tables.DRAWS), in the order of the draws."""
    known = {problem.problem_id: problem for problem in problems}
    distinct = draws.select("problem_id", "response").unique(maintain_order=True)
    grades = [
        get_grader(known[name].grader)(known[name], response)
        for name, response in distinct.iter_rows()
    ]
    judged = distinct.with_columns(
        pl.Series("outcome", [grade.outcome for grade in grades], dtype=pl.String),
        pl.Series("extracted", [grade.extracted for grade in grades], dtype=pl.String),
        pl.Series("reason", [grade.reason for grade in grades], dtype=pl.String),
    )
    joined = draws.join(judged, on=["problem_id", "response"], maintain_order="left")
    return joined.with_columns(grader_version=pl.lit(version)).select(list(GRADES))


def count(grades: pl.DataFrame) -> pl.DataFrame:
    """n_scored and n_correct by problem, sorted by problem_id; unscored draws do not count."""
    return (
        grades.group_by("problem_id")
        .agg(
            n_scored=(pl.col("outcome") != "unscored").sum().cast(pl.Int64),
            n_correct=(pl.col("outcome") == "correct").sum().cast(pl.Int64),
        )
        .sort("problem_id")
    )


def score(counts: pl.DataFrame, ks: list[int]) -> pl.DataFrame:
    """pass@k by problem (tables.PASSK) under the fixed-n design; null where n_scored < k.

    This is the seam for designs that stop early: they need an estimator of their own here.
    """
    n, c = counts["n_scored"].to_numpy(), counts["n_correct"].to_numpy()
    return pl.concat(
        counts.select(
            "problem_id",
            pl.lit(k, dtype=pl.Int64).alias("k"),
            "n_scored",
            "n_correct",
            pl.Series("pass_at_k", pass_at_k(n_samples=n, n_correct=c, k=k)).fill_nan(None),
        )
        for k in ks
    ).cast(PASSK)
