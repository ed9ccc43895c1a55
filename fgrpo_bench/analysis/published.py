"""The published figure beside an estimate of a sweep: which of its columns the paper has too.

In: the results of a sweep. Out: figures of fgrpo_bench.paper.published, which holds them.
"""

from __future__ import annotations

from fgrpo_bench.analysis.results import Results, SweepResults
from fgrpo_bench.paper.published import AVERAGES, BENCHMARKS, MAZE_SIZE, lookup
from fgrpo_bench.specs import Cell


def same_columns(results: SweepResults) -> dict[str, str]:
    """What to look up for each benchmark and average of ours that the paper has too. An average of
    ours is one of the paper's where both are over the same benchmarks; mazes are the paper's at
    its size."""
    same = {name: name for name in results.benchmarks if name in BENCHMARKS}
    if (results.train.get("task") or {}).get("size") != MAZE_SIZE:
        same.pop("maze", None)
    for name, benchmarks in AVERAGES.items():
        same |= {
            title: name
            for title, averaged in results.averages.items()
            if benchmarks == set(averaged)
        }
    return same


def published_value(results: Results, cell: Cell | None, column: str, k: int) -> float | None:
    """The published pass@k beside one of ours, a fraction; None where there is none, and without a
    sweep, which alone says what was trained."""
    if results.sweep is None:
        return None
    return lookup(
        cell,
        model=results.sweep.model,
        benchmark=same_columns(results.sweep).get(column, ""),
        k=k,
    )
