"""The words of a report, as blocks: what was held equal, what is missing, the question and its
answer. Written once; a terminal, Markdown, HTML and MLflow render them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis import GRID, INCONCLUSIVE, LEVEL, ROBUST, SUGGESTIVE, Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import Comparison, FirstLoss
from fgrpo_bench.documents.blocks import Block, Heading, Line, Outline, Paragraph
from fgrpo_bench.documents.numbers import difference, points
from fgrpo_bench.report.answer import answer
from fgrpo_bench.report.footnotes import listed, redeclared

LISTED = 8
"""Longest list that is written out."""
LISTED_AGAINST_BASE = 4
"""The same against the base models, where the cells mostly agree."""


def heading(analysis: Analysis) -> str:
    """The first line: which sweep, and what every cell gets the same of; else which labels."""
    if (sweep := analysis.results.sweep) is None:
        labels = listed([cell.label for cell in analysis.by_cell.values()], LISTED)
        return f"{labels} on {listed(analysis.results.benchmarks, LISTED)}"
    train, paths = sweep.train, sweep.paths
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
    return f"{paths.sweep} on {paths.experiment} {paths.version}, {train['budget']}: {equal}"


def narrative(analysis: Analysis) -> list[Block]:
    """Everything below the heading that stands before the tables."""
    return [*answered(analysis), *explained(analysis)]


def explained(analysis: Analysis) -> list[Block]:
    """What the answer rests on: budget, question, differences, and all k at once."""
    sections, over_k = tuple(effects(analysis)), tuple(all_k_at_once(analysis))
    return [
        *([] if analysis.results.sweep is None else _declared(analysis)),
        Heading(text="Differences"),
        Paragraph(text=legend(analysis)),
        *([Outline(sections=sections)] if sections else []),
        Paragraph(text=f"{counted(analysis)} {seeds_caveat(analysis)}"),
        *([Heading(text="Over all k at once")] if over_k else []),
        *([Paragraph(text=band_legend())] if over_k else []),
        *([Outline(sections=over_k)] if over_k else []),
    ]


def answered(analysis: Analysis) -> list[Block]:
    """What stands first in every view: the answer below its question, and what is missing."""
    first, *sentences = answer(analysis)
    missing = incomplete(analysis)
    return [
        Heading(text=first),
        *([Paragraph(text=" ".join(sentences))] if sentences else []),
        *([Paragraph(text=missing, strong=True)] if missing else []),
    ]


def _declared(analysis: Analysis) -> list[Block]:
    """What a sweep holds equal, and what it asks."""
    return [
        Paragraph(text=budget(analysis)),
        Heading(text="Question"),
        Paragraph(text=analysis.results.of_sweep().question),
    ]


def budget(analysis: Analysis) -> str:
    """A sweep's budget in numbers, and how it stands to the paper's."""
    train, cells = analysis.results.of_sweep().train, analysis.by_cell.values()
    sizes = sorted({cell.group_size for cell in cells if cell.group_size is not None})
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


def incomplete(analysis: Analysis) -> str | None:
    """What is missing; None where every planned point has its results."""
    missing = [f"{point_id} ({lacks})" for point_id, lacks in analysis.missing]
    if not missing:
        return None
    n = len(analysis.results.checkpoints)
    return (
        f"INCOMPLETE: {n - len(missing)} of {n} {analysis.noun} have results. Missing: "
        f"{listed(missing, LISTED)}. Everything below is about the {analysis.noun} that are done."
    )


def legend(analysis: Analysis) -> str:
    """What the lines of the differences mean."""
    robust = (
        f"{ROBUST.capitalize()}: holds after Holm's correction over the question's comparisons "
        f"({analysis.family}); "
        if analysis.has_family
        else f"{NOTHING_CORRECTED} In these lines "
    )
    words = (
        "Differences in percentage points [95% interval], and how many seeds have that sign. "
        f"{robust}{SUGGESTIVE}: the interval excludes 0; {INCONCLUSIVE}: neither, which is not the "
        "same "
        "as no difference."
    )
    return " ".join((words, *redeclared(analysis)))


def effects(analysis: Analysis) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Sections: a heading, and a line for each k, verdict and direction. Averages stand for their
    benchmarks."""
    sections: dict[str, dict[int, list[Comparison]]] = {}
    for row in analysis.asked:
        if row.column in analysis.headline:
            sections.setdefault(_title(analysis, row), {}).setdefault(row.k, []).append(row)
    for title, by_k in sections.items():
        ks = sorted(by_k, reverse=True)
        yield title, tuple(line for k in ks for line in _lines(analysis, k, by_k[k]))


