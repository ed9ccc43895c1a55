"""Mazes: does an answer walk from the start to the goal?

Two graders of the same text, moves `U` `D` `L` `R` and then the end `!`, which read the maze
themselves. `maze` takes the simple path and nothing else, so that a
problem has one correct answer. `maze-reached` takes every walk without a wall, forwards and back
again, and ends at its first arrival at the goal, as public checkers of such mazes do: what follows
up to the end, walls included, is not looked at. What the first takes the second takes too.

The response is untrusted text, of which only the moves are looked at, one by one.

A maze is rows of `#` (wall), `.` (open), `S` (start) and `G` (goal), each closed by `/`, square and
of odd width, with walls around. Its cells are the places whose row and column, counted from 0, are
odd; of the places between two cells those that are open connect them. It is a tree: every cell is
reached from the start, and one simple path leads to the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fgrpo_bench.core.problems import Grade, Outcome, Problem

BEGIN, GRID, GRID_END, PATH = "^", "[", "]", ":"
"""What stands before a prompt, around its grid, and before the answer."""
WALL, OPEN, START, GOAL, NEWLINE = "#", ".", "S", "G", "/"
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
"""Change of row and column."""
DONE = "!"
"""What closes an answer, before the tokenizer's own end."""
VOCABULARY = "".join((BEGIN, GRID, GRID_END, PATH, WALL, OPEN, START, GOAL, NEWLINE, *MOVES, DONE))
SMALLEST, LARGEST = 9, 41
"""Width of a maze, in places."""

Place = tuple[int, int]
"""Row and column, from 0."""


@dataclass(frozen=True)
class Maze:
    """A maze that was read."""

    rows: tuple[str, ...]
    """Without what closes them."""
    start: Place
    goal: Place
    moves: str
    """The simple path from start to goal."""

    def is_open(self, place: Place) -> bool:
        """Whether a place within the maze is no wall."""
        row, column = place
        return self.rows[row][column] != WALL

    def walk(self, moves: str) -> Iterator[Place]:
        """The start and the place after each move, up to the first that meets a wall, whose place
        is the last."""
        row, column = self.start
        yield row, column
        for move in moves:
            down, right = MOVES[move]
            row, column = row + down, column + right
            yield row, column
            if not self.is_open((row, column)):
                return


@lru_cache(maxsize=4096)
def read_maze(text: str) -> Maze:
    """A maze from its text; ValueError for one that is no tree, with the rule that it breaks."""
    rows = tuple(text.split(NEWLINE))[:-1]
    size = len(rows)
    if not text.endswith(NEWLINE) or not is_size(size) or any(len(row) != size for row in rows):
        raise ValueError(
            f"a maze of {size} rows, the longest of {max(map(len, rows), default=0)} symbols: it "
            f"must be as wide as high, odd and of {SMALLEST} to {LARGEST} places, each row closed "
            f"by {NEWLINE}"
        )
    unknown = set("".join(rows)) - {WALL, OPEN, START, GOAL}
    if unknown:
        raise ValueError(
            f"a maze has the symbol {min(unknown)!r}: its places are {WALL} {OPEN} {START} {GOAL}"
        )
    places = {(i, j): rows[i][j] for i in range(size) for j in range(size)}
    ends = {
        symbol: [place for place, content in places.items() if content == symbol]
        for symbol in (START, GOAL)
    }
    for symbol, at in ends.items():
        if len(at) != 1 or not (at[0][0] % 2 and at[0][1] % 2):
            raise ValueError(
                f"a maze has {symbol} at {at or 'no place'}: it must stand once, where row and "
                "column, from 0, are odd"
            )
    open_places = {place for place, content in places.items() if content != WALL}
    cells = (size // 2) ** 2
    border = [p for p in open_places if not (0 < p[0] < size - 1 and 0 < p[1] < size - 1)]
    n_cells = sum(i % 2 and j % 2 for i, j in open_places)
    n_posts = sum(not (i % 2 or j % 2) for i, j in open_places)
    if border or n_posts or n_cells != cells:
        raise ValueError(
            f"a maze of {size} x {size} has {n_cells} of its {cells} cells open, {len(border)} "
            f"open places on its border and {n_posts} open where row and column are even: every "
            "cell must be open, and these must be walls"
        )
    (start,), (goal,) = ends.values()
    came = _arrivals(start, open_places)
    n_doors = len(open_places) - cells
    if n_doors != cells - 1 or len(came) != len(open_places):
        raise ValueError(
            f"a maze of {cells} cells has {n_doors} openings between them, and "
            f"{sum(i % 2 and j % 2 for i, j in came)} cells are reached from the start: a tree has "
            f"{cells - 1} openings and reaches every cell"
        )
    moves, place = "", goal
    while place != start:
        move = came[place]
        moves = move + moves
        place = place[0] - MOVES[move][0], place[1] - MOVES[move][1]
    return Maze(rows, start, goal, moves)


def checked_maze(text: str) -> str:
    """A maze's text as it is; ValueError as of `read_maze`."""
    read_maze(text)
    return text


def is_size(size: int) -> bool:
    """Whether a maze can be so many places wide."""
    return SMALLEST <= size <= LARGEST and size % 2 == 1


def _arrivals(start: Place, open_places: set[Place]) -> dict[Place, str]:
    """Every open place that the start is connected to, with the move that first arrived there."""
    came, waiting = {start: ""}, [start]
    for row, column in waiting:
        for move, (down, right) in MOVES.items():
            place = row + down, column + right
            if place in open_places and place not in came:
                came[place] = move
                waiting.append(place)
    return came


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
