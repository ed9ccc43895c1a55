"""`analyse`: evaluated checkpoints, those of a sweep under one rule, as frames."""

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
from fgrpo_bench.analysis.families import question_of
from fgrpo_bench.analysis.frames import Analysis
from fgrpo_bench.analysis.front import Front, fronts
from fgrpo_bench.analysis.likelihood import Likelihood, likelihoods
from fgrpo_bench.analysis.other_graders import OtherGrader, other_graders
from fgrpo_bench.analysis.read import At, Scores, key_of, read_scores
from fgrpo_bench.analysis.resamples import Resamples
from fgrpo_bench.analysis.rows import CellRow, Comparison, Estimate, make_cell, schema, to_frame
from fgrpo_bench.analysis.tasks import Task, tasks
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results, SweepResults


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """A checkpoint that was planned, or given, and a benchmark."""

    point_id: str
    """Its name; of a sweep its point_id."""
    cell: str
    seed: int | None
    """Null where it was not told."""
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
    """Counts of one problem and checkpoint, that which stands for its run."""

    benchmark: str
    problem_id: str
    cluster: str | None
    """What it shares with other problems of the benchmark; null: nothing."""
    cell: str
    seed: int | None
    """Null where it was not told."""
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


def analyse(results: Results, rule: str = LAST) -> Analysis:
    """Every frame of evaluated checkpoints; a sweep in progress gives what is there so far. What a
    sweep alone has (costs, choices, likelihoods) has no rows without one.

    rule: one of fgrpo_bench.analysis.checkpoints.RULES. Raises ValueError for what is no rule, and
    where there is nothing to choose from.
    """
    check_rule(results, rule)
    scores = read_scores(results)
    sweep, checkpoints = results.sweep, list[Checkpoint]()
    if sweep is not None:
        checkpoints = choose(sweep, scores, rule)
        results = sweep = at_steps(sweep, _steps(sweep, checkpoints, rule))
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
    pairs, family = question_of(results, tuple(cells.values()))
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
        "cost": [] if sweep is None else costs(sweep.points, chosen),
        "checkpoints": checkpoints,
        "likelihood": [] if sweep is None else likelihoods(sweep, tuple(cells.values())),
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
        names = {point.label for point in results.points if point.cell is not None}
        return dict.fromkeys(names, int(rule.removeprefix(STEP)))
    return {row.cell: row.step for row in checkpoints if row.is_chosen}


def cells_of(results: Results) -> dict[str, CellRow]:
    """Every planned cell, or label, by its name, base models first."""
    by_label: dict[str, list[EvaluatedCheckpoint]] = {}
    for checkpoint in results.checkpoints:
        by_label.setdefault(checkpoint.label, []).append(checkpoint)
    return {
        label: make_cell(own[0].cell, label=label, step=own[0].step, n_planned=len(own))
        for label, own in by_label.items()
    }


def _completeness(
    results: Results, scores: Mapping[str, Mapping[At, Scores]]
) -> Iterator[Completeness]:
    for benchmark in results.benchmarks:
        for each in results.checkpoints:
            has_results = each.seed in scores[benchmark][key_of(each)].seeds
            marker = each.evaluated() if each.is_evaluated else None
            canaries = () if marker is None else marker.canaries_on(benchmark)
            yield Completeness(
                point_id=each.name,
                cell=each.label,
                seed=each.seed,
                benchmark=benchmark,
                has_results=has_results,
                lacks=None if has_results else each.lacks,
                engine=engines_of(canaries, each.engine(benchmark)),
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
                        "seed": pl.Series(own.seeds, dtype=pl.Int64).gather(seed),
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
