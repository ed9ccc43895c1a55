"""Focal weight at a small N against the base algorithm at another N, at the same rollouts.

Where every cell gets equal prompts a step, a larger N costs more, and comparing the ends of runs
compares budgets too. Earlier checkpoints of the dearer run make the comparison fair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fgrpo_bench.intervals import Estimate, estimate
from fgrpo_bench.report.footnotes import RULE
from fgrpo_bench.report.selected import candidates
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.tables import Table, with_interval
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.selection import Candidate, within_budget

NEAR = 0.01
"""Runs whose rollouts differ by no more than this share cost the same; the other tables compare
them already."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """Two cells at the latest evaluated checkpoints within the smaller of their budgets."""

    new: Cell
    """With focal weight."""
    old: Cell
    """The base algorithm at another N."""
    new_at: Candidate
    old_at: Candidate


def matches(summary: Summary) -> Iterator[Match]:
    """Every focal cell with every base cell of its algorithm that cost otherwise."""
    in_domain = summary.results.domains.get("in-domain") or summary.results.benchmarks
    pairs = [
        (new, old)
        for new in summary.cells
        for old in summary.cells
        if new.focal_gamma and old.focal_gamma == 0
        if new.algorithm == old.algorithm and new.group_size != old.group_size
    ]
    cells = dict.fromkeys(cell for pair in pairs for cell in pair)
    found = {cell: candidates(_runs(summary.results, cell), in_domain) for cell in cells}
    for new, old in pairs:
        if not found[new] or not found[old]:
            continue
        ends = found[new][-1].cost, found[old][-1].cost
        if max(ends) - min(ends) <= NEAR * max(ends):
            continue
        first, second = (within_budget(found[cell], min(ends)) for cell in (new, old))
        if first is not None and second is not None:
            yield Match(new=new, old=old, new_at=first, old_at=second)


def _runs(results: SweepResults, cell: Cell) -> list[PointResult]:
    key = (cell.algorithm, cell.group_size, cell.focal_gamma)
    return [point for point in results.points if point.cell == key]


def difference(summary: Summary, match: Match, benchmark: str) -> list[Estimate]:
    """New minus old, paired over problems and seeds, for every k; empty without a common seed."""
    at = {match.new: match.new_at.step, match.old: match.old_at.step}
    points = [
        point.at(checkpoint)
        for cell, step in at.items()
        for point in _runs(summary.results, cell)
        for checkpoint in point.checkpoints
        if checkpoint.step == step
    ]
    new, old = (
        found.scores[benchmark, cell]
        for found in [summarise(replace(summary.results, points=tuple(points)))]
        for cell in found.cells
    )
    seeds = [seed for seed in new.seeds if seed in old.seeds]
    if not seeds:
        return []
    return estimate(new.of_seeds(seeds).values - old.of_seeds(seeds).values)


def equal_budget_table(summary: Summary, benchmark: str) -> Table:
    """A row a match; no rows where all runs cost the same or the dear ones have one checkpoint."""
    ends = sorted({0, len(summary.ks) - 1})
    rows = []
    for match in matches(summary):
        found = difference(summary, match, benchmark)
        if found:
            rows.append(
                (
                    f"{match.new.label} against {match.old.label}",
                    *(f"{at.cost:,.0f}" for at in (match.new_at, match.old_at)),
                    *(str(at.step) for at in (match.new_at, match.old_at)),
                    *(with_interval(found[end]) for end in ends),
                )
            )
    return Table(
        title=f"{benchmark}: at equal rollouts, differences in percentage points",
        header=(
            *("comparison", "rollouts", "of the other", "step", "of the other"),
            *(f"pass@{summary.ks[end]}" for end in ends),
        ),
        rows=tuple(rows),
        notes=(
            f"{RULE}of each run the latest evaluated one within the rollouts of the cheaper of the "
            "two; `experiment.checkpoints=every` gives more to choose from.",
        ),
    )
