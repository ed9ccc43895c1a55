"""From judgements to counts, and from counts to pass@k and the shares that stand beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis.rows import Shares, shares, unfinished_of
from fgrpo_bench.core.problems import BY_PLACE, Problem
from fgrpo_bench.stages.tables import (
    BOUNDS,
    DRAWS,
    GRADES,
    N_DRAWN,
    PASSK,
    UNFINISHED,
    reading,
    scan_table,
)
from fgrpo_bench.stats.staged import StagedDesign

_UNSCORED, _CORRECT = pl.col("outcome") == "unscored", pl.col("outcome") == "correct"


def count_stored(grades: Path, design: StagedDesign, *, draws: Path | None) -> pl.DataFrame:
    """`count` of stored tables, of which only the columns that count are read. draws: None where
    they are not here."""
    with reading(grades, *([] if draws is None else [draws])):
        drawn = None if draws is None else scan_table(draws, DRAWS)
        return count(scan_table(grades, GRADES), design, draws=drawn)


def count(
    grades: pl.DataFrame | pl.LazyFrame,
    design: StagedDesign,
    *,
    draws: pl.DataFrame | pl.LazyFrame | None = None,
) -> pl.DataFrame:
    """Counts by problem, sorted by problem_id: n_samples, n_scored, n_correct, those of
    tables.UNFINISHED and n_unscored.

    The design is followed along the draws in their order, whichever were made: n_samples are those
    up to where the problem stops, and n_unscored is as in tables.PASSK. Both are null where it
    would go on and draws are missing. draws: those that were graded; None: how each ended is not
    known.
    """
    rows = grades.lazy()
    if draws is None:
        rows = rows.with_columns(finish_reason=pl.lit(None, pl.String))
    else:
        ends = draws.lazy().select("problem_id", "draw", "finish_reason")
        rows = rows.join(ends, on=["problem_id", "draw"], how="left")
    return _followed(rows, design).sort("problem_id").collect()


def _counted(rows: pl.LazyFrame, n_unscored: pl.Expr) -> pl.LazyFrame:
    is_cut, known = pl.col("finish_reason") == "length", pl.col("finish_reason").is_not_null()
    by_place = pl.col("reason").str.ends_with(BY_PLACE)
    return rows.group_by("problem_id").agg(
        n_samples=pl.len().cast(pl.Int64),
        n_scored=(~_UNSCORED).sum().cast(pl.Int64),
        n_correct=_CORRECT.sum().cast(pl.Int64),
        n_cut_off=pl.when(known.all()).then(is_cut.sum()).cast(pl.Int64),
        n_correct_cut_off=pl.when(known.all()).then((_CORRECT & is_cut).sum()).cast(pl.Int64),
        n_by_place=(_CORRECT & by_place).sum().cast(pl.Int64),
        n_unscored=n_unscored,
    )


def _followed(rows: pl.LazyFrame, design: StagedDesign) -> pl.LazyFrame:
    ends = list(zip((0, *design.stages), design.stages, strict=False))
    correct, drawn = (
        pl.concat_list([(condition & (pl.col("draw") < end)).sum() for _, end in ends])
        for condition in (_CORRECT, pl.lit(True))
    )
    stages = rows.group_by("problem_id").agg(correct=correct, drawn=drawn).collect()
    right, n_drawn = (np.array(stages[name].to_list()) for name in ("correct", "drawn"))
    enough = (right >= design.enough) | (np.arange(len(ends)) == len(ends) - 1)
    stops = enough.argmax(axis=1)
    last = np.array(design.stages)[stops]
    is_whole = n_drawn[np.arange(len(n_drawn)), stops] == last
    marks = pl.DataFrame(
        {"problem_id": stages["problem_id"], "last": last, "is_whole": is_whole}
    ).lazy()
    unscored = pl.concat_list(
        [(_UNSCORED & pl.col("draw").is_between(start, end, closed="left")).sum().cast(pl.Int64)
         for start, end in ends]
    )  # fmt: skip
    counted = _counted(rows.join(marks, on="problem_id").filter(pl.col("draw") < pl.col("last")),
                       unscored)  # fmt: skip
    return (
        counted.join(marks, on="problem_id")
        .with_columns(
            pl.when("is_whole").then(name).alias(name) for name in ("n_samples", "n_unscored")
        )
        .drop("last", "is_whole")
    )


def score(
    counts: pl.DataFrame,
    ks: list[int],
    design: StagedDesign,
    *,
    problems: Iterable[Problem] = (),
) -> pl.DataFrame:
    """pass@k by problem (tables.PASSK). counts: of `count` with the same design. problems: whose
    clusters the rows name; one that is not among them has none.

    Unscored draws count neither as correct nor as incorrect; the bounds say what pass@k would be
    over all draws, were they all the one or all the other.
    """
    clusters = {problem.problem_id: problem.cluster for problem in problems}
    cluster = pl.Series("cluster", map(clusters.get, counts["problem_id"]), pl.String)
    tables = []
    for k in ks:
        estimates = _estimated(counts, k, design).items()
        columns = [pl.Series(name, values).fill_nan(None) for name, values in estimates]
        number = pl.lit(k, dtype=pl.Int64).alias("k")
        tables.append(
            counts.select(
                "problem_id",
                number,
                "n_scored",
                "n_correct",
                *UNFINISHED,
                *columns,
                "n_unscored",
                cluster,
            )
        )
    return pl.concat(tables).cast(PASSK)


def _estimated(counts: pl.DataFrame, k: int, design: StagedDesign) -> dict[str, Any]:
    """pass@k and its bounds, nan where there is none."""
    values = np.full((3, len(counts)), np.nan)
    is_known = counts["n_samples"].is_not_null().to_numpy()
    known = counts.filter(is_known)
    if len(known):
        ends: dict[str, Any] = {
            "n_drawn": known["n_samples"].to_numpy(),
            "n_correct": known["n_correct"].to_numpy(),
            "n_unscored": np.array(known["n_unscored"].to_list()),
            "k": k,
        }
        values[0, is_known] = design.pass_at_k(**ends)
        values[1:, is_known] = design.bounds(**ends)
    return dict(zip(("pass_at_k", "pass_at_k_low", "pass_at_k_high"), values, strict=True))


def shares_of(table: pl.DataFrame) -> Shares:
    """Of rows of tables.PASSK."""
    rows = table.unique("problem_id").with_columns(n_drawn=N_DRAWN.fill_null(0))
    counts = {name: rows[name].to_numpy() for name in ("n_drawn", "n_scored", "n_correct")}
    return shares(**counts, unfinished=unfinished_of(rows))


def mean_bound(name: str) -> pl.Expr:
    """Mean of a column of tables.BOUNDS over problems; null where a problem has none."""
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).mean()).alias(name)


def bounds_of(table: pl.DataFrame) -> dict[int, tuple[float | None, float | None]]:
    """By rising k, pass@k of rows of tables.PASSK were all unscored draws wrong, and all right."""
    by_k = table.sort("k", "problem_id").group_by("k", maintain_order=True)
    return {k: (low, high) for k, low, high in by_k.agg(map(mean_bound, BOUNDS)).iter_rows()}
