"""Reading what a model wrote as a list, tuple, dictionary, number or arithmetic expression.

Two parsers of our own in place of Python's, which would execute, nest or multiply without bound.
Length, depth and magnitude are bounded, and what is beyond a bound is no literal and no value.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

LONGEST_LITERAL = 6_000
"""Characters of a literal; a grid of 20 x 20 quoted cells with a line each has fewer."""
DEEPEST = 6
LONGEST_EXPRESSION = 200
LARGEST = 10**15
"""Magnitude of numerator and denominator of every value on the way."""

_TOKEN = re.compile(
    r"\s*+(?:#[^\n]*+\s*+)*+"
    r"(?:(?P<open>[\[({])|(?P<close>[\])}])|(?P<comma>[,\uff0c])|(?P<colon>:)"
    r"|'(?P<single>[^'\\\n]{0,200})'|\"(?P<double>[^\"\\\n]{0,200})\""
    r"|(?P<number>-?(?:0|[1-9][0-9]{0,14})(?![\w.])))"
)
_PAIRS = {"[": "]", "(": ")", "{": "}"}
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212]?)[ ]?(?:"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3}){1,6}|[0-9]{1,30})(?P<decimals>\.[0-9]{0,30})?"
    r"(?:[eE](?P<exponent>[-+]?[0-9]{1,2}))?(?:[ ]?/[ ]?(?P<below>[0-9]{1,30}))?"
    r"|\\[dt]?frac\{?(?P<top>-?[0-9]{1,30})\}?[ ]?\{?(?P<bottom>[0-9]{1,30})\}?)\.?"
)
_ARITHMETIC = re.compile(r"[0-9]{1,15}|\*\*|//|[-+*/%()]|(?P<other>[^ ])")


def parse_literal(text: str) -> Any:
    """A list, tuple or dictionary of strings, integers and such; None where it is none.

    Fewer than Python's literals: no names, no floats, no escapes in strings, keys are strings.
    A full-width comma and comments are read too.

    >>> parse_literal("[(1, 'a'), -2,]"), parse_literal("[1] * 10**9"), parse_literal("{'A': [1]}")
    ([(1, 'a'), -2], None, {'A': [1]})
    """
    if len(text) > LONGEST_LITERAL:
        return None
    stack: list[tuple[str, list[Any]]] = []
    due = True  # whether a value may come next
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at, kind = token.end(), token.lastgroup
        if kind == "open":
            if not due or len(stack) == DEEPEST:
                return None
            stack.append((token[kind], []))
            continue
        if not stack:
            return None
        bracket, items = stack[-1]
        if kind == "close":
            if token[kind] != _PAIRS[bracket]:
                return None
            stack.pop()
            value = _closed(bracket, items, commas=due and bool(items))
            if value is None:
                return None
            if not stack:
                return value if at >= end else None
            stack[-1][1].append(value)
            due = False
        elif kind == "comma":
            if due or (bracket == "{" and len(items) % 2):
                return None
            due = True
        elif kind == "colon":
            if bracket != "{" or due or len(items) % 2 == 0:
                return None
            due = True
        else:
            if not due or kind is None:
                return None
            items.append(int(token[kind]) if kind == "number" else token[kind])
            due = False
    return None


def _closed(bracket: str, items: list[Any], *, commas: bool) -> Any:
    """The value of a bracket and its items; commas: whether a comma ended them."""
    if bracket == "[":
        return items
    if bracket == "(":
        return items[0] if len(items) == 1 and not commas else tuple(items)
    keys, values = items[::2], items[1::2]
    if len(keys) != len(values) or not all(isinstance(key, str) for key in keys):
        return None
    return dict(zip(keys, values, strict=True))


def number(text: str) -> Fraction | None:
    r"""An integer, decimal or fraction, exactly; None where the text is none.

    >>> number("-1,425"), number("0.5"), number(r"\frac{11}{18}"), number("3 apples")
    (Fraction(-1425, 1), Fraction(1, 2), Fraction(11, 18), None)
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    if match["top"] is not None:
        top, bottom = int(match["top"]), int(match["bottom"])
    else:
        decimals = (match["decimals"] or ".")[1:]
        top = int(match["whole"].replace(",", "") + decimals)
        bottom = 10 ** len(decimals) * int(match["below"] or 1)
        exponent = int(match["exponent"] or 0)
        top, bottom = top * 10 ** max(exponent, 0), bottom * 10 ** max(-exponent, 0)
    if bottom == 0:
        return None
    return Fraction(-top if match["sign"] in ("-", "\u2212") else top, bottom)


def arithmetic_tokens(expression: str) -> list[str] | None:
    """Numbers, operators and parentheses of an expression; None where it is too long or has else.

    >>> arithmetic_tokens("(5-1) * 6")
    ['(', '5', '-', '1', ')', '*', '6']
    """
    if len(expression) > LONGEST_EXPRESSION:
        return None
    tokens = []
    for match in _ARITHMETIC.finditer(" ".join(expression.split())):
        if match["other"]:
            return None
        tokens.append(match[0])
    return tokens


def arithmetic(tokens: list[str]) -> Fraction | None:
    """Exact value with Python's precedence of + - * / %; None where it is malformed, divides by
    zero or leaves the bounds. `**` and `//` are malformed.

    >>> arithmetic(["7", "%", "4", "*", "(", "5", "-", "1", ")"])
    Fraction(12, 1)
    """
    if len(tokens) > LONGEST_EXPRESSION:
        return None
    values: list[Fraction] = []
    pending: list[str] = []
    due = True  # whether a number, a sign or an opening parenthesis comes next
    for token in tokens:
        if token == "(":
            if not due:
                return None
            pending.append(token)
        elif token == ")":
            if due or not _apply(values, pending, lowest=0) or not pending:
                return None
            pending.pop()
        elif token[0].isdigit():
            if not due:
                return None
            values.append(Fraction(int(token)))
            due = False
        elif due:
            if token not in "+-":
                return None
            pending.append("negative" if token == "-" else "positive")
        else:
            if token not in _RANK or not _apply(values, pending, lowest=_RANK[token]):
                return None
            pending.append(token)
            due = True
    if due or not _apply(values, pending, lowest=0) or pending:
        return None
    return values[0]


_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "negative": 3, "positive": 3}


def _apply(values: list[Fraction], pending: list[str], *, lowest: int) -> bool:
    """Apply pending operators down to a rank or an opening parenthesis; False where one cannot."""
    while pending and pending[-1] != "(" and _RANK[pending[-1]] >= lowest:
        operator, right = pending.pop(), values.pop()
        if operator in ("negative", "positive"):
            values.append(-right if operator == "negative" else right)
            continue
        left = values.pop()
        if operator in "/%" and right == 0:
            return False
        values.append(_operated(left, operator, right))
        if max(abs(values[-1].numerator), values[-1].denominator) > LARGEST:
            return False
    return True


def _operated(left: Fraction, operator: str, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if operator == "/" else left % right
