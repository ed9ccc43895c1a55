"""pass@k of every cell at every evaluated checkpoint, on benchmarks and averages, at every k."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fgrpo_bench.analysis.published import published_value
from fgrpo_bench.analysis.read import At, Floats, Scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import CellRow, Estimate
from fgrpo_bench.points import Asked
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.intervals import Estimate as Mean
from fgrpo_bench.stats.intervals import conclude

NOTHING = Mean(mean=None, low=None, high=None, by_seed=(), n_seeds=0, n_problems=0)


def estimates(
    results: SweepResults,
    cells: Mapping[str, CellRow],
    resamples: Resamples,
    columns: Sequence[str],
    chosen: Collection[At],
) -> Iterator[Estimate]:
    """Rows by column, cell, step and k. chosen: the checkpoint that stands for each cell."""
    ks = results.evaluation["ks"]
    wanted = Asked(n_samples=results.evaluation["n_samples"], design=results.stopping)
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for at in resamples.scores[names[0]]:
            own = [resamples.scores[name][at] for name in names]
            resampled, cell = resamples.of(column, at), cells[at[0]]
            means = [NOTHING] * len(ks) if resampled is None else conclude(resampled)
            asked = [request for each in own for request in each.asked]
            unscored, n_draws = _drawn(own)
            designs, n_open = _designs(asked), [_n_open(each) for each in own]
            is_redesigned = any(any(each.is_redesigned) for each in own)
            for i, (k, estimate) in enumerate(zip(ks, means, strict=True)):
                yield Estimate(
                    column=column,
                    cell=cell.cell,
                    step=at[1],
                    is_chosen=at in chosen,
                    k=k,
                    mean=estimate.mean,
                    low=estimate.low,
                    high=estimate.high,
                    standard_error=estimate.standard_error,
                    degrees=estimate.degrees,
                    seeds=() if resampled is None else own[0].seeds,
                    by_seed=estimate.by_seed,
                    n_problems=estimate.n_problems,
                    n_samples=min((each.n_samples for each in asked), default=None),
                    n_draws=n_draws,
                    designs=designs,
                    is_redesigned=is_redesigned,
                    unscored=unscored,
                    all_wrong=_bound([each.bounds[0, :, :, i] for each in own]),
                    all_right=_bound([each.bounds[1, :, :, i] for each in own]),
                    lacks=_lacks(own, n_open, i, cell.n_planned, wanted),
                    published=published_value(results, cell.setting, column, k),
                )


def _drawn(scores: Sequence[Scores]) -> tuple[float, float | None]:
    """Share of the draws up to where problems stopped that could not be judged, and how many these
    draws are a problem; 0 and None where none has stopped."""
    drawn = sum(int(each.n_drawn.sum()) for each in scores)
    stopped = sum(int((each.n_drawn > 0).sum()) for each in scores)
    judged = sum(int(each.n_scored[each.n_drawn > 0].sum()) for each in scores)
    return (1 - judged / drawn, drawn / stopped) if drawn else (0.0, None)


def _designs(asked: Sequence[Asked]) -> tuple[str, ...]:
    """In words, each once; none where no problem stops early."""
    if not any(each.design for each in asked):
        return ()
    return tuple(dict.fromkeys(each.words for each in asked))


def _bound(ends: Sequence[Floats]) -> float | None:
    """Mean over benchmarks of the means of [seeds, problems]; None where one is missing."""
    if any(end.size == 0 or np.isnan(end).any() for end in ends):
        return None
    return float(np.mean([end.mean() for end in ends]))


def _n_open(scores: Scores) -> int:
    """Problems whose judgements ask for draws that are missing."""
    return int((scores.present & (scores.n_drawn == 0)).any(axis=0).sum())


def _lacks(
    scores: Sequence[Scores], n_open: Sequence[int], end: int, n_planned: int, wanted: Asked
) -> tuple[str, ...]:
    """What a value has too few of; empty where it has all or is none."""
    out: dict[str, None] = {}
    for own, n in zip(scores, n_open, strict=True):
        if not own.seeds:
            continue
        complete = int((~np.isnan(own.values[:, :, end])).all(axis=0).sum())
        waiting = f" (the judgements of {n} ask for more draws)" if n else ""
        alike = sum(each.design == wanted.design for each in own.asked)
        for have, want, noun in (
            (len(own.seeds), n_planned, "seeds"),
            (min(each.n_samples for each in own.asked), wanted.n_samples, "draws"),
            (alike, len(own.seeds), "seeds with the declared design"),
            (complete, len(own.problems), f"problems{waiting}"),
        ):
            if have < want:
                out[f"{have} of {want} {noun}"] = None
    return tuple(out)
