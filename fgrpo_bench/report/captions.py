"""The title of a report, and captions that a paper can print.

In: an Analysis. Out: plain sentences that name what is shown, what it is a mean of, and the k; no
address of a sweep, no setting as `name=value`. Next: report.tables and report.figures, whose
captions these begin and end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fgrpo_bench.analysis import LEVEL, Analysis
from fgrpo_bench.analysis.question import BY_NAME, KINDS, Pair, pairs_and_family
from fgrpo_bench.documents.table import conjoined, raised
from fgrpo_bench.report.footnotes import LISTED, listed

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SUBJECTS = {"group_size": "group size", "controls": "controls of the focal weight"}
"""Kinds of pairs whose words in KINDS are no title."""
AXES = {
    "algorithm": "method",
    "group_size": "group size",
    "focal_gamma": "focal weight",
    "prompts_per_step": "prompts per step",
    "learning_rate_factor": "learning rate",
}
"""What a sweep may vary, in words."""


def number_word(n: int) -> str:
    """e.g. `three`; digits where they are easier to read."""
    return NUMBERS[n] if n < len(NUMBERS) else f"{n:,}"


def spaced(text: str) -> str:
    """Settings as prose has them: `F-GRPO N = 8 gamma = 0.5` of `F-GRPO N=8 gamma=0.5`."""
    return re.sub(r"(?<=\w)=(?=\S)", " = ", text)


def title(analysis: Analysis) -> str:
    """e.g. `Focal weight at N = 8 on countdown, three seeds`: what the question compares, on what,
    and of how many training runs; without a sweep e.g. `new against old on mine`."""
    on = f"{subject(analysis)} on {conjoined(analysis.headline[:LISTED])}"
    if analysis.results.sweep is None:
        return on
    n = analysis.n_seeds
    seeds = f", {number_word(n)} seed{'s' * (n > 1)}" if n else ""
    return f"{raised(on)}{seeds}"


def subject(analysis: Analysis) -> str:
    """What is compared: by a sweep's question; without one every label against the first."""
    cells = tuple(analysis.by_cell.values())
    if analysis.results.sweep is None:
        old, *others = [cell.label for cell in cells]
        return f"{listed(others, LISTED)} against {old}" if others else old
    _, family = pairs_and_family(analysis.results, cells)
    if not family.pairs:
        settings = [cell.setting for cell in cells if cell.setting is not None]
        axes = [
            words for axis, words in AXES.items()
            if len({getattr(setting, axis) for setting in settings}) > 1
        ]  # fmt: skip
        return conjoined(axes or ["training"])
    kinds = dict.fromkeys(pair.kind for pair in family.pairs)
    subject = conjoined(
        _compared(kind, [pair for pair in family.pairs if pair.kind == kind]) for kind in kinds
    )
    return f"{subject}{' at equal pass@1' * family.at_equal_pass_at_1}"


def _compared(kind: str, pairs: Sequence[Pair]) -> str:
    """What the pairs of a kind compare."""
    olds = {pair.old.label: pair.old for pair in pairs}
    if kind == "focal":
        sizes = sorted({old.group_size or 0 for old in olds.values()})
        methods = list(dict.fromkeys(old.method for old in olds.values()))
        under = f" under {conjoined(methods)}" if len(methods) > 1 else ""
        return f"focal weight at N = {conjoined(map(str, sizes))}{under}"
    if kind != BY_NAME:
        return SUBJECTS.get(kind, KINDS[kind])
    if len(olds) > 1:
        return f"{number_word(len(pairs))} pairs of settings"
    of = spaced(pairs[0].new.label) if len(pairs) == 1 else f"{number_word(len(pairs))} settings"
    return f"{of} against {spaced(pairs[0].old.label)}"


def caption(
    analysis: Analysis, shown: str, *columns: str, intervals: bool = False, more: str = ""
) -> str:
    """e.g. `pass@1 and pass@256 on countdown. Means over three training seeds and 256 problems,
    with 95% intervals over both.`

    shown: what, without a full stop. columns: the benchmarks and averages that it is about.
    intervals: whether these are shown. more: behind it in the second sentence.
    """
    ends = f", with {LEVEL:.0%} intervals{_over(analysis)}" if intervals else ""
    return f"{raised(spaced(shown))}. {raised(means(analysis, *columns))}{ends}{more}."


def means(analysis: Analysis, *columns: str) -> str:
    """e.g. `means over three training seeds and 256 problems`."""
    return f"means over {conjoined(_units(analysis, columns))}"


def _units(analysis: Analysis, columns: Sequence[str]) -> Iterator[str]:
    benchmarks = {name for column in columns for name in analysis.benchmarks_of(column)}
    rows = [row for name in benchmarks for row in analysis.estimates_on(name) if row.n_seeds]
    counts = sorted({row.n_seeds for row in rows})
    if counts and analysis.results.sweep is not None:
        ends = " to ".join(map(number_word, dict.fromkeys((counts[0], counts[-1]))))
        yield f"{ends} training seed{'s' * (counts[-1] > 1)}"
    if len(benchmarks) == 1:
        (name,) = benchmarks
        n = max((row.n_problems for row in analysis.estimates_on(name)), default=0)
        yield f"{number_word(n)} problem{'s' * (n != 1)}"
    else:
        yield f"the problems of {number_word(len(benchmarks))} benchmarks"


def _over(analysis: Analysis) -> str:
    return " over both" if analysis.n_seeds > 1 else " over problems"


def ends_text(analysis: Analysis) -> str:
    """e.g. `pass@1 and pass@256`."""
    return conjoined(f"pass@{k}" for k in analysis.ends)


def ks_text(ks: Sequence[int]) -> str:
    """e.g. `k = 1 and 256`."""
    return f"k = {conjoined(map(str, ks))}"
