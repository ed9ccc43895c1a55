"""The answer to a sweep's question in a sentence or two, which every view shows first.

In: an Analysis. Out: the question that the declared family asks of the numbers, and what their
verdicts say. Every figure and verdict is read from the analysis; nothing is computed here. Next:
report.narrative, which says what the answer rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis import INCONCLUSIVE, SIGNIFICANT, SUGGESTIVE, Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.replication import replications
from fgrpo_bench.analysis.rows import Comparison, EqualPassAt1, PathRange
from fgrpo_bench.documents.table import conjoined, difference, points, raised
from fgrpo_bench.report.footnotes import redeclared, remote_code

NAMED = 3
"""Most comparisons of one verdict that are named; of more the rest is counted."""
COLUMNS = 2
"""Most benchmarks and averages that are told; of more the rest is counted."""
FIRM = 0.8
"""Chance that a repetition gives a verdict again from which on the answer begins with yes or no,
below with the estimate."""
CERTAIN = 0.99
"""Above, a chance has no range."""
VERBS = {1: "gain", -1: "cost"}
"""By the sign of a difference."""
SURE = {SIGNIFICANT: "significant after correction", SUGGESTIVE: "suggestive, not after correction"}


def answer(analysis: Analysis) -> list[str]:
    """Sentences: what the sweep's declared family asks of the numbers, as a question, then what
    they say, at the largest k first. One, apart from code that ran, where no two cells can be
    compared yet."""
    if analysis.at_equal_pass_at_1 and (analysis.on_paths or analysis.off_paths):
        return [
            *_question_on_paths(analysis),
            *kept(analysis),
            *_replicated(analysis),
            *_reservations(analysis),
        ]
    rows = analysis.in_question
    if not rows:
        which = "that the question compares " * (analysis.results.sweep is not None)
        sentence = f"No two {analysis.noun if not which else 'cells'} {which}have results yet."
        return [sentence, *remote_code(analysis)]
    columns = list(dict.fromkeys(row.column for row in rows))
    first_columns = columns[:COLUMNS]
    sentences = []
    for column in first_columns:
        of_column = [row for row in rows if row.column == column]
        where = f" on {column}" if len(columns) > 1 else ""
        sentences += list(_question_on_column(analysis, of_column, where))
    further = [row for row in rows if row.column not in first_columns]
    if further:
        counts = conjoined(
            f"{_count(further, word)} {word}" for word in (SIGNIFICANT, SUGGESTIVE, INCONCLUSIVE)
        )
        sentences.append(
            f"Of {len(further)} comparisons on {conjoined(columns[COLUMNS:])}: {counts}."
        )
    return [*sentences, *kept(analysis), *_replicated(analysis), *_reservations(analysis)]


def _question_on_paths(analysis: Analysis) -> Iterator[str]:
    """The question of a family at equal pass@1."""
    compared: list[EqualPassAt1 | PathRange] = [*analysis.on_paths, *analysis.off_paths]
    ks = sorted({row.k for row in analysis.on_paths}) or [analysis.ks[-1]]
    of = conjoined([f"pass@{k}" for k in ks])
    pairs = list(dict.fromkeys((row.new, row.old) for row in compared))
    olds = {analysis.by_cell[old].label for _, old in pairs}
    if len(pairs) == 1:
        subject = f"Does {analysis.by_cell[pairs[0][0]].label}"
    else:
        subject = f"Which of {len(pairs)} cells" if len(olds) == 1 else "Which cells"
    verb = "keep" if len(pairs) == 1 or len(olds) > 1 else "keeps"
    against = (
        f"than {conjoined(sorted(olds))}" if len(olds) == 1 else "than what each is compared with"
    )
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
            yield from _repeated(analysis, at_k)
        without = [row for row in apart if row.column == column]
        reasons = dict.fromkeys(str(row.reason) for row in without[:NAMED])
        if without:
            n = len(without)
            pair = "one pair is" if n == 1 else f"{n} pairs are"
            yield f"At equal pass@1{where} {pair} inconclusive: {'; '.join(reasons)}."


def _keeps(analysis: Analysis, row: EqualPassAt1, among: Sequence[EqualPassAt1]) -> str:
    """e.g. `gamma = 1 keeps 9.1 [3.0, 15.2] points more at 29.9% (suggestive)`."""
    name, at = _name(analysis, row, among), f"at {100 * row.pass_at_1:.1f}%"
    if row.verdict == INCONCLUSIVE:
        return f"{name} {at} is inconclusive ({difference(row.difference, row.low, row.high)})"
    size = f"{_size(row.difference)}{_interval(row)}"
    sure = SURE[row.verdict] if row.family is not None else "not corrected"
    return f"{name} keeps {size} points {'more' if row.difference > 0 else 'less'} {at} ({sure})"


def front_sentence(analysis: Analysis, column: str) -> str | None:
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
    listed = conjoined([*named, *_more(worse)])
    return f"Plane of {plane}: {len(worse)} of {n} compared settings are dominated ({listed})."


def _question_on_column(
    analysis: Analysis, rows: Sequence[Comparison], where: str
) -> Iterator[str]:
    """The question at the largest k with its answer, then what happens at the other k."""
    ks = sorted({row.k for row in rows}, reverse=True)
    first = [row for row in rows if row.k == ks[0]]
    focal = all(_is_focal(analysis, row) for row in rows)
    yield (_focal_question if focal else _question)(analysis, first, where)
    if focal:
        yield _focal_answer(analysis, first)
        yield from _repeated(analysis, first)
    for k in ks[1:] if focal else ks:
        at_k = [row for row in rows if row.k == k]
        if all(row.verdict == INCONCLUSIVE for row in at_k):
            subject = "The effect on" if focal else "Every difference in"
            yield f"{subject} pass@{k}{where} is inconclusive{_sizes(at_k)}."
        else:
            yield _by_verdict(analysis, at_k, where)
        yield from _repeated(analysis, at_k)


def _repeated(analysis: Analysis, rows: Sequence[Comparison]) -> Iterator[str]:
    """How often a repetition would print the same verdicts; nothing where that is not known."""
    known = [row for row in rows if row.repeats is not None]
    if not known:
        return
    n = len(known[0].seeds)
    head = f"A repetition with {n} other seeds would print the same verdict"
    if len(known) > NAMED:
        chances = sorted(row.repeats or 0 for row in known)
        yield f"{head} in {chances[0]:.0%} to {chances[-1]:.0%} of cases, by the seeds seen."
        return
    parts = [
        f"{f'on {_name(analysis, row, rows)} ' if len(rows) > 1 else ''}in {_chance(row)}"
        for row in known
    ]
    yield f"{head} {conjoined(parts)} of cases, by the seeds seen."


def _chance(row: Comparison) -> str:
    """With its range, e.g. `62% (18% to 97%)`."""
    if (row.repeats or 0) > CERTAIN:
        return f"more than {CERTAIN:.0%}"
    assert row.repeats is not None and row.repeats_low is not None
    # A mean over skewed worlds may lie below the range that most of them are in.
    low = min(row.repeats, row.repeats_low)
    return f"{row.repeats:.0%} ({low:.0%} to {row.repeats_high:.0%})"


def _replicated(analysis: Analysis) -> Iterator[str]:
    """Each comparison beside that of the sweep which this one replicates; nothing without one."""
    try:
        replicated = replications(analysis)
    except (FileNotFoundError, ValueError) as error:
        yield f"What it replicates cannot be read: {error}."
        return
    if replicated is None:
        return
    first_name, pairs = replicated
    rows = [pair.again for pair in pairs]
    for pair in sorted(pairs, key=lambda pair: -pair.again.k):
        at = f"{pair.again.column}, " * (len({row.column for row in rows}) > 1)
        what = f"{_name(analysis, pair.again, rows)} ({at}pass@{pair.again.k})"
        here = _in_points(pair.again)
        if pair.first is None:
            yield f"{what}: {first_name} has no results, here {here}."
        else:
            verb = "Replicated" if pair.is_replicated else "Not replicated"
            yield f"{verb}, {what}: {_in_points(pair.first)} in {first_name}, {here} here."


def _in_points(row: Comparison) -> str:
    """e.g. `+5.3 [3.9, 6.9], significant`."""
    return f"{difference(row.difference, row.low, row.high)}, {row.verdict}"


def _is_focal(analysis: Analysis, row: Comparison) -> bool:
    """Whether two cells differ in the focal weight alone, the old one without."""
    new, old = (analysis.by_cell[name].setting for name in (row.new, row.old))
    return new is not None and new.focal_gamma > 0 and new.unweighted == old


def _focal_question(analysis: Analysis, rows: Sequence[Comparison], where: str) -> str:
    sizes = sorted({analysis.by_cell[row.old].group_size or 0 for row in rows})
    at = f" at N = {conjoined(map(str, sizes))}"
    methods = list(dict.fromkeys(analysis.by_cell[row.old].method for row in rows))
    under = f" under {conjoined(methods)}" if len(methods) > 1 else ""
    lost = all(_lost(analysis, row) is not None for row in rows)
    verb = "recover" if lost else "raise"
    return f"Does a focal weight{at} {verb} pass@{rows[0].k}{where}{under}?"


def _focal_answer(analysis: Analysis, rows: Sequence[Comparison]) -> str:
    """By verdict and direction, e.g. `Yes at gamma = 1: 11.0 of the 16.1 points that ...`."""
    leads = {
        (SIGNIFICANT, 1): "yes at",
        (SUGGESTIVE, 1): "perhaps at",
        (SIGNIFICANT, -1): "no at",
        (SUGGESTIVE, -1): "rather not at",
    }
    parts: list[str] = []
    for (verdict, sign), lead in leads.items():
        matching = [row for row in rows if row.verdict == verdict and row.difference * sign > 0]
        sure = SURE[verdict] if analysis.has_family else verdict
        for is_firm in (True, False):
            alike = [row for row in matching if _is_firm(row) == is_firm]
            listed = [
                f"{_name(analysis, row, rows)}: {_regained(analysis, row)}"
                if is_firm
                else f"{_regained(analysis, row, _interval(row))} at {_name(analysis, row, rows)}"
                for row in _largest(alike)
            ]
            if alike:
                words = conjoined([*listed, *_more(alike)])
                parts.append(f"{f'{lead} ' if is_firm else ''}{words} ({sure})")
    undecided = [row for row in rows if row.verdict == INCONCLUSIVE]
    if len(undecided) == len(rows):
        parts.append(f"inconclusive{_sizes(rows)}")
    elif undecided:
        named = [_name(analysis, row, rows) for row in _largest(undecided)]
        parts.append(f"inconclusive at {conjoined([*named, *_more(undecided)])}{_sizes(undecided)}")
    text, lost = "; ".join(parts), _lost(analysis, rows[0])
    if lost is not None and len({row.old for row in rows}) == 1:
        before, words, after = text.partition(_all_lost(lost))
        text = f"{before}{words}{after.replace(words, 'these')}" if words else text
    return raised(text) + "."


def _is_firm(row: Comparison) -> bool:
    """Whether a repetition would mostly say the same, so that the answer may be yes or no."""
    return row.repeats is None or row.repeats >= FIRM


def _interval(row: Comparison) -> str:
    """Of a difference whose sign is said in words, e.g. ` [3.0, 15.2]`."""
    assert row.low is not None and row.high is not None
    low, high = sorted((abs(row.low), abs(row.high)))
    return f" [{_size(low)}, {_size(high)}]"


def _regained(analysis: Analysis, row: Comparison, interval: str = "") -> str:
    """e.g. `11.0 of the 16.1 points that training lost`."""
    size, lost = _size(row.difference) + interval, _lost(analysis, row)
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


def _by_verdict(analysis: Analysis, rows: Sequence[Comparison], where: str) -> str:
    """What is gained and what it costs, with how sure that is, e.g. `It costs 2.8 points of pass@1
    at gamma = 1 (suggestive).` The significant ones by name, the others where they are few; the
    rest counted."""
    focal = all(_is_focal(analysis, row) for row in rows)
    unit = f"of pass@{rows[0].k}{where}"
    parts = []
    for verdict in (SIGNIFICANT, SUGGESTIVE):
        for sign in (1, -1):
            alike = [row for row in rows if row.verdict == verdict and row.difference * sign > 0]
            if not alike:
                continue
            if verdict == SIGNIFICANT or len(alike) <= NAMED:
                what = _amounts(analysis, alike, rows, unit, focal=focal)
            else:
                what = f"{len(alike)} {VERBS[sign]} points {unit}"
            parts.append(f"{what} ({verdict})")
    undecided = [row for row in rows if row.verdict == INCONCLUSIVE]
    if 0 < len(undecided) <= NAMED:
        names = conjoined(_name(analysis, row, rows) for row in _largest(undecided))
        verb = "is" if focal or len(undecided) == 1 else "are"
        subject = f"the effect at {names}" if focal else names
        parts.append(f"{subject} {verb} inconclusive{_sizes(undecided)}")
    elif undecided:
        parts.append(f"{len(undecided)} are inconclusive")
    return raised("; ".join(parts)) + "."


def _amounts(
    analysis: Analysis,
    alike: Sequence[Comparison],
    among: Sequence[Comparison],
    unit: str,
    *,
    focal: bool,
) -> str:
    """e.g. `it costs 2.8 points of pass@1 at gamma = 1 and 1.4 at gamma = 0.5`; where cells are
    compared, `PKPO costs 4.8 points of pass@1, Pass@k training 4.3 and MaxRL 3.4`."""
    verb = f"{VERBS[1 if alike[0].difference > 0 else -1]}s"
    amounts = []
    for i, row in enumerate(_largest(alike)):
        name, size = _name(analysis, row, among), _size(row.difference)
        points = f"{size} points {unit}" if i == 0 else size
        if focal:
            amounts.append(f"{points} at {name}")
        else:
            amounts.append(f"{name} {f'{verb} ' if i == 0 else ''}{points}")
    return f"{f'it {verb} ' if focal else ''}{conjoined([*amounts, *_more(alike)])}"


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
    yield from remote_code(analysis)
    if analysis.n_seeds == 1:
        yield "One training seed: another run may say otherwise."
    if analysis.missing:
        yield f"So far: {analysis.with_results}."


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
    return f" ({conjoined(map(points, sizes))} points)"


def _count(rows: Sequence[Comparison], verdict: str) -> int:
    return sum(row.verdict == verdict for row in rows)
