"""pass@k by the graders that stand beside a benchmark's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from fgrpo_bench.analysis.read import At, key_of
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results


@dataclass(frozen=True, kw_only=True)
class OtherGrader:
    """pass@k of a cell by a grader that stands beside the benchmark's own."""

    benchmark: str
    grader: str
    """Its name."""
    versions: tuple[str, ...]
    """Of the grader, one where all results are by the same."""
    cell: str
    k: int
    pass_at_k: float | None
    """Mean over the problems that have a value for every seed, and over seeds."""
    n_seeds: int


def other_graders(
    results: Results, chosen: Sequence[At], problems: Mapping[str, Collection[str]]
) -> Iterator[OtherGrader]:
    """A row a benchmark, further grader, cell and k; none where a cell has no grades of it.

    problems: those of each benchmark that count.
    """
    for benchmark in results.judged_twice:
        graders = {name: None for each in results.checkpoints for name in each.beside(benchmark)}
        for grader in graders:
            for cell, step in chosen:
                own = [
                    each
                    for each in results.checkpoints
                    if key_of(each) == (cell, step) and grader in each.beside(benchmark)
                ]
                if own:
                    yield from _rows(own, benchmark, grader, cell, problems[benchmark])


def _rows(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmark: str,
    grader: str,
    cell: str,
    problems: Collection[str],
) -> Iterator[OtherGrader]:
    tables = [each.passk_beside(benchmark, grader) for each in checkpoints]
    values = (
        pl.concat(tables)
        .filter(pl.col("problem_id").is_in(list(problems)))
        .group_by("k", "problem_id")
        .agg(value=pl.col("pass_at_k").mean(), with_value=pl.col("pass_at_k").count())
        .sort("k", "problem_id")  # so that sums are in one order, and the digits the same
    )
    complete = pl.col("with_value") == len(checkpoints)
    means = values.group_by("k", maintain_order=True).agg(pl.col("value").filter(complete).mean())
    for k, mean in means.iter_rows():
        yield OtherGrader(
            benchmark=benchmark,
            grader=grader,
            versions=tuple(sorted({each.beside(benchmark)[grader] for each in checkpoints})),
            cell=cell,
            k=k,
            pass_at_k=mean,
            n_seeds=len(checkpoints),
        )
