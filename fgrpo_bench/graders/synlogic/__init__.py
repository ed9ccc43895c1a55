"""SynLogic: is the answer to a puzzle right, by rules of our own?

Each task has a verifier: most compare with the stored answer, those of constraint puzzles accept
whatever keeps the rules. A response is text and no more: nothing of it is evaluated, and what is
read of it is bounded (`extract`, `literals`). The tasks are those of
https://github.com/MiniMax-AI/SynLogic; where verdicts differ from its verifiers' on purpose,
tests/cases/synlogic-differences.json says why.
"""

from __future__ import annotations

import json

from fgrpo_bench.graders.synlogic import (
    brackets,
    compare,
    equations,
    fillings,
    placements,
    squares,
    statements,
)
from fgrpo_bench.graders.synlogic.game import NoAnswer, Verifier
from fgrpo_bench.records import Grade, Problem

TASKS: dict[str, Verifier] = {
    "arc_agi": compare.arc_agi,
    "arc_agi_2": compare.arc_agi,
    "arrow_maze": fillings.arrow_maze,
    "boolean_expressions": compare.boolean_expressions,
    "buggy_tables": compare.buggy_tables,
    "calcudoko": squares.calcudoko,
    "campsite": placements.campsite,
    "cipher": compare.cipher,
    "cryptarithm": equations.cryptarithm,
    "dyck_language": brackets.dyck_language,
    "dyck_language_errors": brackets.dyck_language_errors,
    "dyck_language_reasoning_errors": brackets.dyck_language_reasoning_errors,
    "futoshiki": squares.futoshiki,
    "game_of_24": equations.game_of_24,
    "goods_exchange": statements.goods_exchange,
    "kukurasu": placements.kukurasu,
    "math_path": equations.math_path,
    "mathador": equations.game_of_24,
    "minesweeper": statements.minesweeper,
    "norinori": placements.norinori,
    "number_wall": fillings.number_wall,
    "numbrix": squares.numbrix,
    "object_counting": compare.count,
    "object_properties": compare.count,
    "operation": compare.operation,
    "skyscraper_puzzle": squares.skyscraper_puzzle,
    "space_reasoning": compare.name,
    "space_reasoning_tree": compare.names,
    "star_placement_puzzle": placements.star_placement_puzzle,
    "sudoku": squares.sudoku,
    "survo": squares.survo,
    "time_sequence": statements.time_sequence,
    "web_of_lies": statements.web_of_lies,
    "word_sorting": compare.word_sorting,
    "word_sorting_mistake": compare.word_sorting_mistake,
    "wordscapes": fillings.wordscapes,
    "zebra_puzzle": compare.zebra_puzzle,
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
