"""`tune`: which learning rate suits each method, and the sweep that takes it, as YAML.

In: a finished sweep over factors of the learning rate. Out: `choose_rates` on seeds that the tuned
sweep does not use, and `tuned`, the text of conf/sweep/<sweep>-tuned.yaml. What is chosen by is
what the sweep asks about: pass@1 at the last checkpoints, or, where its family is declared at equal
pass@1, pass@k at one pass@1 for all methods. Then GRPO keeps every rate that was tried, and each
method is compared with all of them: a method that is better than GRPO at equal pass@1 lies above
the upper envelope of these paths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.frames import Analysis
from fgrpo_bench.analysis.question import EQUAL_PASS_AT_1, REFERENCE
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.documents.table import percent
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Cell, Grid, SweepSpec, config, to_dict
from fgrpo_bench.specs.cell import to_columns
from fgrpo_bench.specs.sweep import CellPair, FamilySpec
from fgrpo_bench.stats.paths import at_pass_at_1

PassCurve = tuple[np.ndarray, np.ndarray]
"""pass@1 and pass@k of a cell's checkpoints, means over problems and seeds, fractions."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best learning rate of a method."""

    cell: Cell
    """At that learning rate."""
    scores: dict[float, float | None]
    """By the factors that were tried: what was chosen by, fractions; None where a path does not
    reach the pass@1 at which methods are compared."""

    @property
    def tried(self) -> list[Cell]:
        """Its cells, by rising learning rate."""
        return [replace(self.cell, learning_rate_factor=factor) for factor in sorted(self.scores)]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The choice of every method, and by what."""

    by_method: list[Choice]
    score: str
    """In words, e.g. `highest pass@1`."""


def choose_rates(analysis: Analysis, seeds: Collection[int]) -> Choices:
    """For every algorithm, N and gamma the cell with the highest pass@1 on the first column of the
    headline, or, where the family is declared at equal pass@1, with the highest pass@k at the
    largest k where pass@1 is the highest that every method reaches at one of its rates; of equals
    the one nearest to the experiment's learning rate. A method whose pass@1 never rises above its
    base models is not asked for what it reaches.

    seeds: training seeds of the table that the choice is for. ValueError where the choice would
    rest on one of them, where only one factor was tried, and where results are missing.
    """
    used_seeds = (checkpoint.seed for checkpoint in analysis.results.checkpoints)
    if shared := sorted(set(seeds).intersection(used_seeds)):
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
    for cells in tried.values():
        if len(cells) < 2:
            raise ValueError(
                f"{cells[0].name} was run at one learning rate alone: try several with "
                "sweep.grid.learning_rate_factor=[0.5,1,2]"
            )
    paths = {cell: _path(analysis, cell) for cells in tried.values() for cell in cells}
    scores: dict[Cell, float | None]
    if analysis.at_equal_pass_at_1:
        level = _shared_level(tried, paths)
        scores = {cell: at_pass_at_1(level, *path) for cell, path in paths.items()}
        score = f"highest pass@{analysis.ks[-1]} at a pass@1 of {percent(level)}"
    else:
        scores = {cell: float(pass_at_1[-1]) for cell, (pass_at_1, _) in paths.items()}
        score = "highest pass@1"
    choices = [
        _best({cell.learning_rate_factor: scores[cell] for cell in cells}, cells[0])
        for cells in tried.values()
    ]
    return Choices(by_method=choices, score=score)


def _path(analysis: Analysis, cell: Cell) -> PassCurve:
    """ValueError where a checkpoint lacks results."""
    column, k = analysis.headline[0], analysis.ks[-1]
    rows = analysis.estimates.filter(
        pl.col("column") == column, pl.col("k").is_in((1, k)), pl.col("cell") == cell.name
    )
    has = ", ".join(rows["lacks"].explode().drop_nulls().to_list())
    if has or rows["mean"].has_nulls():
        raise ValueError(f"{cell.name} has {has or 'no results'}: run the sweep to its end first")
    _, pass_at_1, pass_at_k = analysis.checkpoints_of(column, cell.name, k)
    return np.array(pass_at_1) / 100, np.array(pass_at_k) / 100


def _shared_level(tried: Mapping[Cell, Sequence[Cell]], paths: Mapping[Cell, PassCurve]) -> float:
    """The highest pass@1 that every method that rises at all reaches at one of its rates."""
    reached = []
    for cells in tried.values():
        base = paths[cells[0]][0][0]  # one for all cells: where every path begins
        highest = max(paths[cell][0].max() for cell in cells)
        if highest > base:
            reached.append(float(highest))
    if not reached:
        raise ValueError("pass@1 of no method rises above its base models: train for longer")
    return min(reached)


def _best(scores: dict[float, float | None], cell: Cell) -> Choice:
    def rank(factor: float) -> tuple[float, float]:
        score = scores[factor]
        return (-1.0 if score is None else score), -abs(math.log(factor))

    return Choice(cell=replace(cell, learning_rate_factor=max(scores, key=rank)), scores=scores)


def tuned(paths: RunPaths) -> str:
    """The text of conf/sweep/<sweep>-tuned.yaml. paths: the run of the sweep over learning rates;
    seeds, exclusions and family are those that conf/sweep/<sweep>.yaml declares. Raises as
    `choose_rates`."""
    declared = config.load(paths.sweep).sweep
    analysis = analysed(load_results(paths))
    chosen = choose_rates(analysis, declared.grid.seed)
    seeds = sorted({point.seed for point in analysis.results.require_sweep().points})
    return _text(declared, chosen, paths, seeds)


def _text(
    declared: SweepSpec,
    chosen: Choices,
    paths: RunPaths,
    seeds: Sequence[int],
) -> str:
    family = _family(declared.family, chosen.by_method)
    cells = []
    for choice in chosen.by_method:
        kept = choice.tried if _keeps_all(declared.family, choice) else [choice.cell]
        cells += [_cell_line(cell, choice) for cell in kept]
    # prompts of its own stand at each cell
    axes = [field.name for field in fields(Grid) if field.name != "prompts_per_step"]
    grid: dict[str, Any] = {name: [] for name in axes}
    grid |= {"learning_rate_factor": [1.0], "seed": list(declared.grid.seed)}
    sweep = [
        f"name: {declared.name}-tuned",
        f"question: {declared.question} Each method at the learning rate that suits it.",
        *("grid:", *(f"  {name}: {json.dumps(values)}" for name, values in grid.items())),
        *("cells:", *cells),
        f"exclude: {json.dumps([_given(to_dict(rule)) for rule in declared.exclude])}",
        f"family: {'null' if family is None else json.dumps(to_dict(family))}",
    ]
    altered = config.set_in_experiment(paths.sweep)
    run_override = f"experiment={paths.experiment} version={paths.version}"
    return "\n".join(
        [
            "# @package _global_",
            f"# Every method of {declared.name} at the learning rate of those tried that had the",
            f"# {chosen.score} on other seeds ({', '.join(map(str, seeds))}). Printed by",
            f"# `fgrpo-bench sweep tune {paths.sweep} {run_override}`.",
            *("defaults:", f"  - override /experiment: {paths.experiment}", "  - _self_", ""),
            *((f"experiment: {json.dumps(altered)}", "") if altered else ()),
            *("sweep:", *(f"  {line}" for line in sweep)),
        ]
    )


def _keeps_all(family: FamilySpec | None, choice: Choice) -> bool:
    """Whether a method stays at every rate: GRPO, where a family is at equal pass@1."""
    is_on_paths = family is not None and family.at == EQUAL_PASS_AT_1
    return is_on_paths and choice.cell.algorithm == REFERENCE and not choice.cell.focal_gamma


def _family(declared: FamilySpec | None, chosen: Sequence[Choice]) -> FamilySpec | None:
    """That of the sweep with each cell at its chosen rate, without pairs of one method at two; at
    equal pass@1 every method against GRPO at each of its rates, where there is GRPO."""
    if declared is None:
        return None
    references = [choice for choice in chosen if _keeps_all(declared, choice)]
    if references:
        pairs: list[CellPair] = []
        for choice in chosen:
            for reference in references:
                if choice in references or choice.cell.group_size != reference.cell.group_size:
                    continue
                pairs += [CellPair(new=choice.cell.name, old=old.name) for old in reference.tried]
        return replace(declared, pairs=(), cells=tuple(pairs))
    tuned = {cell.name: choice.cell.name for choice in chosen for cell in choice.tried}
    cells = (
        CellPair(new=tuned.get(pair.new, pair.new), old=tuned.get(pair.old, pair.old))
        for pair in declared.cells
    )
    return replace(declared, cells=tuple(pair for pair in cells if pair.new != pair.old))


def _cell_line(cell: Cell, choice: Choice) -> str:
    columns = ", ".join(f"{name}: {value}" for name, value in _given(to_columns(cell)).items())
    scores = ", ".join(
        f"{'not reached' if score is None else percent(score)} at {factor:g}"
        for factor, score in sorted(choice.scores.items())
    )
    return f"  - {{{columns}}}  # {scores}"


def _given(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if value is not None}
