"""From judgements to counts, and from counts to pass@k."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.tables import GRADES, PASSK, reading, scan_table


def count_stored(path: Path) -> pl.DataFrame:
    """`count` of a stored table of grades, of which only two columns are read."""
    with reading(path):
        return count(scan_table(path, GRADES))


def count(grades: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """n_samples, n_scored and n_correct by problem, sorted by problem_id."""
    return (
        grades.lazy()
        .group_by("problem_id")
        .agg(
            n_samples=pl.len().cast(pl.Int64),
            n_scored=(pl.col("outcome") != "unscored").sum().cast(pl.Int64),
            n_correct=(pl.col("outcome") == "correct").sum().cast(pl.Int64),
        )
        .sort("problem_id")
        .collect()
    )


def score(counts: pl.DataFrame, ks: list[int]) -> pl.DataFrame:
    """pass@k by problem (tables.PASSK) under the fixed-n design; null where n_scored < k.

    Unscored draws count neither as correct nor as incorrect; the bounds say what pass@k would be
    over all draws, were they all the one or all the other. This is the seam for designs that stop
    early: they need an estimator of their own here.
    """
    drawn, n, c = (counts[name].to_numpy() for name in ("n_samples", "n_scored", "n_correct"))

    def column(n_samples: object, n_correct: object, k: int) -> pl.Series:
        return pl.Series(pass_at_k(n_samples=n_samples, n_correct=n_correct, k=k)).fill_nan(None)

    return pl.concat(
        counts.select(
            "problem_id",
            pl.lit(k, dtype=pl.Int64).alias("k"),
            "n_scored",
            "n_correct",
            column(n, c, k).alias("pass_at_k"),
            column(drawn, c, k).alias("pass_at_k_low"),
            column(drawn, c + drawn - n, k).alias("pass_at_k_high"),
        )
        for k in ks
    ).cast(PASSK)
