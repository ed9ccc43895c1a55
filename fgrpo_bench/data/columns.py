"""What the columns of a stranger's file mean: problem, answer, options; and what is left out.

In: a file's first rows, and the columns that a person names. Out: `Columns`, with a line for a
person about all that was looked up or left out; as a dataset, `file_dataset`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import golds, layouts
from fgrpo_bench.data.rows import WINDOWS, detect_encoding, first_rows
from fgrpo_bench.graders import BOXED, CHOICE
from fgrpo_bench.specs import DatasetSpec

PROMPTS = ("prompt", "question", "problem"), ("instruction", "query"), ("input",)
ANSWERS = (
    (*("answer", "gold", "target", "expected_answer", "final_answer", "ground_truth"),
     *("gt", "gold_answer", "correct_answer", "answerkey")),
    ("solution", "label", "output", "reference", "correct", "answer_idx", "correct_option", "cop"),
    ("reward_model.ground_truth",),
)  # fmt: skip
"""Names of columns that are taken where none is given; the latter where there is none of the
former, as `solution` is often the way to `answer`."""
CONTEXTS = ("context", "passage", "body", "story", "premise", "paragraph", "article", "background")
"""Names of columns that look like part of the question."""
OPTIONS = ("options", "choices", "option", "choice_list", "answer_choices", "endings")
MARKS = 0.9
"""Share of answers that are letters or places of options, from which on all are meant so."""
_OPTION_COLUMN = re.compile(r"(|(?:option|choice|opt?|answer)[ _-]?)([A-H1-8])", re.IGNORECASE)
"""Groups: what the columns of one option each have in common, and which option it is."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file are used."""

    prompt: str
    answer: str
    options: str | None
    """That are put behind each problem that does not list them."""
    said: tuple[str, ...]
    """For a person: what was found beside problem and answer."""


def question_columns(
    path: Path, *, prompt: str | None, answer: str | None, grader: str, cluster: str | None = None
) -> Columns:
    """The columns that are named, or have a usual name; FileNotFoundError or ValueError where the
    file is none, or neither says which."""
    rows = first_rows(path)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if not columns:
        raise ValueError(f"{path} holds no rows: give a file with a problem a row")
    filled = {name: any(_is_filled(row.get(name)) for row in rows) for name in columns}
    prompt = _choose_column("--prompt", prompt, filled, PROMPTS, path, rows)
    answer = _choose_column("--answer", answer, filled, ANSWERS, path, rows)
    if prompt == answer:
        raise ValueError(f"--prompt and --answer are both {prompt!r}: name two columns of {path}")
    if cluster is not None:
        _choose_column("--cluster", cluster, filled, (), path)
    options = _options(filled, rows)
    notes = [*_unused_columns(prompt, answer, filled)]
    if options is not None:
        used, line = _options_use(options, prompt, answer, grader, rows)
        notes.insert(0, line)
        options = options if used else None
    if path.suffix != ".parquet" and detect_encoding(path) == WINDOWS:
        notes.append("text: read as Windows-1252, as it is no UTF-8")
    return Columns(prompt=prompt, answer=answer, options=options, said=tuple(notes))


