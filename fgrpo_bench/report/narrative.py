"""The words around a report's tables, as blocks: what was held equal, what is missing, what each
difference is and what a verdict means, and the notes on how the numbers were made.

In: an Analysis. Out: blocks that terminal, Markdown, HTML and MLflow render. Every figure is read
from the analysis; nothing is computed here. Next: report.build, which puts them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fgrpo_bench.analysis import (
    GRID,
    INCONCLUSIVE,
    LEVEL,
    REPLICATES,
    SIGNIFICANT,
    SUGGESTIVE,
    Analysis,
)
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import Comparison, Estimate, FirstLoss
from fgrpo_bench.documents.table import (
    Block,
    Heading,
    Line,
    Notes,
    Outline,
    Paragraph,
    difference,
    points,
)
from fgrpo_bench.report.footnotes import (
    LISTED,
    draws_note,
    engines,
    listed,
    redeclared,
    remote_code,
)
from fgrpo_bench.report.words import answer

LISTED_AGAINST_BASE = 4
"""Of LISTED, against the base models, where the cells mostly agree."""


def explained(analysis: Analysis) -> list[Block]:
    """What the answer rests on: budget, question and differences."""
    sections = tuple(effects(analysis))
    return [
        *([] if analysis.results.sweep is None else _declared(analysis)),
        Heading(text="Differences"),
        Paragraph(text=legend(analysis)),
        *([Outline(sections=sections)] if sections else []),
        Paragraph(text=f"{counted(analysis)} {seeds_caveat(analysis)}"),
    ]


def over_all_k(analysis: Analysis) -> list[Block]:
    """From which k on a cell loses to another; empty where no two cells have a band."""
    sections = tuple(_all_k_at_once(analysis))
    if not sections:
        return []
    words = Paragraph(text=band_legend())
    return [Heading(text="Over all k at once"), words, Outline(sections=sections)]


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
    """What a sweep asks, and what it holds equal."""
    return [
        Heading(text="Question"),
        Paragraph(text=analysis.results.require_sweep().question),
        Paragraph(text=f"{equal(analysis)} {budget(analysis)}"),
    ]


def equal(analysis: Analysis) -> str:
    """Which sweep it is, and what all its cells get the same of."""
    sweep = analysis.results.require_sweep()
    train, paths = sweep.train, sweep.paths
    if _cell_prompts_per_step(analysis):
        cost = (
            "prompts per step are an axis of its grid, and N times as many rollouts are the cost "
            "of a step"
        )
    elif train["budget"] == "constant_rollouts":
        cost = (
            f"every cell gets {train['rollouts_per_step']} rollouts per step, so equal compute "
            "(the paper holds prompts per step constant)"
        )
    else:
        cost = (
            f"every cell gets {train['prompts_per_step']} prompts per step, so a larger N costs "
            "more (the paper's convention)"
        )
    return f"Sweep {paths.sweep}/{paths.experiment}/{paths.version}: {cost}."


def budget(analysis: Analysis) -> str:
    """A sweep's budget in numbers, and how it stands to the paper's."""
    train, cells = analysis.results.require_sweep().train, analysis.by_cell.values()
    sizes = sorted({cell.group_size for cell in cells if cell.group_size is not None})
    if prompts := _cell_prompts_per_step(analysis):
        numbers = f"Prompts per step: {', '.join(map(str, prompts))}, each with N rollouts."
        paper = (
            "A cell with a larger N or with more prompts has more rollouts, so effects of both are "
            "effects of compute too."
        )
    elif train["budget"] == "constant_rollouts":
        prompts_per_step = ", ".join(
            f"{train['rollouts_per_step'] // size} at N={size}" for size in sizes
        )
        numbers = f"Prompts per step: {prompts_per_step}."
        paper = (
            "Under the paper's convention a larger N costs more, so its curves over N answer "
            "another question than these."
        )
    else:
        prompts_per_step = ", ".join(
            f"{train['prompts_per_step'] * size} at N={size}" for size in sizes
        )
        numbers = f"Rollouts per step: {prompts_per_step}."
        paper = (
            "A cell with a larger N has more rollouts, so an effect of N is an effect of compute "
            "too."
        )
    steps = f"{train['steps']} steps, {train['updates_per_batch']} updates per rollout batch."
    sentences = [numbers, steps, *_rewarded(train), *([paper] if len(sizes) > 1 else [])]
    return " ".join(sentences)


def _cell_prompts_per_step(analysis: Analysis) -> list[int]:
    """Prompts per step of cells that do not have those of the budget, rising."""
    every = {cell.prompts_per_step for cell in analysis.by_cell.values()}
    return sorted(prompts for prompts in every if prompts is not None)


def _rewarded(train: Mapping[str, Any]) -> Iterator[str]:
    """What advantages learn from where it is not correctness alone. train: as JSON."""
    judge, buffer = train.get("reward"), train.get("overlong_buffer_tokens")
    if judge is not None:
        yield (
            f"Advantages learn from the reward {judge}; pass@k, success rates and the focal weight "
            "go by correctness."
        )
    if buffer is not None:
        yield f"The reward falls by up to 1 over the last {buffer} tokens of the longest response."


def incomplete(analysis: Analysis) -> str | None:
    """What is missing; None where every planned point has its results."""
    missing = [f"{point_id} ({lacks})" for point_id, lacks in analysis.missing]
    if not missing:
        return None
    return (
        f"INCOMPLETE: {analysis.with_results}. Missing: "
        f"{listed(missing, LISTED)}. Everything below is about the {analysis.noun} that are done."
    )


def legend(analysis: Analysis) -> str:
    """What the lines of the differences mean."""
    significant = (
        f"{SIGNIFICANT.capitalize()}: holds after Holm's correction over the question's "
        f"comparisons ({analysis.family}); "
        if analysis.has_family
        else f"{NOTHING_CORRECTED} In these lines "
    )
    words = (
        "Differences in percentage points [95% interval], and how many seeds have that sign. "
        f"{significant}{SUGGESTIVE}: the interval excludes 0; {INCONCLUSIVE}: neither, which is "
        "not the same as no difference."
    )
    return " ".join((words, *redeclared(analysis)))


def effects(analysis: Analysis) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Sections: a heading, and a line for each k, verdict and direction. Averages stand for their
    benchmarks."""
    sections: dict[str, dict[int, list[Comparison]]] = {}
    for row in _every(analysis):
        if row.column in analysis.headline:
            sections.setdefault(_title(analysis, row), {}).setdefault(row.k, []).append(row)
    for title, by_k in sections.items():
        ks = sorted(by_k, reverse=True)
        yield title, tuple(line for k in ks for line in _lines(analysis, k, by_k[k]))


