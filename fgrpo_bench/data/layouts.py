"""From a publisher's row to a prompt and a gold: one pure function a layout.

Each takes a row and the names of its two columns (prompt_key, answer_key) and returns what stands
in their place. A missing column is a KeyError; no error tells anything of a row's content.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from fgrpo_bench.data.golds import quoted_items
from fgrpo_bench.graders.choice import LETTERS, options_in, permutation

Row = Mapping[str, Any]

GPQA_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
GPQA_ID = "Record ID"
GPQA_PUBLIC = ("High-level domain", "Subdomain")
"""Columns that tell nothing of a problem, of a dataset whose problems may not be shown."""


def plain(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """Two columns of text, one of which may join several, lie in an object or hold a chat."""
    return row_prompt(row, prompt_key), row_answer(row, answer_key)


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
    options = {letter: choices[i].strip() for letter, i in zip(LETTERS, order, strict=False)}
    return with_options(row[prompt_key], options), LETTERS[order.index(0)]


def synlogic(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """The prompt is the last message; the gold is the task's name and the game's data as JSON.

    prompt_key: a list of messages. answer_key: a structure with `game_data_str`.
    """
    target = {
        "task": str(row["data_source"]).removeprefix("val/"),
        "game_data": json.loads(row[answer_key]["game_data_str"]),
    }
    return row[prompt_key][-1]["content"], json.dumps(target, sort_keys=True)


def dump(row: Row, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """Problems of what another program drew, two texts as they are, known by `content_id`."""
    if not isinstance(row[prompt_key], str) or not isinstance(row[answer_key], str):
        raise ValueError("the problem or the answer is no text")
    return row[prompt_key], row[answer_key]


DUMP = "dump"
"""The layout whose problems are known by what they are."""
LAYOUTS: dict[str, Callable[[Row, str, str], tuple[Any, Any]]] = {
    "plain": plain,
    "olympiadbench": olympiadbench,
    "ifeval": ifeval,
    "gpqa": gpqa,
    "synlogic": synlogic,
    DUMP: dump,
}
ID_DIGITS = 12
"""Of a problem's digest: a million of them share none but for one chance in 500."""


def content_id(prompt: str, answer: str) -> str:
    """Digits by which a problem of a dump is known: equal ones of other files have the same.

    >>> content_id("1 +  1?", "2") == content_id("1 + 1? ", "2") != content_id("1 + 1?", "3")
    True
    """
    text = json.dumps([" ".join(prompt.split()), answer])
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def _gpqa_columns(row: Row) -> Row:
    return {name: row.get(name) for name in GPQA_PUBLIC}


def _synlogic_columns(row: Row) -> Row:
    return {**row, "task": str(row["data_source"]).removeprefix("val/")}


_FURTHER_COLUMNS: dict[str, Callable[[Row], Row]] = {
    "gpqa": _gpqa_columns,
    "synlogic": _synlogic_columns,
}


def further_columns(row: Row, layout: str) -> Row:
    """What of a row may stand beside its prompt and gold: all of it, with the game of SynLogic as
    `task`; of a gated layout those columns alone that tell nothing of the problem."""
    return _FURTHER_COLUMNS.get(layout, dict)(row)


# Columns of a stranger's file: joined, nested, a chat, and options beside the question.


class Unfit(ValueError):
    """A value that is no problem, answer or list of options; says nothing of its content."""


def column_names(key: str, columns: Collection[str]) -> list[str]:
    """The columns that a key means: one of that name, else those that it joins by commas. A dot
    leads into a column that holds objects."""
    return [key] if key in columns else [name.strip() for name in key.split(",")]


