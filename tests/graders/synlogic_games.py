"""One small game of each SynLogic task, with the response that solves it, made for the tests."""

from __future__ import annotations

import json
from typing import Any

from fgrpo_bench.core.problems import Problem
from tests.support import benchmarks

Game = dict[str, Any]

_SUDOKU = [[(3 * (i % 3) + i // 3 + j) % 9 + 1 for j in range(9)] for i in range(9)]
_HOLES = {(i, j) for i, row in enumerate(_SUDOKU) for j, cell in enumerate(row) if cell < 3}
"""Where 1 and 2 stand, which can be exchanged."""


def _without(rows: list[list[Any]], holes: set[tuple[int, int]], sign: Any) -> list[list[Any]]:
    return [
        [sign if (i, j) in holes else cell for j, cell in enumerate(row)]
        for i, row in enumerate(rows)
    ]


def _block(value: Any) -> str:
    return f"So:\n```python\n{value}\n```"


def _game(answer: Any = "", **metadata: Any) -> Game:
    return {"question": "", "answer": answer, "difficulty": 1, "metadata": metadata}


GAMES: dict[str, tuple[Game, str]] = {
    "arc_agi": (_game([[7, 0], [0, 7], [7, 7]]), "```json\n[[7, 0], [0, 7], [7, 7]]\n```"),
    "arrow_maze": (
        _game(maze=[["2", "X", "→"], ["X", "1", "X"], ["1", "1", "→"]]),
        _block([["2", "→", "→"], ["↑", "1", "→"], ["1", "1", "→"]]),
    ),
    "boolean_expressions": (_game("A,C"), "So \\boxed{A, C}"),
    "buggy_tables": (_game("1234.50"), '```json\n{"result": [{"answer": 1234.50}]}\n```'),
    "calcudoko": (
        _game(
            "[[1 2 3,2 3 1,3 1 2]]",
            grid_size=3,
            regions=[
                {"cells": ["(1,1)", "(1,2)", "(1,3)"], "target": 6, "operator": "*"},
                {"cells": ["(2,1)", "(3,1)"], "target": 1, "operator": "-"},
                {"cells": ["(2,2)", "(3,2)"], "target": 3, "operator": "÷"},
                {"cells": ["(2,3)", "(3,3)"], "target": 3, "operator": "+"},
            ],
        ),
        "[[1 2 3,2 3 1,3 1 2]]",
    ),
    "campsite": (
        _game(
            grid=[["T", "X", "X"], ["X", "X", "T"], ["X", "X", "X"]],
            row_constraints=[1, 0, 1],
            col_constraints=[0, 1, 1],
            n=3,
            m=3,
        ),
        str([["T", "C", "X"], ["X", "X", "T"], ["X", "X", "C"]]),
    ),
    "cipher": (_game("[[ATTACK AT DAWN]]"), "The text is [[ATTACK AT DAWN]]."),
    "cryptarithm": (
        _game("91 + 9 = 100", letter_words=["AB", "A", "BCC"], operators=["+"]),
        "The answer is 91 + 9 = 100.",
    ),
    "dyck_language": (_game("([])", full_sequence="([])", question_sequence="(["), "([])"),
    "dyck_language_errors": (_game("3", is_valid=False, first_error_pos=3), "3"),
    "dyck_language_reasoning_errors": (_game("4,11", error_indices=[4, 11]), "4,11"),
    "futoshiki": (
        _game(
            [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
            grid_size=3,
            prefilled_coords=[[0, 0]],
            constraints=[[[0, 1], [0, 2], "<"], [[2, 0], [1, 0], ">"]],
        ),
        "[[1 2 3,2 3 1,3 1 2]]",
    ),
    "game_of_24": (
        _game(numbers=[4, 6, 1, 1], operators=["+", "-", "*", "/"], result=24),
        _block("4 * 6 * 1 / 1"),
    ),
    "goods_exchange": (
        _game(owns_after="(('Ann','red pen'),('Bob','blue cup'))"),
        _block("(('Ann','red pen'),('Bob','blue cup'))"),
    ),
    "kukurasu": (
        _game(row_sums=[1, 2], col_sums=[1, 2], n=2, m=2),
        '[["1", "X"], ["X", "1"]]',
    ),
    "math_path": (_game(ref_expr="2 +3 *4 = 14", query_expr="?+?*4 = 14"), "[[2 + 3 * 4 = 14]]"),
    "minesweeper": (_game(current_mines=[[0, 1], [2, 2]]), "[(0, 1), (2, 2)]"),
    "norinori": (
        _game(region_grid=[list("AABB"), list("AABB"), list("XCCB"), list("CCCX")]),
        "[[(1,1), (1,2)], [(1,4), (2,4)], [(3,1), (3,2)], [(4,3), (4,4)]]",
    ),
    "number_wall": (
        _game(grid=[["X", 2, "X"], ["X", "X", "X"], [1, "X", "X"]], n=3),
        _block([["A", 2, "A"], ["A", "X", "A"], [1, "A", "A"]]),
    ),
    "numbrix": (
        _game(grid=[[1, "X", "X"], ["X", "X", "X"], ["X", "X", 9]], n=3),
        str([[1, 2, 3], [6, 5, 4], [7, 8, 9]]),
    ),
    "object_counting": (_game("1425"), "\\boxed{1425}"),
    "object_properties": (_game("0"), "\\boxed{0}"),
    "operation": (_game("0.6111111111111112"), "\\boxed{\\frac{11}{18}}"),
    "skyscraper_puzzle": (
        _game(n=3, top=[3, 2, 1], bottom=[1, 2, 2], left=[3, 2, 1], right=[1, 2, 2]),
        _block([[1, 2, 3], [2, 3, 1], [3, 1, 2]]),
    ),
    "space_reasoning": (_game("ice cream"), "\\boxed{ice cream}"),
    "space_reasoning_tree": (_game("fan, ice cream, tie"), "\\boxed{fan, ice cream, tie}"),
    "star_placement_puzzle": (
        _game(
            n=4,
            k=1,
            region_grid=[
                ["A", "A", "A", "B"],
                ["C", "A", "B", "B"],
                ["C", "C", "B", "D"],
                ["C", "D", "D", "D"],
            ],
        ),
        _block("{'A': [(1, 2)], 'B': [(2, 4)], 'C': [(3, 1)], 'D': [(4, 3)]}"),
    ),
    "sudoku": (
        _game(original_sudoku=_without(_SUDOKU, _HOLES, "X")),
        _block(tuple(tuple(row) for row in _SUDOKU)),
    ),
    "survo": (
        _game(
            original_matrix=[[0, 0, 5], [0, 0, 5], [4, 6, 10]],
            candidate_numbers=[1, 4, 3, 2],
            n=3,
        ),
        _block([[1, 4, 5], [3, 2, 5], [4, 6, 10]]),
    ),
    "time_sequence": (
        _game("[45, 2]", records={"answers": {"answer_maxLen": 45, "answer_nums": 2}}),
        "The answer: [45, 2]",
    ),
    "web_of_lies": (_game("yes, no, yes"), "The answer is **yes, no, yes**."),
    "word_sorting": (_game("pear,apple,fig"), "\\boxed{pear, apple, fig}"),
    "word_sorting_mistake": (_game("4", is_mistake=True), "\\boxed{4}"),
    "wordscapes": (
        _game(
            grid=[["X", "X", "X"], ["X", "0", "0"], ["X", "0", "0"]],
            across_words=["cat"],
            down_words=["cow"],
        ),
        '[["C", "A", "T"], ["O", " ", " "], ["W", " ", " "]]',
    ),
}
GAMES["zebra_puzzle"] = (
    _game('{"House 1": {"Pet": "cat"}, "House 2": {"Pet": "dog"}}'),
    '```json\n{"House 1": {"Pet": "cat"}, "House 2": {"Pet": "dog"}}\n```',
)
GAMES["mathador"] = GAMES["game_of_24"]
GAMES["arc_agi_2"] = GAMES["arc_agi"]


def problem(task: str, game: Any) -> Problem:
    """A problem as the layout makes it."""
    return Problem(
        benchmark="synlogic",
        problem_id=task,
        prompt="",
        target=json.dumps({"task": task, "game_data": game}),
        grader="synlogic",
    )


def generated() -> list[tuple[str, Game]]:
    """Task and game of the file synlogic_generated.jsonl where it is at hand, else of GAMES."""
    folder = benchmarks.folder()
    path = None if folder is None else folder / "synlogic_generated.jsonl"
    if path is None or not path.is_file():
        return [(task, game) for task, (game, _) in GAMES.items()]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keys = ("answer", "difficulty", "metadata")
    return [(row["task"], {"question": ""} | {key: row[key] for key in keys}) for row in rows]
