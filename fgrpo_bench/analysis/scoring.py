"""From judgements to counts, and from counts to pass@k."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.core.problems import BY_PLACE, Problem
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, reading, scan_table
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.staged import StagedDesign

_UNSCORED, _CORRECT = pl.col("outcome") == "unscored", pl.col("outcome") == "correct"


def count_stored(path: Path, design: StagedDesign | None = None) -> pl.DataFrame:
    """`count` of a stored table of grades, of which only three columns are read."""
    with reading(path):
        return count(scan_table(path, GRADES), design)


def count(grades: pl.DataFrame | pl.LazyFrame, design: StagedDesign | None = None) -> pl.DataFrame:
    """Counts by problem, sorted by problem_id: n_samples, n_scored, n_correct and n_unscored.

    design: None counts all draws, and n_unscored is null. A design is followed along the draws in
    their order, whichever were made: n_samples are those up to where the problem stops, and
    n_unscored is as in tables.PASSK. Both are null where it would go on and draws are missing.
    """
    rows = grades.lazy()
    if design is None:
        counted = _counted(rows, pl.lit(None, pl.List(pl.Int64)))
    else:
        counted = _followed(rows, design)
    return counted.sort("problem_id").collect()


def _counted(rows: pl.LazyFrame, n_unscored: pl.Expr) -> pl.LazyFrame:
    return rows.group_by("problem_id").agg(
        n_samples=pl.len().cast(pl.Int64),
        n_scored=(~_UNSCORED).sum().cast(pl.Int64),
        n_correct=_CORRECT.sum().cast(pl.Int64),
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


@dataclass(frozen=True, kw_only=True)
class UnfinishedCounts:
    """Of some draws, how many were cut off or are correct by their place alone; these add up."""

    n_draws: int
    n_correct: int
    n_by_place: int
    """Correct draws whose grade's reason ends with core.problems.BY_PLACE."""
    n_cut_off: int | None
    """Draws of finish_reason `length`; None where it is not known of each, likewise the next."""
    n_correct_cut_off: int | None

    def __add__(self, other: UnfinishedCounts) -> UnfinishedCounts:
        """Of both."""
        return UnfinishedCounts(
            n_draws=self.n_draws + other.n_draws,
            n_correct=self.n_correct + other.n_correct,
            n_by_place=self.n_by_place + other.n_by_place,
            n_cut_off=_sum(self.n_cut_off, other.n_cut_off),
            n_correct_cut_off=_sum(self.n_correct_cut_off, other.n_correct_cut_off),
        )

    @property
    def shares(self) -> dict[str, float | None]:
        """cut_off, correct_cut_off and correct_by_place, as of analysis.rows.Unfinished."""
        return {
            "cut_off": _share(self.n_cut_off, self.n_draws),
            "correct_cut_off": _share(self.n_correct_cut_off, self.n_correct),
            "correct_by_place": _share(self.n_by_place, self.n_correct),
        }


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _share(n: int | None, of: int) -> float | None:
    return None if n is None or not of else n / of


def count_unfinished(
    draws: Path, grades: Path, n_drawn: pl.DataFrame | None = None
) -> UnfinishedCounts:
    """Of stored draws and grades of them. n_drawn: problem_id and n_drawn, the problems that count
    and how many draws of each; None: all."""
    with reading(draws), reading(grades):
        ends = scan_table(draws, DRAWS).select("problem_id", "draw", "finish_reason")
        judged = scan_table(grades, GRADES).select("problem_id", "draw", "outcome", "reason")
        rows = ends.join(judged, on=["problem_id", "draw"])
        if n_drawn is not None:
            rows = rows.join(n_drawn.lazy(), on="problem_id")
            rows = rows.filter(pl.col("draw") < pl.col("n_drawn"))
        is_cut, known = pl.col("finish_reason") == "length", pl.col("finish_reason").is_not_null()
        by_place = pl.col("reason").str.ends_with(BY_PLACE)
        (row,) = rows.select(
            n_draws=pl.len(),
            n_correct=_CORRECT.sum(),
            n_by_place=(_CORRECT & by_place).sum(),
            n_cut_off=pl.when(known.all()).then(is_cut.sum()),
            n_correct_cut_off=pl.when(known.all()).then((_CORRECT & is_cut).sum()),
        ).collect().to_dicts()  # fmt: skip
    return UnfinishedCounts(**row)


def score(
    counts: pl.DataFrame,
    ks: list[int],
    design: StagedDesign | None = None,
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
    return pl.concat(
        counts.select(
            "problem_id",
            pl.lit(k, dtype=pl.Int64).alias("k"),
            "n_scored",
            "n_correct",
            *(
                pl.Series(name, values).fill_nan(None)
                for name, values in _estimated(counts, k, design).items()
            ),
            "n_unscored",
            cluster,
        )
        for k in ks
    ).cast(PASSK)


def _estimated(counts: pl.DataFrame, k: int, design: StagedDesign | None) -> dict[str, Any]:
    """pass@k and its bounds, nan where there is none."""
    if design is not None:
        return _staged(counts, k, design)
    drawn, n, c = (counts[name].to_numpy() for name in ("n_samples", "n_scored", "n_correct"))
    return {
        "pass_at_k": pass_at_k(n_samples=n, n_correct=c, k=k),
        "pass_at_k_low": pass_at_k(n_samples=drawn, n_correct=c, k=k),
        "pass_at_k_high": pass_at_k(n_samples=drawn, n_correct=c + drawn - n, k=k),
    }


def _staged(counts: pl.DataFrame, k: int, design: StagedDesign) -> dict[str, Any]:
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
