"""Tasks on sequences of brackets: completing one, the first error in one, errors in reasoning."""

from __future__ import annotations

import re
from typing import Any

from fgrpo_bench.graders.math import last_box
from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.records import Grade

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
        answer = game.wanted(_sequence(extract.last_line(text)), "sequence of brackets")
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
    same = {int(each) for each in re.findall("[0-9]+", numbers)} == gold
    return game.verdict(None if same else "other thoughts", answer)
