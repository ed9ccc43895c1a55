"""Tasks whose answer is a word, a number, a list of them, a sequence of brackets or an equation.

In: a game's data and a response. Out: a grade. Where there are several right answers, as of an
equation, every one is right; else the answer is compared with the stored one. `grids` has the tasks
whose answer is a grid.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.graders.math import last_box
from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.graders.synlogic.extract import (
    arithmetic,
    arithmetic_tokens,
    parse_literal,
    read_number,
)

TOLERANCE = Fraction(1, 10**6)
"""How far a decimal may be from a gold that is no integer: six places, as math-verify rounds."""

_LABELS = re.compile("[A-Za-z]?(?:[\\s,;.()\uff0c\u3001]*+[A-Za-z])*+[\\s,;.()\uff0c\u3001]*+")
_TWO_PLACES = re.compile(
    r"(?<![0-9.,])-?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})\.[0-9]{2}(?![0-9])"
)
_COMMAS = str.maketrans("\uff0c\u3001", ",,")


def boolean_expressions(game_data: Any, response: str) -> Grade:
    """The labels of all true expressions in the box, in any order."""
    gold = _labels(game.text(game_data, "answer"))
    if not gold:
        raise ValueError("the game's answer has no labels")
    box = game.require_answer(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _labels(box) == gold else "other labels", box)


def _labels(text: str) -> set[str] | None:
    """Single letters; None where there is anything else."""
    if not _LABELS.fullmatch(text):
        return None
    return {label.lower() for label in text if label.isalpha()}


def count(game_data: Any, response: str) -> Grade:
    """The integer in the box."""
    gold = read_number(game.text(game_data, "answer"))
    if gold is None or gold.denominator != 1:
        raise ValueError("the game's answer is no integer")
    return _number(gold, response, Fraction(0))


def operation(game_data: Any, response: str) -> Grade:
    """The number in the box: integers exactly, others to six places."""
    gold = read_number(game.text(game_data, "answer"))
    if gold is None:
        raise ValueError("the game's answer is no number")
    return _number(gold, response, TOLERANCE * max(Fraction(1), abs(gold)) / 2)


def _number(gold: Fraction, response: str, tolerance: Fraction) -> Grade:
    box = game.require_answer(last_box(extract.final_text(response)), "box")
    value = read_number(box.strip(" $")) or read_number(extract.unstyled(box))
    if value is None:
        return game.verdict("no number", box)
    near = value == gold or (gold.denominator != 1 and abs(value - gold) <= tolerance)
    return game.verdict(None if near else "another number", box)


def name(game_data: Any, response: str) -> Grade:
    """The name in the box, whatever its capitals."""
    gold = game.text(game_data, "answer")
    box = game.require_answer(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _plain(box) == _plain(gold) else "another name", box)


def names(game_data: Any, response: str) -> Grade:
    """The names in the box between commas, in any order."""
    gold = set(_list(game.text(game_data, "answer")))
    box = game.require_answer(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if set(_list(box)) == gold else "other names", box)


def word_sorting(game_data: Any, response: str) -> Grade:
    """The words in the box between commas, in that order."""
    gold = _list(game.text(game_data, "answer"))
    box = game.require_answer(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _list(box) == gold else "other words or another order", box)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(" .\u3002").casefold()


def _list(text: str) -> list[str]:
    return ["".join(item.split()) for item in _plain(text).translate(_COMMAS).split(",")]


def word_sorting_mistake(game_data: Any, response: str) -> Grade:
    """The number of the first wrong thought in the box; `No` where the gold is null."""
    gold = game.field(game_data, "answer")
    gold = "no" if gold is None else _plain(str(gold))
    box = game.require_answer(extract.boxed(extract.final_text(response)), "box")
    answer = _plain(box).removeprefix("thought").strip()
    if gold.isdecimal() and answer.isdecimal():
        same = answer.lstrip("0") == gold.lstrip("0")
    else:
        same = answer == gold
    return game.verdict(None if same else "another thought", box)


def cipher(game_data: Any, response: str) -> Grade:
    """The text between double brackets, to the letter."""
    gold = game.text(game_data, "answer").strip().removeprefix("[[").removesuffix("]]")
    answer = game.require_answer(
        extract.double_bracketed(extract.final_text(response)), "text between double brackets"
    )
    answer = extract.undecorated(answer)
    same = answer == extract.undecorated(gold)
    return game.verdict(None if same else "another text", answer)


def arc_agi(game_data: Any, response: str) -> Grade:
    """The grid of integers, in a JSON block or last in the text."""
    gold = _stored(game_data)
    if not game.is_grid(gold, game.is_integer):
        raise ValueError("the game's answer is no grid of integers")
    answer = game.literal(
        response,
        "grid of integers",
        lambda value: game.is_grid(value, game.is_integer),
        in_block="json",
    )
    same = [list(row) for row in answer] == [list(row) for row in gold]
    return game.verdict(None if same else "another grid", answer)


def zebra_puzzle(game_data: Any, response: str) -> Grade:
    """The dictionary, in a JSON block or last in the text, to the letter."""
    gold = _stored(game_data)
    if not isinstance(gold, dict):
        raise ValueError("the game's answer is no dictionary")
    answer = game.literal(
        response, "dictionary", lambda value: isinstance(value, dict), in_block="json"
    )
    return game.verdict(None if answer == gold else "another assignment", answer)


def _stored(game_data: Any) -> Any:
    """The answer, read where it is JSON."""
    stored = game.field(game_data, "answer")
    try:
        return json.loads(stored) if isinstance(stored, str) else stored
    except RecursionError as error:
        raise ValueError("the game's answer nests too deep") from error


def buggy_tables(game_data: Any, response: str) -> Grade:
    """The last number with exactly two decimals."""
    gold = read_number(game.text(game_data, "answer"))
    if gold is None:
        raise ValueError("the game's answer is no number")
    match = game.require_answer(
        extract.last_match(_TWO_PLACES, extract.final_text(response)), "number with two decimals"
    )
    return game.verdict(None if read_number(match[0]) == gold else "another number", match[0])


# Sequences of brackets: completing one, the first error in one, errors in reasoning.

_BRACKETS = frozenset("()[]{}<>")
_SAME_AS_NONE = frozenset(["no", "none", "no error", "no errors", "valid"]) | frozenset(
    ["\u65e0", "\u65e0\u95ee\u9898", "\u65e0\u9519\u8bef", "\u6ca1\u6709\u9519\u8bef"]
)
"""In Chinese: none, no problem, no error, there is no error."""
_VALID = frozenset(["-1", "valid", "\u5408\u6cd5"])
_STEP = re.compile("(?i:thoughts?|steps?|and)|\u601d\u8003\u8fc7\u7a0b|\u548c")
_STEPS = re.compile("[0-9]{1,4}(?:[\\s,\uff0c\u3001]++[0-9]{1,4})*+")


def dyck_language(game_data: Any, response: str) -> Grade:
    """The whole sequence with its shortest completion, alone, in a box or on the last line."""
    gold = "".join(game.text(game_data, "metadata", "full_sequence").split())
    text = extract.final_text(response)
    answer = _sequence(text)
    if answer is None and (box := last_box(text)) is not None:
        answer = _sequence(box)
    if answer is None:
        answer = _sequence(extract.after_phrase(text) or "")
    if answer is None:
        answer = game.require_answer(_sequence(extract.last_line(text)), "sequence of brackets")
    return game.verdict(None if answer == gold else "another sequence", answer)


def _sequence(text: str) -> str | None:
    """Brackets alone, without spaces, quotes and escapes; None where there is anything else."""
    sequence = "".join(text.replace("\\{", "{").replace("\\}", "}").split())
    sequence = extract.undecorated(sequence)
    return sequence if sequence and _BRACKETS.issuperset(sequence) else None


def dyck_language_errors(game_data: Any, response: str) -> Grade:
    """Position of the first error, from 1; -1 for a valid sequence."""
    valid = game.field(game_data, "metadata", "is_valid")
    if not isinstance(valid, bool):
        raise ValueError("the game's metadata.is_valid is no truth value")
    gold = "-1" if valid else str(game.integer(game_data, "metadata", "first_error_pos"))
    answer = extract.short_answer(extract.final_text(response)).lower()
    same = answer in _VALID if valid else answer.lstrip("0") == gold
    return game.verdict(None if same else "another position", answer[: extract.SHORT])


def dyck_language_reasoning_errors(game_data: Any, response: str) -> Grade:
    """The numbers of all wrong thoughts, in any order; an empty string in quotes for none."""
    gold = set(game.integers(game_data, "metadata", "error_indices"))
    text = extract.final_text(response)
    if text.strip("`* ") in ('""', "''"):
        return game.verdict("there are errors" if gold else None, '""')
    answer = extract.short_answer(text)[: extract.SHORT]
    if answer.lower() in _SAME_AS_NONE:
        return game.verdict("there are errors" if gold else None, answer)
    numbers = answer.replace("\uff1a", ":").rpartition(":")[2]
    numbers = _STEP.sub(" ", numbers).strip("[]() ")
    numbers = " , ".join(part.strip() for part in numbers.split(",") if part.strip())
    if not _STEPS.fullmatch(numbers):
        return game.verdict("no list of numbers", answer)
    same = {int(number) for number in re.findall("[0-9]+", numbers)} == gold
    return game.verdict(None if same else "other thoughts", answer)


# Told in words, with a list as the answer: who lies, when to meet, who owns what, where mines are.

_YES = frozenset(["yes", "true", "\u662f", "\u771f", "\u771f\u8bdd"])
_NO = frozenset(["no", "false", "\u5426", "\u5047", "\u5047\u8bdd"])
"""In Chinese: yes, true, truth; no, false, lie."""
_SEPARATORS = re.compile("[\\s,;*\uff0c\u3001\uff1b]+")
_BOLD = re.compile(r"\*\*([^*]{1,400})\*\*")


def web_of_lies(game_data: Any, response: str) -> Grade:
    """Yes or no, in the order of the questions: boxed, bold, or after the last `answer is`."""
    gold = _truths(game.text(game_data, "answer"))
    if gold is None:
        raise ValueError("the game's answer is no list of yes and no")
    text = extract.final_text(response)
    for part in _candidates(text):
        answer = _truths(extract.undecorated(extract.unstyled(part)))
        if answer is not None:
            return game.verdict(None if answer == gold else "other truths", part)
    raise game.NoAnswer("no list of yes and no found")


def _candidates(text: str) -> list[str]:
    """Parts of a text that may hold the list, the likeliest first."""
    bold = _BOLD.findall(text)
    parts = [last_box(text), extract.after_phrase(text), bold[-1] if bold else None]
    return [part for part in [*parts, extract.last_line(text)] if part is not None]


def _truths(text: str) -> list[bool] | None:
    """None where there is any other word, or none at all."""
    answers = [word for word in _SEPARATORS.split(text.lower().strip("[]() ")) if word]
    if not answers or not all(word in _YES or word in _NO for word in answers):
        return None
    return [word in _YES for word in answers]


def time_sequence(game_data: Any, response: str) -> Grade:
    """[longest duration, how many options]; where there is no meeting, a zero is enough."""
    path = ("metadata", "records", "answers")
    longest = game.integer(game_data, *path, "answer_maxLen")
    options = game.integer(game_data, *path, "answer_nums")
    text = extract.final_text(response)
    answer = extract.literal(
        text, lambda value: isinstance(value, list) and game.is_row(value, game.is_integer)
    )
    if answer is None:
        if longest == 0 and extract.short_answer(text) == "0":
            return game.verdict(None, "0")
        raise game.NoAnswer("no list of two integers found")
    same = answer == [longest, options] or (longest == 0 and answer in ([0], [0, 0]))
    return game.verdict(None if same else "another duration or number of options", answer)


def goods_exchange(game_data: Any, response: str) -> Grade:
    """A tuple of (person, item) in any order, whatever the capitals."""
    gold = _owners(parse_literal(game.text(game_data, "metadata", "owns_after")))
    if gold is None:
        raise ValueError("the game's metadata.owns_after is no tuple of pairs")
    text = extract.final_text(response)
    value = extract.literal(text, lambda value: _owners(value) is not None, in_block="python")
    owners = game.require_answer(_owners(value), "tuple of pairs")
    return game.verdict(None if owners == gold else "other owners", value)


def _owners(value: Any) -> dict[str, str] | None:
    """Item of every person; None where it is no tuple of pairs or names a person twice."""
    if not isinstance(value, tuple | list) or not value:
        return None
    if not all(game.is_row(pair, game.is_text) and len(pair) == 2 for pair in value):
        return None
    owners = {person.strip().casefold(): item.strip().casefold() for person, item in value}
    return owners if len(owners) == len(value) else None


def minesweeper(game_data: Any, response: str) -> Grade:
    """The list of all cells that must be mines, in any order, rows and columns from 0."""
    gold = game.cells(game.field(game_data, "metadata", "current_mines"))
    if gold is None:
        raise ValueError("the game's metadata.current_mines is no list of cells")
    value = game.literal(response, "list of cells", _is_cells)
    return game.verdict(None if game.cells(value) == gold else "other cells", value)


def _is_cells(value: Any) -> bool:
    return isinstance(value, list) and game.cells(value) is not None


# Arithmetic, computed here and exactly. `/` is true division and `%` has the sign of its right
# side, as in Python.

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
    answer = game.require_answer(extract.block(extract.final_text(response)), "python block")
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
    answer = game.require_answer(
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
    answer = game.require_answer(_last_equation(extract.final_text(response)), "equation")
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
