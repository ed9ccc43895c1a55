"""SynLogic: is the answer to a puzzle right, by rules of our own?

Each task has a verifier: most compare with the stored answer, those of constraint puzzles accept
whatever keeps the rules. A response is text and no more: nothing of it is evaluated, and what is
read of it is bounded (`extract`). The tasks are those of
https://github.com/MiniMax-AI/SynLogic; where verdicts differ from its verifiers' on purpose,
tests/cases/synlogic-differences.json says why.
"""

from __future__ import annotations

import json

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders.synlogic import answers, grids
from fgrpo_bench.graders.synlogic.game import NoAnswer, Verifier

TASKS: dict[str, Verifier] = {
    "arc_agi": answers.arc_agi,
    "arc_agi_2": answers.arc_agi,
    "arrow_maze": grids.arrow_maze,
    "boolean_expressions": answers.boolean_expressions,
    "buggy_tables": answers.buggy_tables,
    "calcudoko": grids.calcudoko,
    "campsite": grids.campsite,
    "cipher": answers.cipher,
    "cryptarithm": answers.cryptarithm,
    "dyck_language": answers.dyck_language,
    "dyck_language_errors": answers.dyck_language_errors,
    "dyck_language_reasoning_errors": answers.dyck_language_reasoning_errors,
    "futoshiki": grids.futoshiki,
    "game_of_24": answers.game_of_24,
    "goods_exchange": answers.goods_exchange,
    "kukurasu": grids.kukurasu,
    "math_path": answers.math_path,
    "mathador": answers.game_of_24,
    "minesweeper": answers.minesweeper,
    "norinori": grids.norinori,
    "number_wall": grids.number_wall,
    "numbrix": grids.numbrix,
    "object_counting": answers.count,
    "object_properties": answers.count,
    "operation": answers.operation,
    "skyscraper_puzzle": grids.skyscraper_puzzle,
    "space_reasoning": answers.name,
    "space_reasoning_tree": answers.names,
    "star_placement_puzzle": grids.star_placement_puzzle,
    "sudoku": grids.sudoku,
    "survo": grids.survo,
    "time_sequence": answers.time_sequence,
    "web_of_lies": answers.web_of_lies,
    "word_sorting": answers.word_sorting,
    "word_sorting_mistake": answers.word_sorting_mistake,
    "wordscapes": grids.wordscapes,
    "zebra_puzzle": answers.zebra_puzzle,
}
"""Verifier of each task: a function of the game's data and a response. It raises ValueError where
the game's data is not what it must be, NoAnswer for a response without an answer."""


def grade(problem: Problem, response: str) -> Grade:
    """Judge a response by the verifier of the problem's task.

    problem.target: JSON, {"task": "sudoku", "game_data": {"answer": ..., "metadata": {...}}}.
    Unscored, with the reason, for a task without a verifier and for a game whose data is not what
    it must be.
    """
    try:
        target = json.loads(problem.target)
        task, game_data = target["task"], target["game_data"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return _unscored("the gold is no task with its game's data")
    verifier = TASKS.get(task) if isinstance(task, str) else None
    if verifier is None:
        return _unscored(f"no verifier for task {str(task)[:80]!r}")
    try:
        return verifier(game_data, response)
    except NoAnswer as absent:
        return Grade(outcome="incorrect", extracted=None, reason=str(absent))
    except ValueError as error:
        return _unscored(str(error))


def _unscored(reason: str) -> Grade:
    return Grade(outcome="unscored", extracted=None, reason=reason)
