"""The maze graders on right, wrong and hostile answers, and what is read as a maze."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import get_grader
from fgrpo_bench.graders.maze import KEPT, read_maze
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask

GRID = """
#########
#S....#.#
###.###.#
#...#...#
###.###.#
#.......#
#.#####.#
#.#....G#
#########
"""
PROBLEM = Problem(
    benchmark="maze",
    problem_id="9-1-h0",
    prompt="",
    target=GRID[1:].replace("\n", "/"),
    grader="maze",
)
PATH = "RRDDDDRRRRDD"
CASES = [
    # response, by `maze`, by `maze-reached`, why the first says so
    (f"{PATH}!", "correct", "correct", "the simple path"),
    (f"RL{PATH}!", "incorrect", "correct", "arrives at the goal, but not by the simple path"),
    (f"{PATH}UD!", "incorrect", "correct", "arrives at the goal, but not by the simple path"),
    (f"{PATH}RRRR!", "incorrect", "correct", "arrives at the goal, but not by the simple path"),
    (f"{PATH}!U", "incorrect", "correct", "something follows !"),
    (f"{PATH}!!", "incorrect", "correct", "something follows !"),
    (f"{PATH}!<pad>", "incorrect", "correct", "something follows !"),
    (PATH, "incorrect", "incorrect", "no ! ends the moves"),
    ("", "incorrect", "incorrect", "no ! ends the moves"),
    ("!", "incorrect", "incorrect", "ends before the goal"),
    (f"{PATH[:-1]}!", "incorrect", "incorrect", "ends before the goal"),
    (f"D{PATH}!", "incorrect", "incorrect", "move 1 meets a wall"),
    (f"RRU{PATH[2:]}!", "incorrect", "incorrect", "move 3 meets a wall"),
    ("L!", "incorrect", "incorrect", "move 1 meets a wall"),
    (f" {PATH}!", "incorrect", "incorrect", "something before ! is no move"),
    (PATH.lower() + "!", "incorrect", "incorrect", "something before ! is no move"),
    (f"{PATH}.!", "incorrect", "incorrect", "something before ! is no move"),
    ("\uff32" + PATH[1:] + "!", "incorrect", "incorrect", "something before ! is no move"),
    ("RL" * 50_000 + PATH + "!", "incorrect", "correct", "arrives at the goal, but not by the"),
    ("\ud800!", "incorrect", "incorrect", "something before ! is no move"),
    ("\x00", "incorrect", "incorrect", "no ! ends the moves"),
]


@pytest.mark.parametrize(("response", "strict", "reached", "reason"), CASES)
def test_cases(response, strict, reached, reason):
    grades = [get_grader(name)(PROBLEM, response) for name in ("maze", "maze-reached")]
    assert [grade.outcome for grade in grades] == [strict, reached]
    assert grades[0].reason.startswith(reason)
    assert all(len(grade.extracted or "") <= KEPT for grade in grades)


def test_half_of_the_cases_fail_at_least():
    assert 2 * sum(case[1] != "correct" for case in CASES) >= len(CASES)


def test_the_reason_says_how_far_a_walk_came():
    reached = get_grader("maze-reached")
    assert reached(PROBLEM, f"RL{PATH}UU!").reason == "at the goal after 14 moves"
    assert reached(PROBLEM, "RRR!").reason == "ends before the goal"


def walked(rows: list[str], response: str) -> bool:
    """By the letter of the rule, place for place."""
    if "!" not in response:
        return False
    moves = response[: response.index("!")]
    if any(letter not in "UDLR" for letter in moves):
        return False
    row, column = 1, 1
    for letter in moves:
        row += {"U": -1, "D": 1}.get(letter, 0)
        column += {"L": -1, "R": 1}.get(letter, 0)
        if rows[row][column] in "#G":
            return rows[row][column] == "G"
    return False


@pytest.mark.slow
@given(st.integers(0, 99), st.text("UDLR!x", max_size=60), st.integers(0, 30), st.text("UDLR!x"))
def test_graders_say_what_a_walk_by_hand_says(index, begun, kept, ended):
    task = MazeTask(MazeSpec(name="maze", seed=4, size=9, n_train=100, n_heldout=1))
    problem = task.problem(index)
    path = read_maze(problem.target).moves
    rows = problem.target.split("/")
    for response in (
        begun,
        path[:kept] + begun,
        path[:kept] + ended + path[kept:] + "!",
        path + "!",
    ):
        is_reached = get_grader("maze-reached")(problem, response).outcome == "correct"
        assert is_reached == walked(rows, response)
        is_path = get_grader("maze")(problem, response).outcome == "correct"
        assert is_path == (response == path + "!") and is_path <= is_reached


@pytest.mark.slow
@given(st.text(max_size=40) | st.text("#.SG/x", max_size=200))
def test_no_text_raises_as_a_response_nor_anything_but_value_error_as_a_maze(response):
    for name in ("maze", "maze-reached"):
        assert get_grader(name)(PROBLEM, response).outcome in ("correct", "incorrect")
    try:
        read_maze(response)
    except ValueError as error:
        json.dumps(str(error))


def with_place(row: int, column: int, symbol: str, text: str = PROBLEM.target) -> str:
    at = row * 10 + column
    return text[:at] + symbol + text[at + 1 :]


LOOP = with_place(6, 3, ".")
CUT = with_place(4, 3, "#")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOOP, "has 16 openings between them, and 16 cells are reached"),
        (CUT, "has 14 openings between them, and 5 cells are reached .*: a tree has 15 openings"),
        (with_place(6, 3, ".", CUT), "has 15 openings between them, and 5 cells are reached"),
        (with_place(3, 1, "#"), "has 15 of its 16 cells open, 0 open places on its border"),
        (with_place(2, 2, "."), "1 open where row and column are even"),
        (with_place(0, 3, "."), "1 open places on its border"),
        (with_place(7, 7, "."), "has G at no place: it must stand once"),
        (with_place(7, 5, "G"), r"has G at \[\(7, 5\), \(7, 7\)\]"),
        (with_place(1, 2, "S", with_place(1, 1, ".")), r"has S at \[\(1, 2\)\]"),
        (with_place(1, 3, "x"), "has the symbol 'x': its places are # . S G"),
        (PROBLEM.target[:-1], "each row closed by /"),
        (PROBLEM.target + "#########/", "a maze of 10 rows, the longest of 9 symbols"),
        (PROBLEM.target[10:], "a maze of 8 rows"),
        ("#######/" * 7, "must be as wide as high, odd and of 9 to 41 places"),
        ("", "a maze of 0 rows"),
        ("\ud800", "a maze of 0 rows"),
    ],
)
def test_what_is_no_tree_is_not_judged_and_says_why(text, said):
    with pytest.raises(ValueError, match=said):
        read_maze(text)
    problem = Problem(benchmark="b", problem_id="1", prompt="", target=text, grader="maze")
    for name in ("maze", "maze-reached"):
        grade = get_grader(name)(problem, f"{PATH}!")
        assert grade.outcome == "unscored" and grade.extracted is None
