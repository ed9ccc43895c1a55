"""Countdown arithmetic: is `5*2*3-6` built from the digits 3 2 5 6 and worth 24?

The response is untrusted text: it is matched against one fixed form and computed here, digit by
digit, with the usual precedence. Nothing of it is ever evaluated.
"""

from __future__ import annotations

import re
from dataclasses import replace

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