def value_in(row: Row, name: str) -> Any:
    """What a row has in a column, or at a dotted place in it; None where it has nothing."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def row_prompt(row: Row, key: str) -> Any:
    """Columns of a problem, joined by blank lines; None where there is nothing."""
    values = [value_in(row, name) for name in column_names(key, row)]
    texts = [_chat_text(value) for value in values]
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(str(text).strip() for text in texts if text not in _MISSING) or None


def _chat_text(value: Any) -> Any:
    """The text of a chat with one turn of a user, behind its system message; others as they are."""
    if isinstance(value, str) and value.startswith("[{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        is_chat = all(isinstance(turn, dict) and "role" in turn for turn in parsed)
        return _chat_text(parsed) if is_chat else value
    if not isinstance(value, list):
        return value
    if not all(
        isinstance(turn, Mapping) and isinstance(turn.get("content"), str) for turn in value
    ):
        raise Unfit("holds a list that is no chat: name a column of text with --prompt")
    roles = [turn.get("role") for turn in value]
    if roles.count("user") != 1 or set(roles[:-1]) - {"system"} or roles[-1] != "user":
        raise Unfit(
            "holds a chat that is more than one turn of a user behind system messages: write each "
            "problem as one text"
        )
    return "\n\n".join(turn["content"] for turn in value)


def row_answer(row: Row, key: str) -> Any:
    """A column of answers; a list of one and an object as JSON (`fgrpo_bench.data.golds`)."""
    value = value_in(row, key)
    if isinstance(value, list):
        if len(value) > 1:
            raise Unfit(
                f"holds a list of {len(value)} answers: write one, with its parts joined by commas"
            )
        return json.dumps(value, ensure_ascii=False, default=str) if value else None
    if isinstance(value, Mapping):
        filled = {name: inner for name, inner in value.items() if inner is not None}
        return json.dumps(filled, ensure_ascii=False, default=str) if filled else None
    return value


_OPTION_LABEL = re.compile(r"\s*+[(\[]?([A-Z])[)\].:]\s*+(.*+)", re.DOTALL)
_MISSING = (None, "")


def row_options(row: Row, key: str) -> dict[str, str]:
    """Letter and text of a row's options; empty where it has none.

    key: a column with a list, an object or a text of them, or columns of one each, joined by
    commas.
    """
    values = [value_in(row, name) for name in column_names(key, row)]
    return _lettered([v for v in values if v not in _MISSING] if len(values) > 1 else values[0])


def _lettered(value: Any) -> dict[str, str]:
    if value in _MISSING:
        return {}
    if isinstance(value, str):
        if (items := quoted_items(value)) is not None:
            return _lettered(items)
        if value.lstrip().startswith(("{", "[")):
            try:
                return _lettered(json.loads(value))
            except (ValueError, RecursionError):
                raise Unfit("holds options that are no JSON") from None
        if options := options_in(value):
            return options
    if isinstance(value, Mapping):
        texts, labels = value.get("text"), value.get("label")
        if isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels):
            return _lettered(texts)
        if value and all(re.fullmatch("[A-Za-z]", name) for name in value):
            filled = {name.upper(): inner for name, inner in value.items() if inner not in _MISSING}
            return dict(zip(sorted(filled), _texts(filled[n] for n in sorted(filled)), strict=True))
    if isinstance(value, list):
        if value and all(isinstance(item, Mapping) for item in value):
            return _lettered([item.get("text", item.get("content")) for item in value])
        texts = list(_texts(value))
        labelled = [_OPTION_LABEL.fullmatch(text) for text in texts]
        if all(labelled) and [label[1] for label in labelled if label] == [
            *LETTERS[: len(labelled)]
        ]:
            texts = [label[2] for label in labelled if label]
        return dict(zip(LETTERS, texts, strict=False))
    raise Unfit("holds no list of options, nor one as JSON: write them into the problems")


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Unfit("holds options that are no text")
        yield str(value).strip()


def _letters_by_label(row: Row, key: str) -> dict[str, str]:
    """The letter behind each label of a row's own that is another, e.g. 1 to 4."""
    value = value_in(row, key)
    labels = value.get("label") if isinstance(value, Mapping) else None
    labels = labels if isinstance(labels, list) else []
    pairs = zip(labels, LETTERS, strict=False)
    return {str(label): letter for label, letter in pairs if label != letter}


def question_with_options(row: Row, key: str, question: str, gold: Any) -> tuple[str, Any]:
    """A question with its options, behind it where it does not list them, and its gold, which is a
    letter where the options have labels that it is one of. key: as of `row_options`."""
    options = row_options(row, key)
    if len(options) < 2:
        raise Unfit("has no two options: leave it out")
    label = _letters_by_label(row, key).get(str(gold).strip())
    listed = lists_options(question, options)
    return question if listed else with_options(question, options), label or gold


ANSWER_BY_LETTER = "Answer with the letter of the right choice:"


def with_options(question: str, options: Mapping[str, str]) -> str:
    """A question with its options behind it in lines, and what is to be answered."""
    lines = [f"{letter}. {text}" for letter, text in options.items()]
    *others, last = options
    request = f"{ANSWER_BY_LETTER} {', '.join(others)} or {last}."
    return "\n".join([question.strip(), "", *lines, "", request])


def without_options(prompt: str) -> str:
    """The question of a prompt as `with_options` writes it; any other prompt as it is.

    >>> without_options(with_options("Which is prime?", {"A": "4", "B": "5"}))
    'Which is prime?'
    """
    question, blank, options = prompt.rpartition("\n\nA. ")
    return question if blank and f"\n\n{ANSWER_BY_LETTER}" in options else prompt


def lists_options(question: str, options: Mapping[str, str]) -> bool:
    """Whether a question has as many options within it already."""
    return len(options_in(question)) >= len(options)
