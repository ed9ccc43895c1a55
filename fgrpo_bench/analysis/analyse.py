"""`analyse`: a sweep's results under one rule, as frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fgrpo_bench.analysis.bands import Band, FirstLoss, bands, first_losses
from fgrpo_bench.analysis.checkpoints import (
    HELD_OUT,
    LAST,
    STEP,
    Checkpoint,
    at_steps,
    check_rule,
    choose,
    deciding,
)
from fgrpo_bench.analysis.comparisons import compare, every_pair
from fgrpo_bench.analysis.cost import Cost, costs
from fgrpo_bench.analysis.coverage import Coverage, coverages
from fgrpo_bench.analysis.drift import Drift, drifts, engines_of
from fgrpo_bench.analysis.equal_budget import budget_family, matches
from fgrpo_bench.analysis.estimates import estimates
from fgrpo_bench.analysis.families import asked
from fgrpo_bench.analysis.frames import Analysis
from fgrpo_bench.analysis.front import Front, fronts
from fgrpo_bench.analysis.likelihood import Likelihood, likelihoods
from fgrpo_bench.analysis.other_graders import OtherGrader, other_graders
from fgrpo_bench.analysis.read import At, Scores, key_of, read_scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import CellRow, Comparison, Estimate, make_cell, schema, to_frame
from fgrpo_bench.analysis.tasks import Task, tasks
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """A planned point and benchmark."""

    point_id: str
    cell: str
    seed: int
    benchmark: str
    has_results: bool
    lacks: str | None
    """What it is in want of, in words; null with results."""
    engine: str | None
    """Fingerprint of the engine that made the draws, in words, of several one after the other; null
    where none was recorded."""
    grader: str | None
    """Version of the grader; null without results."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Counts of one problem and point, at the checkpoint that stands for the run."""

    benchmark: str
    problem_id: str
    cluster: str | None
    """What it shares with other problems of the benchmark; null: nothing."""
    cell: str
    seed: int
    n_drawn: int | None
    """Draws up to where the problem stopped, judged or not; null where its judgements ask for draws
    that are missing."""
    n_scored: int
    """Judged draws; 0 where none was."""
    n_correct: int
    success_rate: float | None
    """pass@1: of a fixed number of draws n_correct / n_scored, which would be too high where
    correct draws stop a problem. Null where there is no estimate."""


FRAMES: dict[str, type] = {
    "cells": CellRow,
    "estimates": Estimate,
    "comparisons": Comparison,
    "equal_budget": Comparison,
    "bands": Band,
    "first_loss": FirstLoss,
    "front": Front,
    "coverage": Coverage,
    "cost": Cost,
    "checkpoints": Checkpoint,
    "likelihood": Likelihood,
    "completeness": Completeness,
    "other_graders": OtherGrader,
    "drift": Drift,
    "tasks": Task,
    "problems": Problem,
}
"""Row class of every frame, by name."""


def analyse(results: SweepResults, rule: str = LAST) -> Analysis:
    """Every frame of a sweep; one in progress gives what is there so far.

    rule: one of fgrpo_bench.analysis.checkpoints.RULES. Raises ValueError for what is no rule, and
    where there is nothing to choose from.
    """
    check_rule(results, rule)
    scores = read_scores(results)
    checkpoints = choose(results, scores, rule)
    results = at_steps(results, _steps(results, checkpoints, rule))
    if rule == HELD_OUT:  # report on the problems that chose nothing
        for benchmark in deciding(results):
            scores[benchmark] = {
                at: own.half(for_selection=False) for at, own in scores[benchmark].items()
            }
    cells = cells_of(results)
    chosen = tuple((cell.cell, cell.step) for cell in cells.values())
    columns = results.columns
    ks = tuple(results.evaluation["ks"])
    resamples = Resamples(scores, results.averages)
    pairs, family = asked(results.declaration["declaration"], tuple(cells.values()))
    compared = every_pair(tuple(cells.values()), pairs)
    matched = list(matches(tuple(cells.values()), checkpoints))
    of_matched = [each.pair for each in matched if each.pair]
    at_budget = budget_family(of_matched if family.pairs else [], ks, columns)
    of_budgets = compare(resamples, matched, columns=columns, ks=ks, family=at_budget)
    over_k = list(bands(resamples, [each for each in compared if each.pair], columns, ks))
    differences = compare(resamples, compared, columns=columns, ks=ks, family=family)
    trained = [cell.cell for cell in cells.values() if not cell.is_base]
    ends = sorted({ks[0], ks[-1]})
    rows = {
        "cells": cells.values(),
        "estimates": estimates(results, cells, resamples, columns, chosen),
        "comparisons": differences,
        "equal_budget": [row for row in of_budgets if row.k in at_budget.ks],
        "bands": over_k,
        "first_loss": first_losses(over_k),
        "front": fronts(differences, trained, columns, ends),
        "coverage": coverages(resamples, columns, chosen, ks),
        "cost": costs(results, chosen),
        "checkpoints": checkpoints,
        "likelihood": likelihoods(results, tuple(cells.values())),
        "completeness": _completeness(results, scores),
        "other_graders": other_graders(results, chosen, _problems_of(scores)),
        "drift": drifts(results),
        "tasks": tasks(results, chosen),
    }
    frames = {name: to_frame(FRAMES[name], own) for name, own in rows.items()}
    frames["problems"] = _problems(scores, chosen)
    return Analysis(results=results, rule=rule, family=family.name, **frames)


