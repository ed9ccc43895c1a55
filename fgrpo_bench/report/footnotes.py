"""What stands below every table of pass@k: checkpoints, draws, graders, and what is open."""

from __future__ import annotations

from collections.abc import Sequence

from fgrpo_bench.documents.numbers import percent
from fgrpo_bench.documents.table import Value
from fgrpo_bench.graders.choice import guessing_floor
from fgrpo_bench.report.selected import rule_in_words
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.verdict import engines

RULE = "Checkpoints: "
"""How the note begins that names the rule."""
BOLD = (Value(text="bold", best=True), "best of the trained models in its column")
"""What bold means, for a legend."""
SHOWN = 8
"""Most cells that a footnote names."""


def footnotes(summary: Summary, cells: Sequence[Cell], benchmarks: Sequence[str]) -> list[str]:
    """Facts below a table of these cells and benchmarks."""
    scores = [summary.scores[benchmark, cell] for benchmark in benchmarks for cell in cells]
    sizes = sorted({each.n_samples for each in scores if each.n_samples is not None})
    known = [v for benchmark in benchmarks for v in summary.graders_of.get(benchmark, ())]
    graders = ", ".join(dict.fromkeys(known)) or "none yet"
    draws = " or ".join(map(str, sizes)) or "no"
    rule = rule_in_words(summary.results)
    facts = f"{RULE}{rule}. {draws} draws a problem. Grader: {graders}."
    return [
        facts,
        *_guessed(summary, benchmarks),
        *_unfinished(summary, cells, benchmarks),
        *_unscored(summary, cells, benchmarks),
        *engines(summary),
    ]


def _guessed(summary: Summary, benchmarks: Sequence[str]) -> list[str]:
    """What guessing alone gives on benchmarks whose problems have choices."""
    graders = {name: of["grader"] for name, of in summary.results.evaluation["benchmarks"].items()}
    floors = ", ".join(f"pass@{k} {percent(guessing_floor(k))}" for k in summary.ks)
    return [f"{b} by guessing alone: {floors}." for b in benchmarks if graders[b] == "choice"]


def is_incomplete(summary: Summary, cell: Cell, column: str, end: int) -> bool:
    """Whether a value is of fewer seeds, draws or problems than were planned."""
    benchmarks = summary.averages.get(column, (column,))
    return any(lacks(summary, cell, benchmark, end) for benchmark in benchmarks)


def lacks(summary: Summary, cell: Cell, benchmark: str, end: int) -> list[str]:
    """What a value has too few of, e.g. `2 of 3 seeds`; empty where it has all or is none."""
    scores, planned = summary.scores[benchmark, cell], summary.planned[cell]
    wanted = int(summary.results.evaluation["n_samples"])
    problems, n = scores.estimates[end].n_problems, scores.values.shape[1]
    found = [
        (len(scores.seeds), planned, "seeds"),
        (scores.n_samples or wanted, wanted, "draws"),
        (problems, n, "problems"),
    ]
    if not scores.seeds:
        return []
    return [f"{have} of {want} {what}" for have, want, what in found if have < want]


def _unfinished(summary: Summary, cells: Sequence[Cell], benchmarks: Sequence[str]) -> list[str]:
    """Which values have a dagger or are dashes, and why; empty where none is."""
    ks, found = summary.ks, dict[str, list[str]]()
    for benchmark in benchmarks:
        for cell in cells:
            lacking: dict[str, list[int]] = {}
            for end, k in enumerate(ks):
                for what in lacks(summary, cell, benchmark, end):
                    lacking.setdefault(what, []).append(k)
            where = f"{cell.label} on {benchmark}" if len(benchmarks) > 1 else cell.label
            for what, of in lacking.items():
                at = "" if len(of) == len(ks) else f" at k = {', '.join(map(str, of))}"
                found.setdefault(what, []).append(f"{where}{at}")
    return [f"Incomplete, {what}: {_some(who)}." for what, who in found.items()]


def _unscored(summary: Summary, cells: Sequence[Cell], benchmarks: Sequence[str]) -> list[str]:
    """What draws that could not be judged leave open of the values at the ends."""
    open_ones = []
    for benchmark in benchmarks:
        for cell in cells:
            scores = summary.scores[benchmark, cell]
            for end in sorted({0, len(summary.ks) - 1}):
                bounds = scores.bounds[end]
                low, high = map(percent, bounds) if bounds else ("", "")
                if low != high:
                    where = f" on {benchmark}" if len(benchmarks) > 1 else ""
                    open_ones.append(
                        f"{cell.label}{where}, pass@{summary.ks[end]}: {low} to {high}"
                        f" ({scores.unscored:.2%})"
                    )
    if not open_ones:
        return []
    return [
        "Draws that could not be judged are left out; were all of them wrong or all right, the "
        f"values would be (share of such draws): {_some(open_ones, '; ')}."
    ]


def _some(names: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
