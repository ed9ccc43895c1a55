"""Focal weight at a small N against the base algorithm at another N, at the same rollouts.

Where every cell gets equal prompts a step, a larger N costs more, and comparing the ends of runs
compares budgets too. Earlier checkpoints of the dearer run make the comparison fair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fgrpo_bench.documents.numbers import difference, p_value
from fgrpo_bench.documents.table import Table
from fgrpo_bench.report.footnotes import RULE
from fgrpo_bench.report.selected import candidates
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.stats.intervals import (
    DIFFERENCES,
    Estimate,
    Resampled,
    average,
    conclude,
    resample,
)
from fgrpo_bench.stats.multiplicity import holm
from fgrpo_bench.stats.selection import Candidate, within_budget

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


def differences(summary: Summary, match: Match) -> dict[str, list[Estimate]]:
    """New minus old for every k, paired over problems and seeds, by benchmark and average; without
    those on which the two have no seed in common."""
    at = {match.new: match.new_at.step, match.old: match.old_at.step}
    points = [
        point.at(checkpoint)
        for cell, step in at.items()
        for point in _runs(summary.results, cell)
        for checkpoint in point.checkpoints
        if checkpoint.step == step
    ]
    found = summarise(replace(summary.results, points=tuple(points)))
    parts: dict[str, tuple[tuple[int, ...], Resampled]] = {}
    for stream, benchmark in enumerate(summary.results.benchmarks):
        new, old = (found.scores[benchmark, cell] for cell in found.cells)
        seeds = tuple(seed for seed in new.seeds if seed in old.seeds)
        if seeds:
            paired = new.of_seeds(seeds).values - old.of_seeds(seeds).values
            parts[benchmark] = seeds, resample(paired, limits=DIFFERENCES, stream=stream)
    made = {name: conclude(resampled) for name, (_, resampled) in parts.items()}
    for title, names in summary.averages.items():
        own = [parts[name] for name in names if name in parts]
        if len(own) == len(names) and len({seeds for seeds, _ in own}) == 1:
            made[title] = conclude(average([resampled for _, resampled in own]))
    return made


def equal_budget_tables(summary: Summary) -> list[Table]:
    """A table an average and a benchmark with a row a match; none where all runs cost the same or
    the dear ones have one checkpoint."""
    found = [(match, differences(summary, match)) for match in matches(summary)]
    made = {
        column: [(match, by_column[column]) for match, by_column in found if column in by_column]
        for column in summary.columns
    }
    return [_table(summary, column, compared) for column, compared in made.items() if compared]


def _table(
    summary: Summary, column: str, compared: Sequence[tuple[Match, list[Estimate]]]
) -> Table:
    ends = sorted({0, len(summary.ks) - 1})
    p = {(i, end): each[end].p_value for i, (_, each) in enumerate(compared) for end in ends}
    known = {where: value for where, value in p.items() if value is not None}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    return Table(
        title=f"{column}: at equal rollouts, differences in percentage points",
        header=(
            *("comparison", "rollouts", "of the other", "step", "of the other"),
            *(words for end in ends for words in (f"pass@{summary.ks[end]}", "p Holm")),
        ),
        rows=tuple(
            (
                f"{match.new.label} against {match.old.label}",
                *(f"{at.cost:,.0f}" for at in (match.new_at, match.old_at)),
                *(str(at.step) for at in (match.new_at, match.old_at)),
                *(
                    words
                    for end in ends
                    for words in (
                        difference(each[end].mean, each[end].low, each[end].high),
                        p_value(corrected.get((i, end))),
                    )
                ),
            )
            for i, (match, each) in enumerate(compared)
        ),
        notes=(
            f"{RULE}of each run the latest evaluated one within the rollouts of the cheaper of the "
            "two; `experiment.checkpoints=every` gives more to choose from.",
            f"Over problems and the seeds that both have, with 95% intervals; p Holm is corrected "
            f"over the {len(known)} differences of this table.",
        ),
    )
