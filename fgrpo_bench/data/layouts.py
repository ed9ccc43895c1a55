"""From a publisher's row to a prompt and a gold: one pure function a layout.

Each takes a row and the names of its two columns (prompt_key, answer_key) and returns what stands
in their place. A missing column is a KeyError; no error tells anything of a row's content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fgrpo_bench.graders.choice import LETTERS, permutation

Row = Mapping[str, Any]

GPQA_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
GPQA_ID = "Record ID"


def plain(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """The two columns as they are."""
    return row.get(prompt_key), row.get(answer_key)


def olympiadbench(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """The gold is a list with one text for all answers."""
    return row[prompt_key], ", ".join(row[answer_key])


def ifeval(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """The gold is the list of instructions with their arguments, those that are given, as JSON.

    e.g. {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    """
    given = [
        {key: value for key, value in arguments.items() if value is not None}
        for arguments in row["kwargs"]
    ]
    target = {"instruction_id_list": list(row[answer_key]), "kwargs": given}
    return row[prompt_key], json.dumps(target, sort_keys=True)


def gpqa(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """Four choices in an order that follows from the record's id alone; the gold is a letter."""
    choices = [row[answer_key], *(row[key] for key in GPQA_WRONG)]
    if not all(isinstance(text, str) and text.strip() for text in [row[prompt_key], *choices]):
        raise ValueError("the question or a choice is empty")
    order = permutation(row[GPQA_ID])
    lines = [f"{letter}. {choices[i].strip()}" for letter, i in zip(LETTERS, order, strict=False)]
    question = row[prompt_key].strip()
    asked = "Answer with the letter of the right choice: A, B, C or D."
    return "\n".join([question, "", *lines, "", asked]), LETTERS[order.index(0)]


def synlogic(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """The prompt is the last message; the gold is the task's name and the game's data as JSON.

    prompt_key: a list of messages. answer_key: a structure with `game_data_str`.
    """
    target = {
        "task": str(row["data_source"]).removeprefix("val/"),
        "game_data": json.loads(row[answer_key]["game_data_str"]),
    }
    return row[prompt_key][-1]["content"], json.dumps(target, sort_keys=True)


LAYOUTS: dict[str, Callable[[Row, str, str], tuple[Any, Any]]] = {
    "plain": plain,
    "olympiadbench": olympiadbench,
    "ifeval": ifeval,
    "gpqa": gpqa,
    "synlogic": synlogic,
}
