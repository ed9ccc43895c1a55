"""Choosing the checkpoint that stands for each run, before anything is summarised.

A rule chooses for a cell, by its mean over seeds, so that all runs of a table row have equal steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import polars as pl

from fgrpo_bench.documents.numbers import percent
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stats.selection import Candidate, best, is_for_selection, saved_steps

LAST, PAPER, HELD_OUT, STEP = "last", "paper", "held-out", "step="
RULES = (LAST, PAPER, HELD_OUT, f"{STEP}<step>")
"""What `--select` takes."""

CellKey = tuple[str | None, int | None, float | None]
"""PointResult.cell."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The checkpoint of a cell and those that it was chosen from."""

    cell: CellKey
    method: str
    step: int
    candidates: tuple[Candidate, ...]
    """By rising step; a score is the mean over seeds and in-domain benchmarks."""
    budget: float | None
    """Rollouts that it may cost; None where nothing limits it."""

    @property
    def candidate(self) -> Candidate:
        """The one that was chosen."""
        return next(one for one in self.candidates if one.step == self.step)


def select(results: SweepResults, rule: str) -> SweepResults:
    """The results with the checkpoints that a rule of RULES chooses.

    Under `held-out` the in-domain benchmarks keep the problems alone that chose nothing. Raises
    ValueError for what is no rule, and where there is nothing to choose from.
    """
    if rule == LAST:
        return results
    if re.fullmatch(rf"{STEP}\d+", rule):
        return _at_steps(results, rule, dict.fromkeys(_cells(results), int(rule.partition("=")[2])))
    if rule not in (PAPER, HELD_OUT):
        raise ValueError(f"--select {rule} is no rule: choose {', '.join(RULES)}")
    if all(len(point.checkpoints) == 1 for point in results.points):
        raise ValueError(
            f"--select {rule} needs several checkpoints of a run, and this sweep evaluates one of "
            "each: run it again with experiment.checkpoints=every, which trains nothing anew"
        )
    steps = {one.cell: one.step for one in choose(results, half=rule == HELD_OUT)}
    chosen = _at_steps(results, rule, steps)
    if rule == PAPER:
        return chosen
    halved = tuple(results.domains["in-domain"])
    return replace(chosen, points=tuple(replace(each, halved=halved) for each in chosen.points))


def _at_steps(results: SweepResults, rule: str, steps: dict[CellKey, int]) -> SweepResults:
    """Cells that are not named keep their last checkpoint."""
    points = [
        _at(results, point, steps[point.cell]) if point.cell in steps else point
        for point in results.points
    ]
    return replace(results, points=tuple(points), rule=rule)


def _at(results: SweepResults, point: PointResult, step: int) -> PointResult:
    for checkpoint in point.checkpoints:
        if checkpoint.step == step:
            return point.at(checkpoint)
    evaluated = [checkpoint.step for checkpoint in point.checkpoints]
    train = results.declaration["declaration"]["experiment"]["train"]
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


def _cells(results: SweepResults) -> dict[CellKey, list[PointResult]]:
    """The runs of every trained cell."""
    cells: dict[CellKey, list[PointResult]] = {}
    for point in results.points:
        if point.algorithm is not None:
            cells.setdefault(point.cell, []).append(point)
    return cells


def choose(results: SweepResults, *, half: bool) -> list[Chosen]:
    """The paper's choice for every trained cell that has results.

    half: judge by the problems of fgrpo_bench.stats.selection.is_for_selection alone. A focal cell
    may cost as much as the chosen checkpoint of its base algorithm at the same N, if that was run.
    """
    cells, found = _cells(results), dict[CellKey, Chosen]()
    for cell in sorted(cells, key=lambda cell: cell[2] or 0.0):  # base algorithms come first
        points = cells[cell]
        open_to = candidates(points, results.domains["in-domain"], half=half)
        base = found.get((cell[0], cell[1], 0.0)) if cell[2] else None
        budget = None if base is None else base.candidate.cost
        if not open_to:
            continue
        one = best(open_to, budget=budget)
        if one is None:
            raise ValueError(
                f"{points[0].point_id} has no evaluated checkpoint within the {budget:,.0f} "
                "rollouts of the chosen one of its base algorithm: evaluate earlier ones with "
                "experiment.checkpoints=every"
            )
        found[cell] = Chosen(
            cell=cell,
            method=points[0].method,
            step=one.step,
            candidates=tuple(open_to),
            budget=budget,
        )
    return [found[cell] for cell in cells if cell in found]


def candidates(
    points: Sequence[PointResult], benchmarks: Sequence[str], *, half: bool = False
) -> list[Candidate]:
    """The checkpoints of a cell that all its finished runs have evaluated, by rising step."""
    trained = [point for point in points if point.is_trained]
    by_step: dict[int, list[PointResult]] = {}
    for point in trained:
        for checkpoint in point.checkpoints:
            at = point.at(checkpoint)
            if at.is_evaluated:
                by_step.setdefault(checkpoint.step, []).append(at)
    return [
        Candidate(
            step=step,
            cost=fmean(map(rollouts, of_step)),
            score=fmean(_pass_at_1(at, name, half=half) for at in of_step for name in benchmarks),
        )
        for step, of_step in sorted(by_step.items())
        if len(of_step) == len(trained)
    ]


def rollouts(point: PointResult) -> float:
    """Rollouts of training behind the checkpoint that stands for a run."""
    metrics = point.metrics().filter(pl.col("step") <= point.step)
    return float(metrics["rollouts"].max() or 0)  # type: ignore[arg-type]


def _pass_at_1(point: PointResult, benchmark: str, *, half: bool) -> float:
    """Mean over the problems that have a judged draw; 0 where none has."""
    counts = (
        replace(point, halved=())
        .passk(benchmark)
        .unique("problem_id")
        .filter(pl.col("n_scored") > 0)
    )
    if half:
        names = [name for name in counts["problem_id"] if is_for_selection(name)]
        counts = counts.filter(pl.col("problem_id").is_in(names))
    return float((counts["n_correct"] / counts["n_scored"]).mean() or 0.0)  # type: ignore[arg-type]


def rule_in_words(results: SweepResults) -> str:
    """What stands below every table: which checkpoint of every run it is about."""
    best_of = (
        "each base algorithm's best by mean pass@1 over in-domain benchmarks and seeds, then the "
        "best focal one of no more rollouts"
    )
    match results.rule:
        case "last":
            return "the last one of every run"
        case "paper":
            return (
                f"{best_of}; chosen on the benchmarks that are reported, as the paper does, which "
                "flatters every row"
            )
        case "held-out":
            return (
                f"{best_of}; chosen on one half of the problems of each in-domain benchmark, whose "
                "other half alone is reported"
            )
    return f"step {results.rule.partition('=')[2]} of every run"


def selection_table(results: SweepResults) -> Table | None:
    """The checkpoint of every cell and what it was chosen from; None where nothing was chosen."""
    if results.rule not in (PAPER, HELD_OUT):
        return None
    rows = []
    for one in choose(results, half=results.rule == HELD_OUT):
        _, group_size, focal_gamma = one.cell
        scores = ", ".join(f"{each.step}: {percent(each.score)}" for each in one.candidates)
        rows.append(
            (
                *(one.method, str(group_size), f"{focal_gamma:g}", str(one.step)),
                f"{one.candidate.cost:,.0f}",
                NONE if one.budget is None else f"{one.budget:,.0f}",
                scores,
            )
        )
    return Table(
        title="Checkpoints",
        header=("method", "N", "gamma", "step", "rollouts", "at most", "pass@1 by step, percent"),
        rows=tuple(rows),
    )
