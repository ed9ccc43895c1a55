"""The words of the report: what was held equal, what is missing, what is shown and what is not.

Plain text, rendered as it is in a terminal and escaped into Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrpo_bench.documents.blocks import Line
from fgrpo_bench.documents.numbers import difference as signed
from fgrpo_bench.documents.numbers import points
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.summary import Summary

EFFECTS = "Differences in percentage points [95% interval], and how many seeds have that sign"
LISTED = 8
"""Longest list that is written out."""
LISTED_AGAINST_BASE = 4
"""The same against the base models, where the cells mostly agree."""


def heading(summary: Summary) -> str:
    """The first line: which sweep, and what every cell gets the same of."""
    train = summary.train
    if train["budget"] == "constant_rollouts":
        equal = (
            f"every cell gets {train['rollouts_per_step']} rollouts a step, so equal compute "
            "(the paper holds prompts a step constant)"
        )
    else:
        equal = (
            f"every cell gets {train['prompts_per_step']} prompts a step, so a larger N costs more "
            "(the paper's convention)"
        )
    paths = summary.results.paths
    return f"{paths.sweep} on {paths.experiment} {paths.version}, {train['budget']}: {equal}"


def budget(summary: Summary) -> str:
    """The budget in numbers, and how it stands to the paper's."""
    train = summary.train
    sizes = sorted({cell.group_size for cell in summary.cells if cell.group_size is not None})
    if train["budget"] == "constant_rollouts":
        each = ", ".join(f"{train['rollouts_per_step'] // size} at N={size}" for size in sizes)
        numbers = f"Prompts a step: {each}."
        paper = (
            "Under the paper's convention a larger N costs more, so its curves over N answer "
            "another question than these."
        )
    else:
        each = ", ".join(f"{train['prompts_per_step'] * size} at N={size}" for size in sizes)
        numbers = f"Rollouts a step: {each}."
        paper = (
            "A cell with a larger N has more rollouts, so an effect of N is an effect of compute "
            "too."
        )
    steps = f"{train['steps']} steps, {train['updates_per_batch']} updates a rollout batch."
    return f"{numbers} {steps} {paper}" if len(sizes) > 1 else f"{numbers} {steps}"


def incomplete(summary: Summary) -> str | None:
    """What is missing; None where every planned point has its results."""
    if not summary.missing:
        return None
    n = len(summary.results.points)
    named = [f"{point.point_id} ({point.lacks})" for point in summary.missing]
    return (
        f"INCOMPLETE: {n - len(named)} of {n} points have results. Missing: {_listing(named)}. "
        "Everything below is about the points that are done."
    )


def answer(summary: Summary, comparisons: Sequence[Comparison]) -> list[tuple[str, list[Line]]]:
    """Sections of the answer: a heading and a line for each k and direction. Averages stand for
    their benchmarks."""
    sections: dict[str, dict[int, list[Comparison]]] = {}
    several = len(summary.headline) > 1
    for one in comparisons:
        if one.benchmark not in summary.headline:
            continue
        title = f"{one.benchmark}: {one.pair.group}" if several else one.pair.group
        sections.setdefault(title, {}).setdefault(one.k, []).append(one)
    return [
        (title, [line for k in sorted(by_k, reverse=True) for line in _directions(k, by_k[k])])
        for title, by_k in sections.items()
    ]


def _directions(k: int, comparisons: Sequence[Comparison]) -> list[Line]:
    mean = {id(one): one.difference.mean or 0.0 for one in comparisons}
    rises = [one for one in comparisons if one.shown and mean[id(one)] > 0]
    falls = [one for one in comparisons if one.shown and mean[id(one)] < 0]
    rest = [one for one in comparisons if not one.shown]
    lines = []
    for words, group in (("rise shown", rises), ("fall shown", falls), ("not shown", rest)):
        if group:
            share = f" in {len(group)} of {len(comparisons)}" if len(comparisons) > 1 else ""
            lines.append((f"pass@{k}: {words}{share}", _effects(group)))
    return lines


def _effects(comparisons: Sequence[Comparison]) -> str:
    against_base = comparisons[0].pair.old.is_base
    if len(comparisons) <= (LISTED_AGAINST_BASE if against_base else LISTED):
        return "; ".join(f"{one.pair.name} ({difference(one)})" for one in comparisons)
    means = sorted(one.difference.mean or 0.0 for one in comparisons)
    return f"from {points(means[0])} to {points(means[-1])} (each in the table of differences)"


def difference(one: Comparison) -> str:
    """e.g. `+11.7 [+7.3, +16.4], 3 of 3 seeds`, in percentage points."""
    d = one.difference
    return f"{signed(d.mean, d.low, d.high)}, {one.agreeing} of {len(one.seeds)} seeds"


def counted(comparisons: Sequence[Comparison]) -> str:
    """How many comparisons were made, and what that does to the word `shown`."""
    m = len(comparisons)
    if m == 0:
        return "No two cells can be compared yet."
    kept = sum(one.shown_corrected for one in comparisons)
    shown = sum(one.shown for one in comparisons)
    return (
        f'{m} comparisons were made, and the word "shown" is not corrected for that: even with '
        "exact intervals about 1 in 20 would be shown where there is nothing. "
        f"Shown: {shown}; also after Holm's correction over {m}: {kept}."
    )


def seeds_caveat(summary: Summary) -> str:
    """What the intervals can and cannot say with this number of seeds."""
    n = summary.n_seeds
    if n <= 1:
        return (
            "One training seed: the intervals are over problems only and say nothing about another "
            "training run."
        )
    degrees = "1 degree" if n == 2 else f"{n - 1} degrees"
    far = " A third seed narrows them by far." if n == 2 else ""
    return (
        f"The intervals are over problems and {n} training seeds, and as wide as {n} seeds demand: "
        "where seeds differ as wholes, Student's t with "
        f"{degrees} of freedom. Where they are wide, more seeds would "
        f"narrow them, and the differences of the single seeds stand beside them.{far}"
    )


def _listing(names: Sequence[str]) -> str:
    if len(names) <= LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"
