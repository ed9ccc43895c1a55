"""Right and wrong responses to SynLogic games: as stored, from solvers, by small changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.graders.synlogic_games import Game
from tests.graders.synlogic_solvers import SOLVERS

BOXED = frozenset(
    ["boolean_expressions", "object_counting", "object_properties", "operation", "space_reasoning"]
) | {"space_reasoning_tree", "word_sorting", "word_sorting_mistake"}
SOLUTIONS = ("solution", "solved_grid", "filled_matrix", "complete_sudoku")
"""Where a constraint puzzle stores its solution."""
GARBAGE = (
    "",
    "I do not know.",
    "```python\n[[]]\n```",
    "[[0, 0], [0, 0]]",
    "\\boxed{}",
    "\\boxed{\\text{zzz}}",
    "<answer></answer>",
    "```python\n__import__('os').getcwd()\n```",
)

HOSTILE = [
    "[", "(", "[[", "[]", "[1,", "[[1,2],", "(1,2),", "1 - ", "1*1=", '"', "```python\n",
    "\\boxed{", "{}", "<answer>", "</answer>", "answer is ", "**yes** ", "yes, ", "0.00", "-", "]",
    " ", "\n", "\0", "\ud83d", "([{<>}])", "'a',", "[#\n", "\\text{", "\u7b54\u6848",
]  # fmt: skip
"""Pieces that a careless pattern or parser reads again and again."""


def hostile(length: int = 256_000) -> Iterator[str]:
    """Texts of so many characters made of one piece, of nested and of full-sized brackets."""
    for piece in HOSTILE:
        yield (piece * (length // len(piece) + 1))[:length]
    yield "[" * (length // 2) + "]" * (length // 2)
    yield ("[" + ",".join(["[" + ",".join(["1"] * 40) + "]"] * 40) + "] ") * (length // 3_282)
    yield "a(((" + ("[" + "1," * 1_900 + "x] ") * (length // 3_803) + ")))"


def written(task: str, value: Any) -> str:
    """An answer as the prompt of its task asks for it."""
    if task in ("calcudoko", "futoshiki"):
        return f"Thus [[{','.join(' '.join(map(str, row)) for row in value)}]]."
    if task == "math_path":
        return f"Thus [[{value}]]"
    if task == "cryptarithm":
        return f"Steps.\nThe answer is {value}."
    if task in ("norinori", "campsite", "kukurasu", "numbrix"):
        return f"Thus:\n{value}"
    return f"Thus:\n```python\n{value}\n```"


def stored(task: str, game: Game) -> str | None:
    """The stored answer or solution as a response; None where there is none."""
    metadata, answer = game["metadata"], game["answer"]
    if task in BOXED:
        return f"So \\boxed{{{'No' if answer is None else answer}}}"
    if task == "goods_exchange":
        return written(task, metadata["owns_after"])
    if task == "minesweeper":
        return f"Thus {[tuple(cell) for cell in metadata['current_mines']]}"
    if task in ("math_path", "cryptarithm"):
        return written(task, answer or metadata.get("ref_expr"))
    if task == "star_placement_puzzle" and answer:
        found = re.findall(r"([A-Z])\(([0-9]+),([0-9]+)\)", answer)
        return written(task, {name: [(int(i), int(j))] for name, i, j in found})
    if task == "futoshiki":
        return written(task, answer)
    if task == "norinori" and "solution" in metadata:
        return written(task, [[tuple(cell) for cell in pair] for pair in metadata["solution"]])
    for key in SOLUTIONS:
        if metadata.get(key):
            return written(task, metadata[key])
    return answer or None


def solved(task: str, game: Game, most: int = 4) -> list[Any]:
    """Solutions by search, the first few."""
    return list(islice(SOLVERS[task](game), most)) if task in SOLVERS else []


def near_misses(task: str, value: Any) -> Iterator[Any]:
    """A solution with one thing changed, which then breaks a rule."""
    if task == "norinori":
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
        yield [*value, value[0]]
    elif task == "star_placement_puzzle":
        for name, ((i, j),) in value.items():
            yield value | {name: [(i, j + 1 if j == 1 else j - 1)]}
            yield value | {name: []}
    elif task in ("math_path", "cryptarithm"):
        yield value[:-1] + str((int(value[-1]) + 1) % 10)
        yield value.replace("=", "+ 0 =")
    elif task == "game_of_24":
        yield from (f"{value} + 1", value[1:], f"0 * {value}", value.replace("(", "(0 + ", 1))
    else:
        for i, row in enumerate(value):
            j = i % len(row)
            for other in _others(row[j]):
                yield [
                    [*row[:j], other, *row[j + 1 :]] if k == i else r for k, r in enumerate(value)
                ]


def _others(cell: Any) -> list[Any]:
    if isinstance(cell, int):
        return [cell + 1, cell - 1]
    arrows = "↑↗→↘↓↙←↖"
    if cell in arrows:
        return [arrows[arrows.index(cell) - 1], arrows[arrows.index(cell) - 4], "X"]
    return {"X": ["C", "A", "1", ""], "T": ["X", "C"], "1": ["X", "2"]}.get(cell, ["X", "7"])


def mutated(task: str, response: str) -> list[str]:
    """A right response to a task with one answer, made wrong."""
    if task == "web_of_lies":
        words = {"yes": "no", "no": "yes", "是": "否", "否": "是"}
        return [re.sub("yes|no|是|否", lambda match: words[match[0]], response, count=1)]
    if task == "dyck_language":
        return [response + "()", response[:-1], response[::-1]]
    if task == "goods_exchange":
        names = re.findall(r"\('([^']*)'", response)
        swapped = {names[0]: names[1], names[1]: names[0]}
        return [re.sub("|".join(names[:2]), lambda match: swapped[match[0]], response)]
    if task == "word_sorting_mistake":
        return ["\\boxed{17}", "\\boxed{none}"]
    if task in ("space_reasoning", "space_reasoning_tree", "word_sorting", "cipher"):
        return [re.sub(r"([a-zA-Z]+)([^a-zA-Z]*)$", r"\1s\2", response), response[:-4]]
    if task == "zebra_puzzle":
        return [response.replace("cat", "cats"), response.replace("House 1", "House 3")]
    if task == "boolean_expressions":
        return [re.sub(r"[A-Z](?=})", "Z", response), "\\boxed{}", "\\boxed{Q}"]
    digits = re.sub("[0-9]", lambda match: str((int(match[0]) + 1) % 10), response, count=1)
    return [digits, re.sub("[0-9]", "x", response)]
