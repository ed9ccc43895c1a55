"""Choosing the checkpoint that stands for each run.

A rule chooses for a cell, by its mean over seeds, so that all runs of a table row have equal steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fgrpo_bench.analysis.read import At, Scores
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import Results, SweepResults
from fgrpo_bench.specs import Cell
from fgrpo_bench.stats.selection import Candidate, best, saved_steps

LAST, PAPER, HELD_OUT, STEP = "last", "paper", "held-out", "step="
RULES = (LAST, PAPER, HELD_OUT, f"{STEP}<step>")
"""What `--select` takes."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that a rule may choose, of a cell whose finished runs have all evaluated it."""

    cell: str
    step: int
    is_chosen: bool
    rollouts: float
    """Mean over seeds."""
    pass_at_1: float
    """Mean over seeds and the benchmarks in domain (over all where none is), of the problems that
    the rule looks at."""
    budget: float | None
    """Rollouts that the chosen one may cost; null where nothing limits it."""


def check_rule(results: Results, rule: str) -> None:
    """ValueError for what is no rule, and for one that has nothing to choose from."""
    if not (rule in (LAST, PAPER, HELD_OUT) or re.fullmatch(rf"{STEP}\d+", rule)):
        raise ValueError(f"--select {rule} is no rule: choose {', '.join(RULES)}")
    if rule != LAST and results.sweep is None:
        raise ValueError(
            f"--select {rule} chooses among the checkpoints of each training run, and these were "
            f"evaluated without a sweep: take {LAST}, and give every checkpoint a label of its own"
        )
    if rule in (PAPER, HELD_OUT) and all(len(each.of_run) == 1 for each in results.checkpoints):
        raise ValueError(
            f"--select {rule} needs several checkpoints of a run, and this sweep evaluates one of "
            "each: run it again with experiment.checkpoints=every, which trains nothing anew"
        )


def at_steps(results: SweepResults, steps: Mapping[str, int]) -> SweepResults:
    """The results with these checkpoints, by name of the cell, standing for their runs; cells that
    are not named keep their last one. ValueError for one that is not evaluated."""
    points = [
        _at(results, point, steps[point.label]) if point.label in steps else point
        for point in results.points
    ]
    return replace(results, checkpoints=tuple(points))


def _at(results: SweepResults, point: PointResult, step: int) -> PointResult:
    for checkpoint in point.checkpoints:
        if checkpoint.step == step:
            return point.at(checkpoint)
    evaluated = [checkpoint.step for checkpoint in point.checkpoints]
    train = results.train
    saved = saved_steps(steps=train["steps"], save_every=train["save_every"])
    wanted = ",".join(map(str, sorted({*evaluated, step})))
    more = (
        f"run the sweep again with experiment.checkpoints=[{wanted}], which trains nothing anew"
        if step in saved
        else f"evaluate another of those that a run keeps: {', '.join(map(str, saved))}"
    )
    raise ValueError(
        f"step {step} of {point.point_id} is not evaluated, only "
        f"{', '.join(map(str, evaluated))}: choose one of these, or {more}"
    )


def deciding(results: Results) -> list[str]:
    """The benchmarks that a choice of checkpoints goes by: those in domain, all where none is."""
    return results.domains.get("in-domain") or results.benchmarks


def choose(
    results: SweepResults, scores: Mapping[str, Mapping[At, Scores]], rule: str
) -> list[Checkpoint]:
    """Every checkpoint that may be chosen, by cell and rising step, and which one the rule chooses.

    Under `paper` and `held-out` a focal cell may cost as much as the chosen checkpoint of its base
    algorithm at the same N, if that was run; `held-out` judges by the problems of
    fgrpo_bench.stats.selection.is_for_selection alone. ValueError where none is within that.
    """
    cells: dict[Cell, list[PointResult]] = {}
    for point in results.points:
        if point.cell is not None:
            cells.setdefault(point.cell, []).append(point)
    rows: dict[Cell, list[Checkpoint]] = {}
    for cell, points in sorted(cells.items(), key=lambda entry: entry[0].focal_gamma):
        candidates = _candidates(results, scores, cell.name, points, half=rule == HELD_OUT)
        base = rows.get(cell.unweighted, []) if cell.focal_gamma else []
        budget = next((row.rollouts for row in base if row.is_chosen), None)
        chosen = points[0].step
        if rule in (PAPER, HELD_OUT) and candidates:
            candidate = best(candidates, budget=budget)
            if candidate is None:
                raise ValueError(
                    f"{points[0].point_id} has no evaluated checkpoint within the {budget:,.0f} "
                    "rollouts of the chosen one of its base algorithm: evaluate earlier ones with "
                    "experiment.checkpoints=every"
                )
            chosen = candidate.step
        elif rule.startswith(STEP):
            chosen = int(rule.removeprefix(STEP))
        rows[cell] = [
            Checkpoint(
                cell=cell.name,
                step=each.step,
                is_chosen=each.step == chosen,
                rollouts=each.cost,
                pass_at_1=each.score,
                budget=budget if rule in (PAPER, HELD_OUT) else None,
            )
            for each in candidates
        ]
    return [row for cell in cells for row in rows[cell]]


def _candidates(
    results: SweepResults,
    scores: Mapping[str, Mapping[At, Scores]],
    name: str,
    points: Sequence[PointResult],
    *,
    half: bool,
) -> list[Candidate]:
    """The checkpoints of a cell that all its finished runs have evaluated, by rising step."""
    trained = [point for point in points if point.is_trained]
    metrics = [point.metrics() for point in trained]
    benchmarks = deciding(results)
    out = []
    for step in sorted({checkpoint.step for point in trained for checkpoint in point.checkpoints}):
        own = [scores[benchmark][name, step] for benchmark in benchmarks]
        if any(len(each.seeds) < len(trained) for each in own):
            continue
        halves = [each.half(for_selection=True) if half else each for each in own]
        out.append(
            Candidate(
                step=step,
                cost=float(np.mean([_rollouts(frame, step) for frame in metrics])),
                score=float(np.mean([_pass_at_1(each) for each in halves])),
            )
        )
    return out


def _rollouts(metrics: pl.DataFrame, step: int) -> float:
    return float(metrics.filter(pl.col("step") <= step)["rollouts"].max() or 0)  # type: ignore[arg-type]


def _pass_at_1(scores: Scores) -> float:
    """Mean over seeds, and over the problems of each that have a judged draw; 0 where none has."""
    rates = scores.success_rates()
    judged = ~np.isnan(rates)
    sums = np.where(judged, rates, 0.0).sum(axis=1)
    return float(np.mean(sums / np.maximum(judged.sum(axis=1), 1)))


def rule_in_words(results: Results, rule: str) -> str:
    """What stands below every table: which checkpoint of every run it is about."""
    if results.sweep is None:
        return "as they were given"
    benchmark = "in-domain benchmark" if "in-domain" in results.domains else "benchmark"
    best_of = (
        f"each base algorithm's best by mean pass@1 over {benchmark}s and seeds, then the "
        "best focal one of no more rollouts"
    )
    match rule:
        case "last":
            return "the last one of every run"
        case "paper":
            return (
                f"{best_of}; chosen on the benchmarks that are reported, as the paper does, which "
                "flatters every row"
            )
        case "held-out":
            return (
                f"{best_of}; chosen on one half of the problems of each {benchmark}, whose "
                "other half alone is reported; the same training runs choose and report, so the "
                "luck of the seeds stays in every row"
            )
    return f"step {rule.partition('=')[2]} of every run"