def _steps(
    results: SweepResults, checkpoints: Sequence[Checkpoint], rule: str
) -> Mapping[str, int]:
    if rule.startswith(STEP):
        names = {key_of(point)[0] for point in results.points if point.cell is not None}
        return dict.fromkeys(names, int(rule.removeprefix(STEP)))
    return {row.cell: row.step for row in checkpoints if row.is_chosen}


def cells_of(results: SweepResults) -> dict[str, CellRow]:
    """Every planned cell by its name, base models first."""
    by_cell: dict[str, list[PointResult]] = {}
    for point in results.points:
        by_cell.setdefault(key_of(point)[0], []).append(point)
    return {
        name: make_cell(points[0].cell, step=points[0].step, n_planned=len(points))
        for name, points in by_cell.items()
    }


def _completeness(
    results: SweepResults, scores: Mapping[str, Mapping[At, Scores]]
) -> Iterator[Completeness]:
    for benchmark in results.benchmarks:
        for point in results.points:
            has_results = point.seed in scores[benchmark][key_of(point)].seeds
            marker = point.evaluated() if point.is_evaluated else None
            canaries = () if marker is None else marker.canaries_on(benchmark)
            yield Completeness(
                point_id=point.point_id,
                cell=key_of(point)[0],
                seed=point.seed,
                benchmark=benchmark,
                has_results=has_results,
                lacks=None if has_results else point.lacks,
                engine=engines_of(canaries, point.engine(benchmark)),
                grader=None if marker is None else marker.asked.graders.get(benchmark),
            )


def _problems_of(scores: Mapping[str, Mapping[At, Scores]]) -> dict[str, tuple[str, ...]]:
    """By benchmark; every cell has the same."""
    return {name: next(iter(of_cell.values())).problems for name, of_cell in scores.items()}


def _problems(scores: Mapping[str, Mapping[At, Scores]], chosen: Sequence[At]) -> pl.DataFrame:
    """The rows of Problem, made by columns: there are many."""
    parts = [pl.DataFrame(schema=schema(Problem))]
    for benchmark, of_cell in scores.items():
        for at in chosen:
            own = of_cell[at]
            seed, problem = own.present.nonzero()
            parts.append(
                pl.DataFrame(
                    {
                        "benchmark": [benchmark] * len(seed),
                        "problem_id": np.array(own.problems, dtype=object)[problem],
                        "cluster": pl.Series(own.cluster_names, dtype=pl.String).gather(problem),
                        "cell": [at[0]] * len(seed),
                        "seed": np.array(own.seeds, dtype=int)[seed],
                        "n_drawn": own.n_drawn[seed, problem],
                        "n_scored": own.n_scored[seed, problem],
                        "n_correct": own.n_correct[seed, problem],
                        "success_rate": own.success_rates()[seed, problem],
                    },
                    schema=schema(Problem),
                ).with_columns(
                    pl.col("n_drawn").replace(0, None), pl.col("success_rate").fill_nan(None)
                )
            )
    return pl.concat(parts)
