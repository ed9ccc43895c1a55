"""What math-verify passes over and these graders with it, to be counted; docs/grading.md lists it.

A kind is a mark that stands in an answer and not in its gold, or the reverse, or another of its
kind. Where such an answer is graded correct, the mark decided nothing.
"""

from __future__ import annotations

import re

from fgrpo_bench.graders.judge_worker import TO_SIX_DECIMALS
from fgrpo_bench.graders.math_golds import normalise

KINDS: dict[str, re.Pattern[str]] = {
    "a unit or text behind": re.compile(
        r"\\(?:text|textrm|textbf|mathrm|mbox|rm|operatorname)\s*+\{\s*+~?([A-Za-z][^{}]*+)\}"
        r"|(?<=[0-9])\s*+([A-Za-z]{2,})"
    ),
    "a degree sign": re.compile(r"\\circ(?![A-Za-z])|°|\\degree"),
    "a percent sign": re.compile(r"%"),
    "a currency sign": re.compile(r"\\\$|[€£¥₹]"),
    "the left side of an equation": re.compile(r"(?<![<>!:\\])="),
    "dots or a prime": re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|'"),
}
"""By what a table calls it: the marks. Each expression is linear in the length of the text."""
DECIMALS = "digits behind the sixth decimal"
"""A further kind, which the judge's reason tells."""


def leniencies(gold: str, answer: str, reason: str) -> list[str]:
    """The kinds in which an answer that was graded correct and its gold differ.

    gold, answer: as they are written. reason: of the grade.

    >>> leniencies("5", r"5 \\text{ cm}", "equal by math-verify")
    ['a unit or text behind']
    >>> leniencies(r"90^\\circ", "x = 90", "equal by math-verify")
    ['a degree sign', 'the left side of an equation']
    """
    gold = normalise(gold)  # as the answer of a grade is
    kinds = [kind for kind, marks in KINDS.items() if _of(marks, gold) != _of(marks, answer)]
    return [*kinds, DECIMALS] if reason == TO_SIX_DECIMALS else kinds


def _of(marks: re.Pattern[str], text: str) -> list[str]:
    return [mark[0] if mark.lastindex is None else _word(mark) for mark in marks.finditer(text)]


def _word(mark: re.Match[str]) -> str:
    return (mark[mark.lastindex or 0]).strip().lower()
