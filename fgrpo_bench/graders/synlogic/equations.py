"""Tasks whose answer is arithmetic, computed here and exactly: every solution is right.

`/` is true division and `%` has the sign of its right side, as in Python.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.graders.synlogic.literals import arithmetic, arithmetic_tokens
from fgrpo_bench.records import Grade

_EQUATION = re.compile(
    r"(?<![0-9+\-* ])[ +\-*]*+([0-9][0-9+\-* ]{2,160}+=[ ]?-?[0-9]{1,20})(?![0-9])"
)
_SIGNS = (("\u00d7", "*"), ("\u2212", "-"), ("\\times", "*"), ("\\cdot", "*"), ("**", "\n"))
_QUERY = re.compile(r"[0-9?+\-*/%() ]{1,200}=[ ]*-?[0-9?]{1,15}[ ]*")


def game_of_24(game_data: Any, response: str) -> Grade:
    """An expression in a Python block with every number once, the operators, and that value."""
    numbers = game.integers(game_data, "metadata", "numbers")
    operators = set(game.texts(game_data, "metadata", "operators"))
    result = game.integer(game_data, "metadata", "result")
    answer = game.wanted(extract.block(extract.final_text(response)), "python block")
    tokens = arithmetic_tokens(answer)
    if tokens is None:
        return game.verdict("no expression of numbers, operators and parentheses", answer)
    used = sorted(token for token in tokens if token.isdecimal())
    if used != sorted(map(str, numbers)):
        return game.verdict("the numbers are not those given", answer)
    if not {token for token in tokens if not token.isdecimal()} <= operators | {"(", ")"}:
        return game.verdict("another operator", answer)
    value = arithmetic(tokens)
    if value is None:
        return game.verdict("the expression has no value", answer)
    return game.verdict(None if value == result else f"the value is {value}", answer)


def math_path(game_data: Any, response: str) -> Grade:
    """The equation between double brackets, every `?` a digit and all else as it was, and true."""
    query = "".join(game.text(game_data, "metadata", "query_expr").split())
    if not _QUERY.fullmatch(query):
        raise ValueError("the game's metadata.query_expr is no equation")
    answer = game.wanted(
        extract.double_bracketed(extract.final_text(response)), "equation between double brackets"
    )
    filled = "".join(answer.split())
    if len(filled) != len(query) or not all(
        character in "0123456789" if given == "?" else character == given
        for given, character in zip(query, filled, strict=True)
    ):
        return game.verdict("not the equation with digits in its gaps", answer)
    left, _, right = filled.partition("=")
    value = _value(left)
    return game.verdict(
        None if value is not None and value == _value(right) else f"the left side is {value}",
        answer,
    )


def cryptarithm(game_data: Any, response: str) -> Grade:
    """The last equation: one digit a letter, another for each, no leading zero, and true."""
    words = game.texts(game_data, "metadata", "letter_words")
    operators = game.texts(game_data, "metadata", "operators")
    letters = set("".join(words))
    if (
        len(operators) != len(words) - 2
        or not set(operators) <= {"+", "-", "*"}
        or not all(word.isalpha() for word in words)
        or len(letters) > 10
        or max(map(len, words)) > 15
    ):
        raise ValueError("the game's metadata.letter_words and operators make no equation")
    answer = game.wanted(_last_equation(extract.final_text(response)), "equation")
    numbers = re.findall("[0-9]+", answer)
    left, _, right = answer.partition("=")
    if re.findall(r"[+\-*]", left) != operators or [*map(len, numbers)] != [*map(len, words)]:
        return game.verdict("another equation", answer)
    digits = dict(zip("".join(words), "".join(numbers), strict=True))
    if "".join(digits[letter] for letter in "".join(words)) != "".join(numbers):
        return game.verdict("a letter stands for two digits", answer)
    if len(set(digits.values())) != len(digits):
        return game.verdict("two letters stand for one digit", answer)
    if any(number[0] == "0" and len(number) > 1 for number in numbers):
        return game.verdict("a number begins with 0", answer)
    if right.startswith("-") != ("=-" in "".join(game.text(game_data, "answer").split())):
        return game.verdict("the result has another sign", answer)
    value = _value(left)
    return game.verdict(None if value is not None and value == _value(right) else "untrue", answer)


def _last_equation(text: str) -> str | None:
    for sign, plain in _SIGNS:
        text = text.replace(sign, plain)
    last = extract.last_match(_EQUATION, text)
    return None if last is None else "".join(last[1].split())


def _value(expression: str) -> Fraction | None:
    """None where it is none or has a number with a leading zero, as Python has it."""
    tokens = arithmetic_tokens(expression)
    if tokens is None or any(len(token) > 1 and token[0] == "0" for token in tokens):
        return None
    return arithmetic(tokens)
