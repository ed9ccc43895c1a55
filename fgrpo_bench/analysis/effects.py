"""What N, the prompts per step and both together do to pass@k, over a full grid of the two.

In: the scores of every cell, as resamples (comparisons.py). Out: the rows of `effects`. A contrast
is a linear combination of cells, so its values by seed and problem have an interval as pass@k has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fgrpo_bench.analysis.checkpoints import At
from fgrpo_bench.analysis.comparisons import Resamples
from fgrpo_bench.analysis.paths import BASES, checkpoints_of, concatenated, paths_of
from fgrpo_bench.analysis.rows import CellRow, EffectRow
from fgrpo_bench.stats.intervals import IntervalEstimate, Resampled, average, conclude, resample
from fgrpo_bench.stats.paths import END, weighed

UNBOUNDED = -math.inf, math.inf

Grid = dict[tuple[int, int], CellRow]
"""Cells by N and prompts per step."""


def full_grids(cells: Sequence[CellRow]) -> Iterator[Grid]:
    """Of every algorithm, gamma and learning rate whose cells are all pairs of at least two N and
    two numbers of prompts that a sweep names."""
    grids: dict[tuple[str | None, float | None, float], Grid] = {}
    for cell in cells:
        if cell.group_size is not None and cell.prompts_per_step is not None:
            same = cell.algorithm, cell.focal_gamma, cell.learning_rate_factor
            grids.setdefault(same, {})[cell.group_size, cell.prompts_per_step] = cell
    for grid in grids.values():
        sizes, prompts = ({pair[axis] for pair in grid} for axis in (0, 1))
        if min(len(sizes), len(prompts)) > 1 and len(grid) == len(sizes) * len(prompts):
            yield grid


def contrasts(pairs: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """Weights of the cells of a full grid for each effect: `group_size`, a doubling of N, at the
    mean over prompts; `prompts_per_step`, likewise; `product`, by how much a doubling of the one
    raises the effect of a doubling of the other.

    pairs: N and prompts of every cell. The slopes of least squares on log2 N and log2 prompts, each
    less its mean, and on their product: these are orthogonal in a full grid, so each is a sum by
    itself (Montgomery 2017, "Design and Analysis of Experiments", chapter 5).
    """
    logs = np.log2(np.array(pairs, dtype=float))
    n, prompts = (logs - logs.mean(axis=0)).T
    by_effect = {"group_size": n, "prompts_per_step": prompts, "product": n * prompts}
    return {name: (x / (x @ x)).tolist() for name, x in by_effect.items()}


def effects(
    resamples: Resamples, cells: Mapping[str, CellRow], columns: Sequence[str], ks: Sequence[int]
) -> Iterator[EffectRow]:
    """Rows by column, full grid, effect and k, each cell at the checkpoint that stands for it, then
    at equal pass@1 where runs have several evaluated ones and the paths of all cells meet.

    A grid has none on a column where its cells have no seed in common, of an average where these
    differ between its benchmarks. cells: by name.
    """
    for column in columns:
        for grid in full_grids(tuple(cells.values())):
            yield from _at_last(resamples, column, grid, ks)
            yield from _at_equal_pass_at_1(resamples, column, grid, ks)


def _at_last(
    resamples: Resamples, column: str, grid: Grid, ks: Sequence[int]
) -> Iterator[EffectRow]:
    places = [(cell.cell, cell.step) for cell in grid.values()]
    names, seeds = resamples.benchmarks(column), resamples.seeds(column, *places)
    if not seeds or any(resamples.seeds(name, *places) != seeds for name in names):
        return
    for effect, weights in contrasts(list(grid)).items():
        parts = [_weighed(resamples, name, places, seeds, weights) for name in names]
        yield from _rows(column, grid, effect, ks, seeds, conclude(average(parts)))


def _at_equal_pass_at_1(
    resamples: Resamples, column: str, grid: Grid, ks: Sequence[int]
) -> Iterator[EffectRow]:
    names = resamples.benchmarks(column)
    checkpoints = checkpoints_of(resamples, names, [cell.cell for cell in grid.values()])
    places = [at for ats in checkpoints.values() for at in ats]
    seeds = resamples.seeds(column, *places)
    has_paths = all(len([at for at in ats if at != BASES]) > 1 for ats in checkpoints.values())
    if not seeds or not has_paths:
        return
    for of_ks, paths, masks in paths_of(resamples, names, list(checkpoints.values()), seeds, ks):
        for effect, weights in contrasts(list(grid)).items():
            matched = weighed(paths, weights)
            if not matched.meet:
                return
            parts = [(values[:, :, END], None) for values in matched.parts]
            estimates = conclude(concatenated(resamples, names, masks, parts, UNBOUNDED))
            level = float(matched.high.mean())
            yield from _rows(column, grid, effect, of_ks, seeds, estimates, pass_at_1=level)


def _rows(
    column: str,
    grid: Grid,
    effect: str,
    ks: Sequence[int],
    seeds: tuple[int | None, ...],
    estimates: Sequence[IntervalEstimate],
    pass_at_1: float | None = None,
) -> Iterator[EffectRow]:
    first = next(iter(grid.values()))
    for k, estimate in zip(ks, estimates, strict=True):
        if estimate.mean is not None:
            yield EffectRow(
                column=column,
                algorithm=str(first.algorithm),
                focal_gamma=first.focal_gamma or 0.0,
                learning_rate_factor=first.learning_rate_factor,
                effect=effect,
                k=k,
                pass_at_1=pass_at_1,
                change=estimate.mean,
                low=estimate.low,
                high=estimate.high,
                standard_error=estimate.standard_error,
                degrees=estimate.degrees,
                p=estimate.p_value,
                seeds=seeds,
                by_seed=estimate.by_seed,
                n_problems=estimate.n_problems,
                cells=tuple(cell.cell for cell in grid.values()),
            )


def _weighed(
    resamples: Resamples,
    benchmark: str,
    places: Sequence[At],
    seeds: tuple[int | None, ...],
    weights: Sequence[float],
) -> Resampled:
    """Resamples of the weighed sum of cells' pass@k."""
    scores = resamples.scores[benchmark]
    by_cell = [scores[at].for_seeds(seeds).values for at in places]
    return resample(
        np.tensordot(weights, by_cell, axes=1),
        limits=UNBOUNDED,
        stream=resamples.streams[benchmark],
        clusters=resamples.clusters(benchmark),
    )
