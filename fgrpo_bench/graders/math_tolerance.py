"""Mathematics with a tolerance: numeric golds within 1e-4 of the gold, else as `math`.

Golds of Minerva are results of computations with rounded constants, which math-verify compares at
an absolute precision of six decimals. Here a gold that is a number, and an answer that is one too,
are equal where they differ by at most 1e-4 of the gold. The name of a quantity before an answer and
its unit behind it are passed over. Everything else is what `math` says.
"""

from __future__ import annotations

import re
from decimal import Decimal

from fgrpo_bench.core.problems import BY_PLACE, Grade, Problem
from fgrpo_bench.graders import math
from fgrpo_bench.graders.judge import Judge, default_judge
from fgrpo_bench.graders.math_notation import normalise
from fgrpo_bench.graders.math_reading import denies

TOLERANCE = Decimal("1e-4")
"""Largest difference of an answer, as a share of the gold."""

_NUMBER = re.compile(
    r"([+-]?(?:[0-9]{1,30}|[0-9]{1,3}(?:(?:,|\{,\}|\\,)[0-9]{3}){1,8})(?:\.[0-9]{0,30})?"
    r"|[+-]?\.[0-9]{1,30})"
    r"(?:\s*\\(?:times|cdot)\s*10\s*\^\s*(?:\{\s*([+-]?[0-9]{1,4})\s*\}|([0-9])))?"
)
_POWER = re.compile(r"([+-]?)10\s*\^\s*(?:\{\s*([+-]?[0-9]{1,4})\s*\}|([0-9]))")
_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\{([0-9]{1,30})\}\{([0-9]{1,30})\}")
_NAME = re.compile(
    r"\s*+(?:\\?[A-Za-z]++|\\[A-Za-z]++\{[A-Za-z ]++\})(?:_(?:\w|\{[^{}=]*+\}))?"
    r"\s*+(?:=|\\approx)\s*+"
)
_UNIT = re.compile(
    r"(?<=[0-9}.])(?:\s|~|\\[ ,;:]|\\q?quad(?![A-Za-z]))*+"
    r"\\(?:text|textrm|mathrm|mbox|rm|operatorname)\s*+\{((?:(?!per ?cent|pct)[^{}\\%])*+)\}"
    r"(?:\^(?:-?[0-9]|\{-?[0-9]\}))?\s*+"
)


def grade(problem: Problem, response: str) -> Grade:
    """Judge a response by the judge of this process; see the top of the module.

    problem.target: the gold answer, e.g. "4.5e33". Blocks and raises as fgrpo_bench.graders.math.
    """
    return grade_with(default_judge(), problem, response)


def grade_strict(problem: Problem, response: str) -> Grade:
    """As `grade`, but an answer counts only where a box, a tag or an answer sentence states it."""
    return grade_with(default_judge(), problem, response, strict=True)


def grade_with(judge: Judge, problem: Problem, response: str, *, strict: bool = False) -> Grade:
    """As `grade` or `grade_strict`, by a given judge."""
    gold = normalise(problem.target)
    value = number(gold)
    stated = math.stated_answer(math.spoken(response), gold) if value is not None else None
    if value is not None and stated and (near := _close(value, stated.answer, stated.where)):
        return near
    otherwise = math.grade_with(judge, problem, response, strict=strict)
    if value is None or stated:
        return otherwise
    return _close(value, otherwise.extracted or "", BY_PLACE) or otherwise


def _close(gold: Decimal, answer: str, where: str) -> Grade | None:
    """The grade where the answer is a number, else None."""
    given = number(_bare(normalise(answer))) if len(answer) <= math.LONGEST else None
    if given is None:
        return None
    near = abs(given - gold) <= TOLERANCE * abs(gold)
    return Grade(
        outcome="correct" if near else "incorrect",
        extracted=answer,
        reason=("within" if near else "not within") + f" 1e-4 of the gold{where}",
    )


def _bare(answer: str) -> str:
    """Without `E =` in front and one `\\text{ J}` behind; a text that is more than a unit stays."""
    if (name := _NAME.match(answer)) and not denies(name[0]):
        answer = answer[name.end() :]
    behind = _UNIT.search(answer)
    if behind and behind.end() == len(answer) and not denies(behind[1]):
        answer = answer[: behind.start()]
    return answer


def number(text: str) -> Decimal | None:
    """The value of a plain number, a power of ten or a fraction of integers; None for all else.

    >>> number(r"-6.67 \\times 10^{-11}"), number(r"\\frac{1}{4}"), number("2x")
    (Decimal('-6.67E-11'), Decimal('0.25'), None)
    """
    text = text.strip()
    if plain := _NUMBER.fullmatch(text):
        mantissa = re.sub(r",|\{|\}|\\", "", plain[1])
        return Decimal(mantissa).scaleb(int(plain[2] or plain[3] or 0))
    if power := _POWER.fullmatch(text):
        return Decimal(f"{power[1]}1").scaleb(int(power[2] or power[3]))
    if (fraction := _FRACTION.fullmatch(text)) and int(fraction[3]):
        return Decimal(f"{fraction[1]}{fraction[2]}") / Decimal(fraction[3])
    return None