def _title(analysis: Analysis, row: Comparison) -> str:
    several = len(analysis.headline) > 1
    return f"{row.column}: {row.group}" if several else str(row.group)


def _lines(analysis: Analysis, k: int, rows: Sequence[Comparison]) -> Iterator[Line]:
    by_outcome: dict[str, list[Comparison]] = {}
    for verdict in (SIGNIFICANT, SUGGESTIVE, INCONCLUSIVE):
        judged_so = [row for row in rows if row.verdict == verdict]
        for row in sorted(judged_so, key=lambda row: row.difference < 0):
            outcome = verdict
            if verdict != INCONCLUSIVE:
                outcome += " rise" if row.difference > 0 else " fall"
            by_outcome.setdefault(outcome, []).append(row)
    for outcome, with_outcome in by_outcome.items():
        share = f" in {len(with_outcome)} of {len(rows)}" if len(rows) > 1 else ""
        yield f"pass@{k}: {outcome}{share}", _listed(analysis, with_outcome)


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


def _every(analysis: Analysis) -> tuple[Comparison, ...]:
    """What is asked for, of the checkpoints that stand for runs and then at equal pass@1."""
    return (*analysis.question_rows, *analysis.on_paths)


def counted(analysis: Analysis) -> str:
    """How many comparisons were made, and what that does to the verdicts."""
    every = _every(analysis)
    if not every:
        return "No two cells can be compared yet."
    chance = "even with exact intervals about 1 in 20 would exclude 0 where there is nothing."
    if not analysis.has_family:
        n = sum(row.verdict == SUGGESTIVE for row in every)
        return f"Of {len(every)} comparisons the interval of {n} excludes 0; {chance}"
    verdicts = [row.verdict for row in every if row.family is not None]
    others = [row.verdict for row in every if row.family is None]
    counts = [f"{verdicts.count(word)} {word}" for word in (SIGNIFICANT, SUGGESTIVE, INCONCLUSIVE)]
    return (
        f"Of {len(every)} comparisons {len(verdicts)} are the question: "
        f"{', '.join(counts)}. Of the other {len(others)} the interval of "
        f"{others.count(SUGGESTIVE)} excludes 0; they are not corrected, and {chance}"
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


def _all_k_at_once(analysis: Analysis) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Sections: a heading, and a line a pair, of the columns that stand for all."""
    sections: dict[str, dict[str, str]] = {}
    for row in analysis.question_rows:
        loss = analysis.first_loss_of(row.column, row.new, row.old)
        if row.column in analysis.headline and loss is not None:
            lines = sections.setdefault(_title(analysis, row), {})
            lines[str(row.name)] = f"{loss.words}{_first(loss)}"
    for title, texts in sections.items():
        yield title, tuple(texts.items())


def _first(loss: FirstLoss) -> str:
    if loss.low is None or loss.high is None:  # the words say that there is none, or perhaps none
        return ""
    between = f" to {loss.high}" if loss.high > loss.low else ""
    return f"; first loss at k = {loss.low}{between}"


def notes(analysis: Analysis) -> Notes:
    """One fact a line."""
    sweep, evaluation = analysis.results.sweep, analysis.results.evaluation
    rows = [row for name in analysis.results.benchmarks for row in analysis.estimates_on(name)]
    seeds = sorted({seed for row in rows for seed in row.seeds if seed is not None})
    unscored = max((row.unscored for row in rows), default=0.0)
    graders = ", ".join(analysis.graders(analysis.results.benchmarks))
    lines = [
        f"{_estimator(rows)}, temperature {_number(evaluation, 'temperature')}, "
        f"top-p {_number(evaluation, 'top_p')}.",
        f"Training seeds with results: {listed(seeds, LISTED) or 'none'}. All cells of a "
        "seed start from the same base model, so differences are paired over seeds and problems; "
        '"by seed" lists them in rising order of the seeds that both cells have.',
        f"Intervals are of {LEVEL:.0%}. Their width is that of Student's t with the variance of "
        "the mean over crossed seeds and problems (mean squares) and degrees of freedom between "
        "Satterthwaite's and Banerjee's; their shape, how far they reach to either side, is that "
        "of a bootstrap that resamples problems (where these have clusters, the clusters) and "
        f"seeds independently (Owen 2007; {REPLICATES:,} replicates, a fixed seed). Near 0 and "
        "100% they leave room for one problem more than were seen (Fay and Feuer 1997).",
        "An interval without width says that nothing varied in the data, not that the value is "
        "certain.",
    ]
    corrected = (
        "p Holm bounds the chance of any false claim among the comparisons of the question "
        f"({analysis.family}), p BH the expected share of false ones; other comparisons have "
        "neither."
        if analysis.has_family
        else NOTHING_CORRECTED
    )
    if analysis.question_rows:
        lines.append(
            "p is two-sided, over problems and seeds: 1 less the level of the interval that ends "
            f"at 0. {corrected} p draws takes these models and problems as given and asks about "
            "the draws alone (unbiased variance of pass@k; needs 2k draws). It takes the draws of "
            "both cells as independent; those of one seed share their random numbers, so it is "
            "too large rather than too small."
        )
        design = analysis.results.stopping
        if design and not design.is_fixed:
            ks = sorted({row.k for row in analysis.question_rows if row.p_draws is None})
            reasons = dict.fromkeys(design.no_variance(k) for k in ks)
            lines += [f"No p draws: {reason}." for reason in reasons if reason is not None]
    return Notes(
        lines=(
            *lines,
            f"Grader: {graders or 'none yet'}. Largest share of draws that it could "
            f"not judge in a cell: {unscored:.2%} (left out of n and c).",
            *engines(analysis),
            *remote_code(analysis),
            *([] if sweep is None else _model_and_code(sweep)),
        )
    )


def _number(evaluation: Mapping[str, Any], name: str) -> str:
    """A setting of the draws, which checkpoints without a sweep may differ in."""
    return f"{evaluation[name]:g}" if name in evaluation else "of each evaluation's own"


def _model_and_code(sweep: SweepResults) -> tuple[str, str]:
    """What was trained, with which code, and what its costs are of."""
    record = sweep.record
    state = " with uncommitted changes" if record.git_dirty else ""
    versions = ", ".join(f"{name} {n}" for name, n in record.versions.items())
    return (
        f"Model: {sweep.model}. Code: git commit {record.git_commit}{state}; {versions}.",
        "CPU-seconds are those of a stage's last attempt; one that was stopped and continued cost "
        "more.",
    )


def _estimator(rows: Sequence[Estimate]) -> str:
    """What pass@k is computed by, and from how many draws."""
    usual = "1 - C(n - c, k) / C(n, k), with n draws of which c are correct (Chen et al. 2021)"
    if not any(row.designs for row in rows):
        sizes = sorted({row.n_samples for row in rows if row.n_samples is not None})
        return (
            f"pass@k is the mean over problems of {usual}; n = {listed(sizes, LISTED) or 'unknown'}"
        )
    return (
        "pass@k is the mean over problems of 1 - W_k / W, with W the sequences of correct and "
        "wrong draws that end where the problem stopped, and W_k those of them whose first k are "
        "wrong, which is unbiased at every k (Girshick, Mosteller and Savage 1946; of a fixed "
        f"number of draws it is {usual}). {draws_note(rows).removesuffix('.')}"
    )
