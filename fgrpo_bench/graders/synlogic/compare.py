"""Tasks with one answer, a word, a number or a list of them, mostly in a box."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

from fgrpo_bench.graders.math import last_box
from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.graders.synlogic.literals import number
from fgrpo_bench.records import Grade

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
    box = game.wanted(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _labels(box) == gold else "other labels", box)


def _labels(text: str) -> set[str] | None:
    """Single letters; None where there is anything else."""
    if not _LABELS.fullmatch(text):
        return None
    return {each.lower() for each in text if each.isalpha()}


def count(game_data: Any, response: str) -> Grade:
    """The integer in the box."""
    gold = number(game.text(game_data, "answer"))
    if gold is None or gold.denominator != 1:
        raise ValueError("the game's answer is no integer")
    return _number(gold, response, Fraction(0))


def operation(game_data: Any, response: str) -> Grade:
    """The number in the box: integers exactly, others to six places."""
    gold = number(game.text(game_data, "answer"))
    if gold is None:
        raise ValueError("the game's answer is no number")
    return _number(gold, response, TOLERANCE * max(Fraction(1), abs(gold)) / 2)


def _number(gold: Fraction, response: str, tolerance: Fraction) -> Grade:
    box = game.wanted(last_box(extract.final_text(response)), "box")
    value = number(box.strip(" $")) or number(extract.unstyled(box))
    if value is None:
        return game.verdict("no number", box)
    near = value == gold or (gold.denominator != 1 and abs(value - gold) <= tolerance)
    return game.verdict(None if near else "another number", box)


def name(game_data: Any, response: str) -> Grade:
    """The name in the box, whatever its capitals."""
    gold = game.text(game_data, "answer")
    box = game.wanted(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _plain(box) == _plain(gold) else "another name", box)


def names(game_data: Any, response: str) -> Grade:
    """The names in the box between commas, in any order."""
    gold = set(_list(game.text(game_data, "answer")))
    box = game.wanted(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if set(_list(box)) == gold else "other names", box)


def word_sorting(game_data: Any, response: str) -> Grade:
    """The words in the box between commas, in that order."""
    gold = _list(game.text(game_data, "answer"))
    box = game.wanted(extract.boxed(extract.final_text(response)), "box")
    return game.verdict(None if _list(box) == gold else "other words or another order", box)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(" .\u3002").casefold()


def _list(text: str) -> list[str]:
    return ["".join(each.split()) for each in _plain(text).translate(_COMMAS).split(",")]


def word_sorting_mistake(game_data: Any, response: str) -> Grade:
    """The number of the first wrong thought in the box; `No` where the gold is null."""
    gold = game.field(game_data, "answer")
    gold = "no" if gold is None else _plain(str(gold))
    box = game.wanted(extract.boxed(extract.final_text(response)), "box")
    answer = _plain(box).removeprefix("thought").strip()
    if gold.isdecimal() and answer.isdecimal():
        same = answer.lstrip("0") == gold.lstrip("0")
    else:
        same = answer == gold
    return game.verdict(None if same else "another thought", box)


def cipher(game_data: Any, response: str) -> Grade:
    """The text between double brackets, to the letter."""
    gold = game.text(game_data, "answer").strip().removeprefix("[[").removesuffix("]]")
    answer = game.wanted(
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
    gold = number(game.text(game_data, "answer"))
    if gold is None:
        raise ValueError("the game's answer is no number")
    match = game.wanted(
        extract.last_match(_TWO_PLACES, extract.final_text(response)), "number with two decimals"
    )
    return game.verdict(None if number(match[0]) == gold else "another number", match[0])
