"""The words of a report, as blocks; written once, rendered by terminal, Markdown, HTML and MLflow.

In: an Analysis. Out: the answer to the sweep's question in a sentence or two, which every view
shows first; the narrative around the tables (what was held equal, what is missing, what a verdict
means); and the notes on how the numbers were made. Every figure and verdict is read from the
analysis; nothing is computed here. Next: report.build, which puts them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fgrpo_bench.analysis import GRID, INCONCLUSIVE, LEVEL, REPLICATES, ROBUST, SUGGESTIVE, Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import Comparison, EqualPassAt1, Estimate, FirstLoss, PathRange
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
from fgrpo_bench.report.footnotes import LISTED, draws_made, engines, listed, redeclared

NAMED = 3
"""Most comparisons of one verdict that are named; of more the rest is counted."""
COLUMNS = 2
"""Most benchmarks and averages that are told; of more the rest is counted."""
SURE = {ROBUST: "robust after correction", SUGGESTIVE: "suggestive, not after correction"}


def answer(analysis: Analysis) -> list[str]:
    """Sentences: what the sweep's declared family asks of the numbers, as a question, then what
    they say, at the largest k first. One alone where no two cells can be compared yet."""
    if analysis.at_equal_pass_at_1 and (analysis.on_paths or analysis.off_paths):
        return [*_asked_on_paths(analysis), *kept(analysis), *_reservations(analysis)]
    rows = analysis.in_question
    if not rows:
        return ["No two cells that the question compares have results yet."]
    columns = list(dict.fromkeys(row.column for row in rows))
    first_columns = columns[:COLUMNS]
    sentences = []
    for column in first_columns:
        of_column = [row for row in rows if row.column == column]
        where = f" on {column}" if len(columns) > 1 else ""
        sentences += list(_of_column(analysis, of_column, where))
    further = [row for row in rows if row.column not in first_columns]
    if further:
        counts = _and(
            f"{_count(further, word)} {word}" for word in (ROBUST, SUGGESTIVE, INCONCLUSIVE)
        )
        sentences.append(f"Of {len(further)} comparisons on {_and(columns[COLUMNS:])}: {counts}.")
    return [*sentences, *kept(analysis), *_reservations(analysis)]


def _asked_on_paths(analysis: Analysis) -> Iterator[str]:
    """The question of a family at equal pass@1."""
    compared: list[EqualPassAt1 | PathRange] = [*analysis.on_paths, *analysis.off_paths]
    ks = sorted({row.k for row in analysis.on_paths}) or [analysis.ks[-1]]
    of = _and([f"pass@{k}" for k in ks])
    pairs = list(dict.fromkeys((row.new, row.old) for row in compared))
    olds = {analysis.by_cell[old].label for _, old in pairs}
    if len(pairs) == 1:
        subject = f"Does {analysis.by_cell[pairs[0][0]].label}"
    else:
        subject = f"Which of {len(pairs)} cells" if len(olds) == 1 else "Which cells"
    verb = "keep" if len(pairs) == 1 or len(olds) > 1 else "keeps"
    against = f"than {_and(sorted(olds))}" if len(olds) == 1 else "than what each is compared with"
    yield f"{subject} {verb} more of {of} {against} at equal pass@1?"


def kept(analysis: Analysis) -> Iterator[str]:
    """A sentence a column and k: what cells keep at the pass@1 that what they are compared with
    reaches too, of the pairs of the question; none where runs have one evaluated checkpoint."""
    pairs = {(row.new, row.old) for row in analysis.in_question}
    rows = [row for row in analysis.on_paths if (row.new, row.old) in pairs]
    apart = [
        row
        for row in analysis.off_paths
        if analysis.at_equal_pass_at_1 or (row.new, row.old) in pairs
    ]
    columns = list(dict.fromkeys([*(row.column for row in rows), *(row.column for row in apart)]))
    for column in columns[:COLUMNS]:
        where = f" on {column}" if len(columns) > 1 else ""
        of_column = [row for row in rows if row.column == column]
        for k in sorted({row.k for row in of_column}, reverse=True):
            at_k = [row for row in of_column if row.k == k]
            first = sorted(at_k, key=lambda row: -abs(row.difference))[:NAMED]
            parts = [_keeps(analysis, row, at_k) for row in first]
            parts += [f"{len(at_k) - NAMED} more in the table"] if len(at_k) > NAMED else []
            yield f"At equal pass@1{where}, in pass@{k}: {'; '.join(parts)}."
        without = [row for row in apart if row.column == column]
        reasons = dict.fromkeys(str(row.reason) for row in without[:NAMED])
        if without:
            n = len(without)
            pair = "one pair is" if n == 1 else f"{n} pairs are"
            yield f"At equal pass@1{where} {pair} inconclusive: {'; '.join(reasons)}."


def _keeps(analysis: Analysis, row: EqualPassAt1, among: Sequence[EqualPassAt1]) -> str:
    """e.g. `gamma = 1 keeps 9.1 [3.0, 15.2] points more at 29.9% (robust after correction)`."""
    name, at = _name(analysis, row, among), f"at {100 * row.pass_at_1:.1f}%"
    if row.verdict == INCONCLUSIVE:
        return f"{name} {at} is inconclusive ({difference(row.difference, row.low, row.high)})"
    assert row.low is not None and row.high is not None
    ends = sorted((abs(row.low), abs(row.high)))
    size = f"{_size(row.difference)} [{_size(ends[0])}, {_size(ends[1])}]"
    sure = SURE[row.verdict] if row.family is not None else "not corrected"
    return f"{name} keeps {size} points {'more' if row.difference > 0 else 'less'} {at} ({sure})"


def front_in_words(analysis: Analysis, column: str) -> str | None:
    """Which of the cells that the question compares are dominated in the plane of pass@k at the
    smallest and the largest k; None where it compares none on this column."""
    rows = [analysis.on_front(column, cell) for cell in analysis.by_cell]
    worse = [row for row in rows if row is not None and not row.is_on_front]
    n = sum(row is not None for row in rows)
    if not n:
        return None
    plane = " and ".join(f"pass@{k}" for k in analysis.ends)
    if not worse:
        return f"Plane of {plane}: no compared setting is dominated."
    named = [analysis.by_cell[row.cell].label for row in worse[:NAMED]]
    listed = _and([*named, *_more(worse)])
    return f"Plane of {plane}: {len(worse)} of {n} compared settings are dominated ({listed})."


def _of_column(analysis: Analysis, rows: Sequence[Comparison], where: str) -> Iterator[str]:
    """The question at the largest k with its answer, then what happens at the other k."""
    ks = sorted({row.k for row in rows}, reverse=True)
    first = [row for row in rows if row.k == ks[0]]
    focal = all(_is_focal(analysis, row) for row in rows)
    yield (_focal_question if focal else _question)(analysis, first, where)
    yield (_focal_answer if focal else _by_verdict)(analysis, first)
    for k in ks[1:]:
        at_k = [row for row in rows if row.k == k]
        if all(row.verdict == INCONCLUSIVE for row in at_k):
            subject = "The effect on" if focal else "Every difference in"
            yield f"{subject} pass@{k}{where} is inconclusive{_sizes(at_k)}."
        else:
            yield f"In pass@{k}{where}: {_lowered(_by_verdict(analysis, at_k))}"


def _is_focal(analysis: Analysis, row: Comparison) -> bool:
    """Whether two cells differ in the focal weight alone, the old one without."""
    new, old = (analysis.by_cell[name].setting for name in (row.new, row.old))
    return new is not None and new.focal_gamma > 0 and new.unweighted == old


def _focal_question(analysis: Analysis, rows: Sequence[Comparison], where: str) -> str:
    sizes = sorted({analysis.by_cell[row.old].group_size or 0 for row in rows})
    at = f" at N = {_and(map(str, sizes))}"
    methods = list(dict.fromkeys(analysis.by_cell[row.old].method for row in rows))
    under = f" under {_and(methods)}" if len(methods) > 1 else ""
    lost = all(_lost(analysis, row) is not None for row in rows)
    verb = "recover" if lost else "raise"
    return f"Does a focal weight{at} {verb} pass@{rows[0].k}{where}{under}?"


def _focal_answer(analysis: Analysis, rows: Sequence[Comparison]) -> str:
    """By verdict and direction, e.g. `Yes at gamma = 1: 11.0 of the 16.1 points that ...`."""
    leads = {
        (ROBUST, 1): "yes at",
        (SUGGESTIVE, 1): "perhaps at",
        (ROBUST, -1): "no at",
        (SUGGESTIVE, -1): "rather not at",
    }
    parts: list[str] = []
    for (verdict, sign), lead in leads.items():
        matching = [row for row in rows if row.verdict == verdict and row.difference * sign > 0]
        listed = [
            f"{_name(analysis, row, rows)}: {_regained(analysis, row)}"
            for row in _largest(matching)
        ]
        if matching:
            sure = SURE[verdict] if analysis.has_family else verdict
            parts.append(f"{lead} {_and([*listed, *_more(matching)])} ({sure})")
    undecided = [row for row in rows if row.verdict == INCONCLUSIVE]
    if len(undecided) == len(rows):
        parts.append(f"inconclusive{_sizes(rows)}")
    elif undecided:
        named = [_name(analysis, row, rows) for row in _largest(undecided)]
        parts.append(f"inconclusive at {_and([*named, *_more(undecided)])}{_sizes(undecided)}")
    text, lost = "; ".join(parts), _lost(analysis, rows[0])
    if lost is not None and len({row.old for row in rows}) == 1:
        before, words, after = text.partition(_all_lost(lost))
        text = f"{before}{words}{after.replace(words, 'these')}" if words else text
    return _raised(text) + "."


def _regained(analysis: Analysis, row: Comparison) -> str:
    """e.g. `11.0 of the 16.1 points that training lost`."""
    size, lost = _size(row.difference), _lost(analysis, row)
    if row.difference < 0:
        return f"{size} points less"
    if lost is None:
        return f"{size} points"
    return f"{size} {'more than' if row.difference > lost else 'of'} {_all_lost(lost)}"


def _all_lost(lost: float) -> str:
    return f"the {_size(lost)} points that training lost"


def _lost(analysis: Analysis, row: Comparison) -> float | None:
    """What training without the focal weight took from the base models, as a fraction; None where
    a loss is inconclusive or there is none."""
    against_base = analysis.comparison(row.column, row.k, row.old, "base")
    return (
        None
        if against_base is None
        or against_base.verdict == INCONCLUSIVE
        or against_base.difference > 0
        else -against_base.difference
    )


def _question(analysis: Analysis, rows: Sequence[Comparison], where: str) -> str:
    olds = list(dict.fromkeys(row.old for row in rows))
    label = analysis.by_cell[olds[0]].label
    if len(rows) == 1:
        new = analysis.by_cell[rows[0].new].label
        return f"Does {new} differ from {label} in pass@{rows[0].k}{where}?"
    if len(olds) == 1:
        return f"Which of {len(rows)} cells differ from {label} in pass@{rows[0].k}{where}?"
    return f"Which of {len(rows)} pairs of cells differ in pass@{rows[0].k}{where}?"


def _by_verdict(analysis: Analysis, rows: Sequence[Comparison]) -> str:
    """The robust ones by name, the others where they are few; the rest counted."""
    if _count(rows, INCONCLUSIVE) == len(rows):
        return f"Inconclusive{_sizes(rows)}."
    parts = []
    for verdict in (ROBUST, SUGGESTIVE):
        for sign, direction in ((1, "better"), (-1, "worse")):
            matching = [row for row in rows if row.verdict == verdict and row.difference * sign > 0]
            if matching and (verdict == ROBUST or len(rows) <= NAMED):
                listed = [
                    f"{_name(analysis, row, rows)} {points(row.difference)}"
                    for row in _largest(matching)
                ]
                parts.append(f"{direction}, {verdict}: {_and([*listed, *_more(matching)])}")
            elif matching:
                parts.append(f"{direction}, {verdict}: {len(matching)}")
    n = _count(rows, INCONCLUSIVE)
    return _raised("; ".join([*parts, *([f"{INCONCLUSIVE}: {n}"] if n else [])])) + "."


def _name(analysis: Analysis, row: Comparison, among: Sequence[Comparison]) -> str:
    """Which comparison of several, with no more than tells them apart."""
    new, old = analysis.by_cell[row.new], analysis.by_cell[row.old]
    cells = [analysis.by_cell[name] for item in among for name in (item.new, item.old)]
    trained = [cell for cell in cells if not cell.is_base]
    several = len({cell.group_size for cell in trained}) > 1
    if all(_is_focal(analysis, item) for item in among):
        method = len({analysis.by_cell[item.old].method for item in among}) > 1
        size = f"N = {old.group_size} " if several else ""
        return f"{f'{old.method} ' if method else ''}{size}gamma = {new.focal_gamma:g}"
    named = [
        cell.label if several else cell.label.replace(f" N={cell.group_size}", "")
        for cell in (new, old)
    ]
    return " against ".join(named) if len({item.old for item in among}) > 1 else named[0]


def _reservations(analysis: Analysis) -> Iterator[str]:
    """What limits all of it: no question or one of afterwards, a single seed, missing points."""
    if not analysis.has_family:
        yield NOTHING_CORRECTED
    yield from redeclared(analysis)
    if analysis.n_seeds == 1:
        yield "One training seed: another run may say otherwise."
    if analysis.missing:
        n = len(analysis.results.checkpoints)
        yield f"So far: {n - len(analysis.missing)} of {n} {analysis.noun} have results."


def _largest(rows: Sequence[Comparison]) -> list[Comparison]:
    return sorted(rows, key=lambda row: -abs(row.difference))[:NAMED]


def _more(rows: Sequence[object]) -> list[str]:
    return [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []


def _size(value: float) -> str:
    """Percentage points without their sign."""
    return points(abs(value))[1:]


def _sizes(rows: Sequence[Comparison]) -> str:
    """Differences in brackets: each of a few, the ends of many."""
    sizes = sorted((row.difference for row in rows), key=abs, reverse=True)
    if len(sizes) > NAMED:
        return f" ({points(min(sizes))} to {points(max(sizes))} points)"
    return f" ({_and(map(points, sizes))} points)"


def _count(rows: Sequence[Comparison], verdict: str) -> int:
    return sum(row.verdict == verdict for row in rows)


def _and(words: Iterator[str] | Sequence[str]) -> str:
    """e.g. `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _raised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


LISTED_AGAINST_BASE = 4
"""Of LISTED, against the base models, where the cells mostly agree."""


def heading(analysis: Analysis) -> str:
    """The first line: which sweep, and what every cell gets the same of; else which labels."""
    if (sweep := analysis.results.sweep) is None:
        labels = listed([cell.label for cell in analysis.by_cell.values()], LISTED)
        place, several = analysis.results.place, len(analysis.by_cell) > 1
        base = f" (Base: {place.experiment.partition('+')[0]})" if place and several else ""
        return f"{labels}{base} on {listed(analysis.results.benchmarks, LISTED)}"
    train, paths = sweep.train, sweep.paths
    if _own_prompts(analysis):
        return (
            f"{paths.sweep} on {paths.experiment} {paths.version}: prompts per step are an axis of "
            "its grid, and N times as many rollouts are the cost of a step"
        )
    if train["budget"] == "constant_rollouts":
        equal = (
            f"every cell gets {train['rollouts_per_step']} rollouts per step, so equal compute "
            "(the paper holds prompts per step constant)"
        )
    else:
        equal = (
            f"every cell gets {train['prompts_per_step']} prompts per step, so a larger N costs "
            "more (the paper's convention)"
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
    if prompts := _own_prompts(analysis):
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
    sentences = [numbers, steps, *rewarded(train), *([paper] if len(sizes) > 1 else [])]
    return " ".join(sentences)


def _own_prompts(analysis: Analysis) -> list[int]:
    """Prompts per step of cells that do not have those of the budget, rising."""
    every = {cell.prompts_per_step for cell in analysis.by_cell.values()}
    return sorted(prompts for prompts in every if prompts is not None)


def rewarded(train: Mapping[str, Any]) -> Iterator[str]:
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
    by_words: dict[str, list[Comparison]] = {}
    for verdict in (ROBUST, SUGGESTIVE, INCONCLUSIVE):
        of_verdict = [row for row in rows if row.verdict == verdict]
        for row in sorted(of_verdict, key=lambda row: row.difference < 0):
            direction = (
                "" if verdict == INCONCLUSIVE else " rise" if row.difference > 0 else " fall"
            )
            by_words.setdefault(f"{verdict}{direction}", []).append(row)
    for words, of_verdict in by_words.items():
        share = f" in {len(of_verdict)} of {len(rows)}" if len(rows) > 1 else ""
        yield f"pass@{k}: {words}{share}", _listed(analysis, of_verdict)


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
    return (*analysis.asked, *analysis.on_paths)


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
    counts = [f"{verdicts.count(word)} {word}" for word in (ROBUST, SUGGESTIVE, INCONCLUSIVE)]
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


def all_k_at_once(analysis: Analysis) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Sections: a heading, and a line a pair, of the columns that stand for all."""
    sections: dict[str, dict[str, str]] = {}
    for row in analysis.asked:
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
    rows = [row for name in analysis.results.benchmarks for row in analysis.of_column(name)]
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
    if analysis.asked:
        lines.append(
            "p is two-sided, over problems and seeds: 1 less the level of the interval that ends "
            f"at 0. {corrected} p draws takes these models and problems as given and asks about "
            "the draws alone (unbiased variance of pass@k; needs 2k draws). It takes the draws of "
            "both cells as independent; those of one seed share their random numbers, so it is "
            "too large rather than too small."
        )
        design = analysis.results.stopping
        lines += dict.fromkeys(
            f"No p draws: {why}."
            for k in sorted({row.k for row in analysis.asked if row.p_draws is None})
            if design is not None and (why := design.no_variance(k)) is not None
        )
    return Notes(
        lines=(
            *lines,
            f"Grader: {graders or 'none yet'}. Largest share of draws that it could "
            f"not judge in a cell: {unscored:.2%} (left out of n and c).",
            *engines(analysis),
            *([] if sweep is None else _made_by(sweep)),
        )
    )


def _number(evaluation: Mapping[str, Any], name: str) -> str:
    """A setting of the draws, which checkpoints without a sweep may differ in."""
    return f"{evaluation[name]:g}" if name in evaluation else "of each evaluation's own"


def _made_by(sweep: SweepResults) -> tuple[str, str]:
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
        f"number of draws it is {usual}). {draws_made(rows).removesuffix('.')}"
    )
