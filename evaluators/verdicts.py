"""The verdicts that a program wrote beside its draws: a layer of grades, and where ours differ.

In: scores of imported draws. Out: grades (tables.GRADES) of a name of fgrpo_bench.graders.recorded,
and for a person a table of the draws on which both disagree, with examples.
"""

from __future__ import annotations

import polars as pl

from fgrpo_bench.documents.table import Table
from fgrpo_bench.documents.terminal import plain, plain_table
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.recorded import USUAL
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table, write_table

from .stored import StoredDraws

PLAIN = (-1.0, 0.0, 1.0)
"""Scores of which nobody doubts which are correct."""
EXAMPLES = 5
"""Of either way in which verdicts disagree."""
SHOWN = 60
"""Characters of the end of a response."""


def are_usable(
    scores: pl.Series, threshold: float | None, notices: list[str], *, alone: bool
) -> bool:
    """Whether the verdicts of a file can be a layer of grades. said: gets why not.

    scores: of its draws, null where it has none. threshold: the least score of a correct draw;
    None: not declared. alone: whether nothing else counts, and a file without usable ones is a
    ValueError.
    """
    there = scores.drop_nulls()
    if there.is_empty():
        if alone:
            raise ValueError(
                "--verdicts theirs: no verdicts stand in the file: name their column with --score, "
                "or leave the option out and let the draws be graded"
            )
        return False
    between = there.filter(~there.is_in(PLAIN))
    if threshold is None and len(between):
        fault = (
            f"{len(between):,} of {len(there):,} verdicts in the file are other than 0 and 1, e.g. "
            f"{between.sort()[0]:g}: say with --threshold from which score on a draw is correct"
        )
        if alone:
            raise ValueError(f"--verdicts theirs: {fault}")
        notices.append(f"left out: {fault}")
        return False
    return True


def write_verdicts(
    stored: StoredDraws, layer: str, draws: pl.DataFrame, threshold: float | None
) -> None:
    """Store the verdicts as grades. draws: problem_id, draw and score, null where the file has
    none. layer: their name."""
    least = USUAL if threshold is None else threshold
    score = pl.col("score")
    version = grader_version(layer)
    table = draws.select(
        "problem_id",
        "draw",
        outcome=pl.when(score.is_null())
        .then(pl.lit("unscored"))
        .when(score >= least)
        .then(pl.lit("correct"))
        .otherwise(pl.lit("incorrect")),
        extracted=pl.lit(None, pl.String),
        reason=pl.when(score.is_null())
        .then(pl.lit("the file has no verdict of it"))
        .otherwise(pl.format("scored {}", score)),
        grader_version=pl.lit(version),
    )
    write_table(stored.paths.grades(version), table, GRADES)


def differing(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """Draws that both have judged (tables.GRADES) and of which only one says that it is correct:
    ours, with the outcome of theirs as outcome_theirs."""
    both = ours.join(
        theirs.select("problem_id", "draw", "outcome"),
        on=["problem_id", "draw"],
        suffix="_theirs",
        maintain_order="left",
    )
    outcomes = [pl.col("outcome"), pl.col("outcome_theirs")]
    return both.filter(*(outcome != "unscored" for outcome in outcomes), outcomes[0] != outcomes[1])


def disagreements(stored: StoredDraws, layer: str) -> str:
    """Lines for a terminal: how often the benchmark's grader and the file's verdicts agree, and
    EXAMPLES of either disagreement; no text of a gated benchmark."""
    ours, theirs = (
        read_table(stored.paths.grades(grader_version(grader)), GRADES)
        for grader in (stored.benchmark.grader, layer)
    )
    grader, apart = stored.benchmark.grader, differing(ours, theirs)
    kinds = {
        f"{grader} correct, {layer} not": apart.filter(outcome="correct"),
        f"{layer} correct, {grader} not": apart.filter(outcome_theirs="correct"),
    }
    lines = [f"{layer} and {grader} disagree on {len(apart):,} of {len(ours):,} draws"]
    responses = read_table(stored.paths.draws, DRAWS).select("problem_id", "draw", "response")
    rows = []
    for kind, rest in kinds.items():
        of_each = rest.sort(pl.int_range(pl.len()).over("problem_id"), maintain_order=True)
        examples = of_each.head(EXAMPLES).join(
            responses, on=["problem_id", "draw"], maintain_order="left"
        )
        for row in examples.to_dicts():
            end = "" if stored.gated else plain(row["response"])[-SHOWN:]
            read = "" if stored.gated or row["extracted"] is None else plain(row["extracted"])
            rows.append((kind, f"{len(rest):,}", row["problem_id"], str(row["draw"]), read, end))
    if rows:
        table = Table(
            title="",
            header=("verdicts", "draws", "problem", "draw", "read as", "end of the response"),
            rows=tuple(rows),
            n_labels=6,
        )
        lines += plain_table(table)
    return "\n".join(lines)
