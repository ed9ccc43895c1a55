"""Problems retained, gained and lost against the base model of the same seed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fgrpo_bench.analysis.read import At
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import Coverage
from fgrpo_bench.stats.coverage import Coverage as ByProblem
from fgrpo_bench.stats.coverage import coverage

SURE = 0.95
"""Probability from which a problem counts as surely lost or gained."""


def coverages(
    resamples: Resamples, columns: Sequence[str], chosen: Collection[At], ks: Sequence[int]
) -> Iterator[Coverage]:
    """Rows of every trained cell that has seeds in common with the base models, at every k."""
    for column in columns:
        names = resamples.averages.get(column, (column,))
        for base in [at for at in chosen if at[0] == "base"]:
            for at in chosen:
                seeds = resamples.seeds(column, at, base)
                if at == base or not seeds:
                    continue
                parts = [
                    [resamples.scores[name][each].of_seeds(seeds) for each in (base, at)]
                    for name in names
                ]
                counts = {
                    (side, what): np.concatenate([getattr(part[i], what) for part in parts], axis=1)
                    for i, side in enumerate(("old", "new"))
                    for what in ("n_scored", "n_correct")
                }
                for k in ks:
                    by_seed = [
                        tuple(
                            coverage(
                                n_old=counts["old", "n_scored"][i],
                                old=counts["old", "n_correct"][i],
                                n_new=counts["new", "n_scored"][i],
                                new=counts["new", "n_correct"][i],
                                k=k,
                                of_solved=of_solved,
                            )
                            for of_solved in (True, False)
                        )
                        for i in range(len(seeds))
                    ]
                    counted, likely = zip(*by_seed, strict=True)
                    yield _row(column, at[0], k, counted, likely)


def _row(
    column: str,
    cell: str,
    k: int,
    counted: Sequence[ByProblem],
    likely: Sequence[ByProblem],
) -> Coverage:
    """counted: by seed, what sums are made of; likely: the posterior's probabilities."""
    sums: Mapping[str, list[float]] = {
        name: [float(getattr(one, name).sum()) for one in counted]
        for name in ("retained", "lost", "gained", "neither")
    }
    sure = {
        name: float(np.mean([(getattr(one, name) >= SURE).sum() for one in likely]))
        for name in ("lost", "gained")
    }
    reached = np.add(sums["lost"], sums["retained"])
    shares = np.divide(sums["lost"], reached, where=reached > 0, out=np.zeros(len(reached)))
    return Coverage(
        column=column,
        cell=cell,
        k=k,
        **{name: float(np.mean(values)) for name, values in sums.items()},
        surely_lost=sure["lost"],
        surely_gained=sure["gained"],
        lost_share=float(shares.mean()) if (reached > 0).all() else None,
        n_seeds=len(counted),
        n_problems=len(counted[0].lost),
    )
