"""Mazes: does an answer walk from the start to the goal?

Two graders of the same text, moves `U` `D` `L` `R` and then the end `!`, which read the maze
themselves (fgrpo_bench.graders.maze_text). `maze` takes the simple path and nothing else, so that a
problem has one correct answer. `maze-reached` takes every walk without a wall, forwards and back
again, and ends at its first arrival at the goal, as public checkers of such mazes do: what follows
up to the end, walls included, is not looked at. What the first takes the second takes too.

The response is untrusted text, of which only the moves are looked at, one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrpo_bench.core.problems import Grade, Outcome, Problem
from fgrpo_bench.graders.maze_text import DONE, MOVES, Maze, read_maze

KEPT = 1_000
"""Moves of an answer that stand in its grade."""


def grade(problem: Problem, response: str) -> Grade:
    """Correct where the response is the simple path and the end.

    problem.target: the maze's text. Unscored where that is no tree.
    """
    return _graded(problem, response, _strict)


def grade_reached(problem: Problem, response: str) -> Grade:
    """Correct where the response has only moves before the end, and they arrive at the goal before
    they meet a wall.

    problem.target: the maze's text. Unscored where that is no tree.
    """
    return _graded(problem, response, _reached)


def _graded(
    problem: Problem, response: str, judged: Callable[[Maze, str, str], tuple[bool, str]]
) -> Grade:
    try:
        maze = read_maze(problem.target)
    except ValueError as error:
        return Grade(outcome="unscored", extracted=None, reason=str(error))
    moves, end, after = response.partition(DONE)
    if not end:
        return Grade(outcome="incorrect", extracted=None, reason=f"no {DONE} ends the moves")
    if not set(moves) <= MOVES.keys():
        return Grade(
            outcome="incorrect", extracted=None, reason=f"something before {DONE} is no move"
        )
    is_right, reason = judged(maze, moves, after)
    outcome: Outcome = "correct" if is_right else "incorrect"
    return Grade(outcome=outcome, extracted=moves[:KEPT], reason=reason)


def _strict(maze: Maze, moves: str, after: str) -> tuple[bool, str]:
    if after:
        return False, f"something follows {DONE}"
    if moves == maze.moves:
        return True, "the simple path"
    arrives, reason = _reached(maze, moves, after)
    return False, "arrives at the goal, but not by the simple path alone" if arrives else reason


def _reached(maze: Maze, moves: str, after: str) -> tuple[bool, str]:
    for number, place in enumerate(maze.walk(moves)):
        if place == maze.goal:
            return True, f"at the goal after {number} moves"
        if not maze.is_open(place):
            return False, f"move {number} meets a wall"
    return False, "ends before the goal"
