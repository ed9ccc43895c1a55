"""One small game of each SynLogic task with right and wrong responses, and generated games."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fgrpo_bench.core.problems import Problem
from tests.support import benchmarks

Game = dict[str, Any]
TABLE = Path(__file__).parents[1] / "cases/synlogic-games.jsonl"
"""A task a line, with a game made for the tests; right: what solves it, in the first place as a
model would write it, then solutions found by search after the rules (of several, some); wrong: a
solution with one thing changed."""
ROWS = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
GAMES: dict[str, tuple[Game, str]] = {row["task"]: (row["game"], row["right"][0]) for row in ROWS}
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
"""Wrong responses to any game."""
BOXED = frozenset(
    ["boolean_expressions", "object_counting", "object_properties", "operation", "space_reasoning"]
) | {"space_reasoning_tree", "word_sorting", "word_sorting_mistake"}
SOLUTIONS = ("solution", "solved_grid", "filled_matrix", "complete_sudoku")
"""Where a generated constraint puzzle stores its solution."""


def problem(task: str, game: Any) -> Problem:
    """A problem as the layout makes it."""
    return Problem(
        benchmark="synlogic",
        problem_id=task,
        prompt="",
        target=json.dumps({"task": task, "game_data": game}),
        grader="synlogic",
    )


def generated() -> list[tuple[str, Game, str]]:
    """Task, game and stored answer of the file synlogic_generated.jsonl where it is at hand, else
    of GAMES. A game that has several answers may store none, and is left out."""
    folder = benchmarks.folder()
    path = None if folder is None else folder / "synlogic_generated.jsonl"
    if path is None or not path.is_file():
        return [(task, game, response) for task, (game, response) in GAMES.items()]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keys = ("answer", "difficulty", "metadata")
    games = [(row["task"], {"question": ""} | {key: row[key] for key in keys}) for row in rows]
    answers = [_stored(task, game) for task, game in games]
    return [(*game, text) for game, text in zip(games, answers, strict=True) if text is not None]


def _stored(task: str, game: Game) -> str | None:
    """The stored answer or solution as a response; None where there is none."""
    metadata, answer = game["metadata"], game["answer"]
    if task in BOXED:
        return f"So \\boxed{{{'No' if answer is None else answer}}}"
    if task == "goods_exchange":
        return _written(task, metadata["owns_after"])
    if task == "minesweeper":
        return f"Thus {[tuple(cell) for cell in metadata['current_mines']]}"
    if task in ("math_path", "cryptarithm"):
        return _written(task, answer or metadata.get("ref_expr"))
    if task == "star_placement_puzzle" and answer:
        found = re.findall(r"([A-Z])\(([0-9]+),([0-9]+)\)", answer)
        return _written(task, {name: [(int(i), int(j))] for name, i, j in found})
    if task == "norinori" and "solution" in metadata:
        return _written(task, [[tuple(cell) for cell in pair] for pair in metadata["solution"]])
    for key in SOLUTIONS:
        if metadata.get(key):
            return _written(task, metadata[key])
    return answer or None


def _written(task: str, value: Any) -> str:
    """An answer as the prompt of its task asks for it."""
    if task == "math_path":
        return f"Thus [[{value}]]"
    if task == "cryptarithm":
        return f"Steps.\nThe answer is {value}."
    if task in ("norinori", "campsite", "kukurasu", "numbrix"):
        return f"Thus:\n{value}"
    return f"Thus:\n```python\n{value}\n```"
