"""Which learning rate suits each method, by a sweep over factors of it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from fgrpo_bench.analysis.frames import Analysis
from fgrpo_bench.specs import Cell


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best learning rate of a method."""

    cell: Cell
    """At that learning rate."""
    pass_at_1: dict[float, float]
    """By the factors that were tried, as fractions."""


def choose_rates(analysis: Analysis, seeds: Collection[int]) -> list[Choice]:
    """For every algorithm, N and gamma the cell with the highest pass@1 on the first column of the
    headline; of equals the one nearest to the experiment's learning rate.

    seeds: training seeds of the table that the choice is for. ValueError where the choice would
    rest on one of them, where only one factor was tried, and where results are missing.
    """
    of_results = (checkpoint.seed for checkpoint in analysis.results.checkpoints)
    if shared := sorted(set(seeds).intersection(of_results)):
        raise ValueError(
            f"seed {', '.join(map(str, shared))} chooses the learning rates and is one of the "
            "table's: choose by seeds that the table does not use, with sweep.grid.seed=[...]"
        )
    if analysis.ks[0] != 1:
        raise ValueError(
            f"the smallest k of this run is {analysis.ks[0]}: learning rates are chosen by pass@1; "
            "evaluate with experiment.evaluation.ks=[1,...]"
        )
    tried: dict[Cell, list[Cell]] = {}
    for row in analysis.by_cell.values():
        if (cell := row.setting) is not None:
            tried.setdefault(replace(cell, learning_rate_factor=1.0), []).append(cell)
    return [_best(analysis, cells) for cells in tried.values()]


def _best(analysis: Analysis, cells: list[Cell]) -> Choice:
    if len(cells) < 2:
        raise ValueError(
            f"{cells[0].name} was run at one learning rate alone: try several with "
            "sweep.grid.learning_rate_factor=[0.5,1,2]"
        )
    scores: dict[float, float] = {}
    for cell in cells:
        estimate = analysis.estimate(analysis.headline[0], cell.name, 1)
        if estimate.mean is None or estimate.lacks:
            has = ", ".join(estimate.lacks) or "no results"
            raise ValueError(f"{cell.name} has {has}: run the sweep to its end first")
        scores[cell.learning_rate_factor] = estimate.mean
    best = max(scores, key=lambda factor: (scores[factor], -abs(math.log(factor))))
    (cell,) = [cell for cell in cells if cell.learning_rate_factor == best]
    return Choice(cell=cell, pass_at_1=scores)
