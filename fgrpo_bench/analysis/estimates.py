"""pass@k of every cell at every evaluated checkpoint, on benchmarks and averages, at every k."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fgrpo_bench.analysis.published import published_value
from fgrpo_bench.analysis.read import At, Floats, Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import Cell, Estimate
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.intervals import Estimate as Mean
from fgrpo_bench.stats.intervals import conclude

NOTHING = Mean(mean=None, low=None, high=None, by_seed=(), n_seeds=0, n_problems=0)


def estimates(
    results: SweepResults,
    cells: Mapping[str, Cell],
    resamples: Resamples,
    columns: Sequence[str],
    chosen: Collection[At],
) -> Iterator[Estimate]:
    """Rows by column, cell, step and k. chosen: the checkpoint that stands for each cell."""
    ks = results.evaluation["ks"]
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for at in resamples.scores[names[0]]:
            own = [resamples.scores[name][at] for name in names]
            resampled, cell = resamples.of(column, at), cells[at[0]]
            means = [NOTHING] * len(ks) if resampled is None else conclude(resampled)
            drawn = [n for each in own for n in each.n_samples]
            for i, (k, made) in enumerate(zip(ks, means, strict=True)):
                yield Estimate(
                    column=column,
                    cell=cell.cell,
                    step=at[1],
                    is_chosen=at in chosen,
                    k=k,
                    mean=made.mean,
                    low=made.low,
                    high=made.high,
                    standard_error=made.standard_error,
                    degrees=made.degrees,
                    seeds=() if resampled is None else own[0].seeds,
                    by_seed=made.by_seed,
                    n_problems=made.n_problems,
                    n_samples=min(drawn, default=None),
                    unscored=_unscored(own),
                    all_wrong=_bound([each.bounds[0, :, :, i] for each in own]),
                    all_right=_bound([each.bounds[1, :, :, i] for each in own]),
                    lacks=_lacks(own, i, cell.n_planned, results.evaluation["n_samples"]),
                    published=published_value(results, cell, column, k),
                )


def _unscored(scores: Sequence[Scores]) -> float:
    """Share of the draws that could not be judged; 0 without results."""
    drawn = sum(int(n * own.sum()) for each in scores
                for n, own in zip(each.n_samples, each.present, strict=True))  # fmt: skip
    return 1 - sum(int(each.n_scored.sum()) for each in scores) / drawn if drawn else 0.0


def _bound(ends: Sequence[Floats]) -> float | None:
    """Mean over benchmarks of the means of [seeds, problems]; None where one is missing."""
    if any(end.size == 0 or np.isnan(end).any() for end in ends):
        return None
    return float(np.mean([end.mean() for end in ends]))


def _lacks(scores: Sequence[Scores], end: int, n_planned: int, wanted: int) -> tuple[str, ...]:
    """What a value has too few of; empty where it has all or is none."""
    out: dict[str, None] = {}
    for own in scores:
        if not own.seeds:
            continue
        complete = int((~np.isnan(own.values[:, :, end])).all(axis=0).sum())
        for have, want, what in (
            (len(own.seeds), n_planned, "seeds"),
            (min(own.n_samples), wanted, "draws"),
            (complete, len(own.problems), "problems"),
        ):
            if have < want:
                out[f"{have} of {want} {what}"] = None
    return tuple(out)