def _title(analysis: Analysis, row: Comparison) -> str:
    several = len(analysis.headline) > 1
    return f"{row.column}: {row.group}" if several else str(row.group)


def _lines(analysis: Analysis, k: int, rows: Sequence[Comparison]) -> Iterator[Line]:
    by_words: dict[str, list[Comparison]] = {}
    for verdict in (ROBUST, SUGGESTIVE, INCONCLUSIVE):
        own = [row for row in rows if row.verdict == verdict]
        for row in sorted(own, key=lambda row: row.difference < 0):
            direction = (
                "" if verdict == INCONCLUSIVE else " rise" if row.difference > 0 else " fall"
            )
            by_words.setdefault(f"{verdict}{direction}", []).append(row)
    for words, own in by_words.items():
        share = f" in {len(own)} of {len(rows)}" if len(rows) > 1 else ""
        yield f"pass@{k}: {words}{share}", _listed(analysis, own)


def _listed(analysis: Analysis, rows: Sequence[Comparison]) -> str:
    against_base = analysis.by_cell[rows[0].old].is_base
    if len(rows) <= (LISTED_AGAINST_BASE if against_base else LISTED):
        return "; ".join(f"{row.name} ({effect(row)})" for row in rows)
    ends = sorted(row.difference for row in rows)
    return f"from {points(ends[0])} to {points(ends[-1])} (each in the table of differences)"


def effect(row: Comparison) -> str:
    """e.g. `+11.7 [+7.3, +16.4], 3 of 3 seeds`, in percentage points."""
    signed = difference(row.difference, row.low, row.high)
    return f"{signed}, {row.agreeing} of {len(row.seeds)} seeds"


def counted(analysis: Analysis) -> str:
    """How many comparisons were made, and what that does to the verdicts."""
    if not analysis.asked:
        return "No two cells can be compared yet."
    chance = "even with exact intervals about 1 in 20 would exclude 0 where there is nothing."
    if not analysis.has_family:
        n = sum(row.verdict == SUGGESTIVE for row in analysis.asked)
        return f"Of {len(analysis.asked)} comparisons the interval of {n} excludes 0; {chance}"
    own = [row.verdict for row in analysis.asked if row.family is not None]
    others = [row.verdict for row in analysis.asked if row.family is None]
    counts = [f"{own.count(word)} {word}" for word in (ROBUST, SUGGESTIVE, INCONCLUSIVE)]
    return (
        f"Of {len(analysis.asked)} comparisons {len(own)} are the question: {', '.join(counts)}. "
        f"Of the other {len(others)} the interval of {others.count(SUGGESTIVE)} excludes 0; they "
        f"are not corrected, and {chance}"
    )


def seeds_caveat(analysis: Analysis) -> str:
    """What the intervals can and cannot say with this number of seeds."""
    n = analysis.n_seeds
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


def band_legend() -> str:
    """What the lines over all k mean."""
    return (
        "From which k on a cell loses to another: a band holds the whole curve of their "
        f"difference in {LEVEL:.0%}, over problems and seeds, at all k together ({GRID}). It is "
        "simultaneous over k, not over the pairs of cells. Better and worse are where the band "
        "excludes 0. The first loss lies between the first k whose band reaches below 0 and the "
        "first whose band is below 0 as a whole."
    )


def all_k_at_once(analysis: Analysis) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Sections: a heading, and a line a pair, of the columns that stand for all."""
    sections: dict[str, dict[str, str]] = {}
    for row in analysis.asked:
        loss = analysis.first_loss_of(row.column, row.new, row.old)
        if row.column in analysis.headline and loss is not None:
            lines = sections.setdefault(_title(analysis, row), {})
            lines[str(row.name)] = f"{loss.words}{_first(loss)}"
    for title, own in sections.items():
        yield title, tuple(own.items())


def _first(loss: FirstLoss) -> str:
    if loss.low is None or loss.high is None:  # the words say that there is none, or perhaps none
        return ""
    between = f" to {loss.high}" if loss.high > loss.low else ""
    return f"; first loss at k = {loss.low}{between}"
