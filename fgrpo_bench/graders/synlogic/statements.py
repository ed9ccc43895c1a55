"""Tasks told in words whose answer is a list: who lies, when to meet, who owns what, where mines
are."""

from __future__ import annotations

import re
from typing import Any

from fgrpo_bench.graders.math import last_box
from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.graders.synlogic.literals import parse_literal
from fgrpo_bench.records import Grade

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
    words = [word for word in _SEPARATORS.split(text.lower().strip("[]() ")) if word]
    if not words or not all(word in _YES or word in _NO for word in words):
        return None
    return [word in _YES for word in words]


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
    owners = game.wanted(_owners(value), "tuple of pairs")
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
