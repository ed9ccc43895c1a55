"""`tune`: which learning rate suits each method, and the sweep that takes it, as YAML.

In: a finished sweep over factors of the learning rate. Out: `choose_rates` on seeds that the tuned
sweep does not use, and `tuned`, the text of conf/sweep/<sweep>-tuned.yaml. What is chosen by is
what the sweep asks about: pass@1 at the last checkpoints, or, where its family is declared at equal
pass@1, the area under the path of pass@1 and pass@k.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.frames import Analysis
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Cell, Grid, SweepSpec, config, to_dict
from fgrpo_bench.specs.cell import to_columns
from fgrpo_bench.specs.sweep import CellPair, FamilySpec
from fgrpo_bench.stats.paths import area


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best learning rate of a method."""

    cell: Cell
    """At that learning rate."""
    scores: dict[float, float]
    """By the factors that were tried: pass@1, or the area under the path of pass@1 and pass@k from
    the base models on (fgrpo_bench.stats.paths.area); fractions."""


def choose_rates(analysis: Analysis, seeds: Collection[int]) -> list[Choice]:
    """For every algorithm, N and gamma the cell with the highest pass@1 on the first column of the
    headline, or, where the family is declared at equal pass@1, with the largest area under the path
    of its means over seeds at the largest k; of equals the one nearest to the experiment's learning
    rate.

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
        is_path = analysis.at_equal_pass_at_1
        scores[cell.learning_rate_factor] = _area(analysis, cell) if is_path else estimate.mean
    best = max(scores, key=lambda factor: (scores[factor], -abs(math.log(factor))))
    (cell,) = [cell for cell in cells if cell.learning_rate_factor == best]
    return Choice(cell=cell, scores=scores)


def _area(analysis: Analysis, cell: Cell) -> float:
    column, k = analysis.headline[0], analysis.ks[-1]
    rows = analysis.estimates.filter(
        pl.col("column") == column, pl.col("k").is_in((1, k)), pl.col("cell") == cell.name
    )
    if lacks := rows["lacks"].explode().drop_nulls().to_list():
        raise ValueError(
            f"a checkpoint of {cell.name} has {', '.join(lacks)}: run the sweep to its end first"
        )
    _, x, y = analysis.checkpoints_of(column, cell.name, k)
    return area(np.array(x) / 100, np.array(y) / 100)


def tuned(paths: RunPaths) -> str:
    """The text of conf/sweep/<sweep>-tuned.yaml. paths: the run of the sweep over learning rates;
    seeds, exclusions and family are those that conf/sweep/<sweep>.yaml declares. Raises as
    `choose_rates`."""
    declared = config.load(paths.sweep).sweep
    analysis = analysed(load_results(paths))
    chosen = choose_rates(analysis, declared.grid.seed)
    seeds = sorted({point.seed for point in analysis.results.of_sweep().points})
    return _text(declared, chosen, paths, seeds, analysis)


def _text(
    declared: SweepSpec,
    chosen: Sequence[Choice],
    paths: RunPaths,
    seeds: Sequence[int],
    analysis: Analysis,
) -> str:
    family, score, shown = _family(declared.family, chosen), "highest pass@1", ("pass@1", ".1f")
    if analysis.at_equal_pass_at_1:
        score = f"largest area under the path of pass@1 and pass@{analysis.ks[-1]}"
        shown = ("area", ".2f")
    # prompts of its own stand at each cell
    axes = [field.name for field in fields(Grid) if field.name != "prompts_per_step"]
    grid: dict[str, Any] = {name: [] for name in axes}
    grid |= {"learning_rate_factor": [1.0], "seed": list(declared.grid.seed)}
    sweep = [
        f"name: {declared.name}-tuned",
        f"question: {declared.question} Each method at the learning rate that suits it.",
        *("grid:", *(f"  {name}: {json.dumps(values)}" for name, values in grid.items())),
        *("cells:", *(_cell(choice, *shown) for choice in chosen)),
        f"exclude: {json.dumps([_given(to_dict(rule)) for rule in declared.exclude])}",
        f"family: {'null' if family is None else json.dumps(to_dict(family))}",
    ]
    altered = config.set_in_experiment(paths.sweep)
    made_by = f"experiment={paths.experiment} version={paths.version}"
    return "\n".join(
        [
            "# @package _global_",
            f"# Every method of {declared.name} at the learning rate of those tried that had the",
            f"# {score} on other seeds ({', '.join(map(str, seeds))}). Printed by",
            f"# `fgrpo-bench sweep tune {paths.sweep} {made_by}`.",
            *("defaults:", f"  - override /experiment: {paths.experiment}", "  - _self_", ""),
            *((f"experiment: {json.dumps(altered)}", "") if altered else ()),
            *("sweep:", *(f"  {line}" for line in sweep)),
        ]
    )


def _family(declared: FamilySpec | None, chosen: Sequence[Choice]) -> FamilySpec | None:
    """That of the sweep with each cell at its chosen rate, without pairs of one method at two."""
    if declared is None:
        return None
    tuned = {
        replace(choice.cell, learning_rate_factor=factor).name: choice.cell.name
        for choice in chosen
        for factor in choice.scores
    }
    cells = (
        CellPair(new=tuned.get(pair.new, pair.new), old=tuned.get(pair.old, pair.old))
        for pair in declared.cells
    )
    return replace(declared, cells=tuple(pair for pair in cells if pair.new != pair.old))


def _cell(choice: Choice, score: str, digits: str) -> str:
    columns = ", ".join(
        f"{name}: {value}" for name, value in _given(to_columns(choice.cell)).items()
    )
    scores = ", ".join(
        f"{100 * value:{digits}} at {factor:g}" for factor, value in choice.scores.items()
    )
    return f"  - {{{columns}}}  # {score} {scores}"


def _given(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if value is not None}