def _is_filled(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _choose_column(
    option: str,
    given: str | None,
    filled: Mapping[str, bool],
    usual: Sequence[Sequence[str]],
    path: Path,
    rows: Sequence[layouts.Row] = (),
) -> str:
    """The column that an option names, or the only one of a usual name; ValueError where neither
    says which. filled: the columns, and whether anything stands there."""
    there = f"{path} has the columns {', '.join(filled)}"
    if given is not None:
        for name in layouts.column_names(given, filled) if option == "--prompt" else [given]:
            if name not in filled and not _leads(name, rows):
                raise ValueError(f"{option} {name}{suggestion(name, filled)}: {there}")
        return given
    nested = [name for names in usual for name in names if "." in name and _leads(name, rows)]
    candidates = [*filled, *nested]
    for only_filled in (True, False):
        by_tier = (
            [name for name in candidates if name.lower() in names
             and (filled.get(name, True) or not only_filled)]
            for names in usual
        )  # fmt: skip
        fitting = next(filter(None, by_tier), [])
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            break
    why = f"{' and '.join(fitting)} may be meant" if fitting else "none has a usual name"
    raise ValueError(f"{there}, of which {why}: name one with {option}")


def _leads(name: str, rows: Sequence[layouts.Row]) -> bool:
    """Whether a dotted name leads to something."""
    return any(layouts.value_in(row, name) is not None for row in rows)


def _unused_columns(prompt: str, answer: str, filled: Mapping[str, bool]) -> Iterator[str]:
    """Columns that look like part of the question and are not used."""
    used = {*layouts.column_names(prompt, filled), *layouts.column_names(answer, filled)}
    for name, is_filled in filled.items():
        is_context = name.lower() in CONTEXTS or (
            name.lower() == "input" and prompt.lower() == "instruction"
        )
        if is_filled and is_context and name not in used:
            both = f"{prompt},{name}" if name.lower() == "input" else f"{name},{prompt}"
            yield f"left out: column {name!r}, part of the problem? (--prompt {both} joins them)"


def _options(filled: Mapping[str, bool], rows: Sequence[layouts.Row]) -> str | None:
    """The column of options, or those of one each, joined by commas; None without."""
    for name, is_filled in filled.items():
        if is_filled and name.lower() in OPTIONS:
            return name
    families: dict[str, list[str]] = {}
    for name in filled:
        if match := _OPTION_COLUMN.fullmatch(name):
            families.setdefault(match[1], []).append(name)
    for common, names in families.items():
        marks = "".join(name[-1].upper() for name in sorted(names))
        least = 2 if common else 3
        orders = ("ABCDEFGH", "12345678") if common else ("ABCDEFGH",)
        if len(marks) >= least and any(order.startswith(marks) for order in orders):
            return ",".join(sorted(names))
    return None


def _options_use(
    options: str, prompt: str, answer: str, grader: str, rows: Sequence[layouts.Row]
) -> tuple[bool, str]:
    """Whether options are put behind the problems, and the line that says so; ValueError where the
    grader knows nothing of them, but the answers are letters."""
    name = f"column {options!r}" if "," not in options else f"columns {options}"
    if grader in CHOICE:
        prompts = [(layouts.row_prompt(row, prompt), row) for row in rows]
        questions = [(text, row) for text, row in prompts if isinstance(text, str) and text.strip()]
        listed = sum(
            layouts.lists_options(text, _lettered(row, options)) for text, row in questions
        )
        if questions and listed == len(questions):
            return False, f"options: the problems list them already, {name} left out"
        return True, f"options: {name} behind each problem"
    given = [(layouts.row_answer(row, answer), _lettered(row, options)) for row in rows]
    marks = [golds.is_mark(str(gold), texts) for gold, texts in given if _is_filled(gold)]
    if grader in BOXED and marks and sum(marks) >= MARKS * len(marks):
        raise ValueError(
            f"--grader {grader}: the answers in {answer!r} name the options in {options!r} by "
            "letters or places: choose --grader choice, which puts the options into the problems"
        )
    return False, f"left out: {name}, which --grader choice puts behind each problem"


def _lettered(row: layouts.Row, options: str) -> Mapping[str, str]:
    try:
        return layouts.row_options(row, options)
    except layouts.Unfit:  # said with its row where the file is read
        return dict.fromkeys("ABCDEFGHIJKLMNOP", "")


def file_dataset(
    path: Path, columns: Columns, *, name: str, grader: str, **said: Any
) -> DatasetSpec:
    """All rows of a file on this machine. said: fields that are not as for most files."""
    return DatasetSpec(
        **{
            "name": name,
            "source": "file",
            "repository": None,
            "revision": None,
            "path": str(path.absolute()),
            "sha256": None,
            "layout": "plain",
            "prompt_key": columns.prompt,
            "answer_key": columns.answer,
            "options": columns.options,
            "max_tokens": None,
            "tokenizer": None,
            "token_field": None,
            "deduplicate": False,
            "limit": None,
            "expected_rows": None,
            "exact_rows": False,
            "grader": grader,
        }
        | said
    )
