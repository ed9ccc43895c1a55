"""Countdown arithmetic: is `5*2*3-6` built from the digits 3 2 5 6 and worth 24?

The response is untrusted text: it is matched against one fixed form and computed here, digit by
digit, with the usual precedence. Nothing of it is ever evaluated.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from fgrpo_bench.core.problems import Grade, Problem

LEGAL_REWARD = 0.1
"""Of an expression of the given digits with another value, under `grade_partial`."""
_EXPRESSION = re.compile(r"[1-9](?:[+\-*][1-9]){0,15}")


def grade(problem: Problem, response: str) -> Grade:
    """Correct where the response uses each given digit once, with + - *, and reaches the target.

    problem.target: digits and value, e.g. "3256-24" is the digits 3, 2, 5, 6 and the value 24.
    """
    digits, _, target = problem.target.partition("-")
    answer = response.strip()
    if not _EXPRESSION.fullmatch(answer):
        return Grade(
            outcome="incorrect", extracted=None, reason="no expression of digits and + - *"
        )
    if sorted(answer[::2]) != sorted(digits):
        return Grade(outcome="incorrect", extracted=answer, reason="digits are not those given")
    reached = value(answer)
    if reached != int(target):
        return Grade(outcome="incorrect", extracted=answer, reason=f"value is {reached}")
    return Grade(outcome="correct", extracted=answer, reason="value is the target")


def grade_partial(problem: Problem, response: str) -> Grade:
    """The same with partial credit: LEGAL_REWARD for a legal expression that is worth something
    else."""
    judged = grade(problem, response)
    is_legal = judged.reason.startswith("value is") and judged.outcome == "incorrect"
    return replace(judged, reward=LEGAL_REWARD) if is_legal else judged


@lru_cache(maxsize=65_536)  # models repeat themselves, from draw to draw and step to step
def solution(expression: str) -> str:
    """The way in which an expression reaches its value: equal for those that differ only in the
    order of their terms, in that of the factors of a term, or by factors of 1.

    What else is equal in value stays apart: 2+2 and 2*2, and terms that cancel each other. A text
    that is no expression is returned as it is.

    >>> {solution(text) for text in ("9*3-2*1", "9*3-1*2", "3*9-2*1", "9*1*3-2")}
    {'9*3-2'}
    """
    if not _EXPRESSION.fullmatch(expression):
        return expression
    terms: dict[str, list[str]] = {"+": [], "-": []}
    for sign, term in re.findall(r"([+-]?)([1-9](?:\*[1-9])*)", expression):
        factors = sorted(term.replace("*", "").replace("1", ""), reverse=True)
        terms[sign or "+"].append("*".join(factors) or "1")
    added, taken = (sorted(terms[sign], reverse=True) for sign in "+-")
    return "+".join(added) + "".join(f"-{term}" for term in taken)


def value(expression: str) -> int:
    """Value of single digits joined by + - *, with the usual precedence.

    >>> value("6*3+5-1")
    22
    """
    total, sign, term = 0, 1, int(expression[0])
    for operator, digit in zip(expression[1::2], expression[2::2], strict=True):
        if operator == "*":
            term *= int(digit)
        else:
            total, sign, term = total + sign * term, (1 if operator == "+" else -1), int(digit)
    return total + sign * term
