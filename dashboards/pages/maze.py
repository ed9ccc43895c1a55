"""A maze with the walk of a response in it, as SVG.

Of the response, which is untrusted, only its moves are looked at, at most MOST of them: nothing of
its text stands in the picture, which is made of numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from markupsafe import Markup

from fgrpo_bench.graders.maze import DONE, MOVES, WALL, Maze, Place, read_maze

GRADERS = ("maze", "maze-reached")
"""Graders whose problems are mazes."""
MOST = 400
"""Moves that are drawn."""


def picture(target: str, response: str | None = None) -> Markup:
    """The maze of a problem with its path, and with the walk of a response where there is one: up
    to the wrong turn in one colour, behind it in another, to the first wall or the goal. Empty
    where the target is no maze.

    target: of the problem, the maze's text.
    """
    try:
        maze = read_maze(target)
    except ValueError:
        return Markup("")
    path = list(maze.walk(maze.moves))
    size = len(maze.rows)
    parts = [
        Markup('<rect class="ground" width="{0}" height="{0}"/>').format(size),
        Markup('<path class="walls" d="{}"/>').format("".join(_walls(maze))),
        _line("path", path),
        Markup('<circle class="start" cx="{}" cy="{}" r=".36"/>').format(*_middle(maze.start)),
        Markup('<circle class="goal" cx="{}" cy="{}" r=".36"/>').format(*_middle(maze.goal)),
    ]
    caption = f"A maze of {size} by {size}; its path has {len(maze.moves)} moves."
    if response is not None:
        lines, caption = _walk(maze, path, response)
        parts += lines
    return Markup(
        '<figure class="maze"><svg viewBox="0 0 {0} {0}" role="img" aria-label="{1}">{2}</svg>'
        "<figcaption>{1}</figcaption></figure>"
    ).format(size, caption, Markup("").join(parts))


def _walk(maze: Maze, path: list[Place], response: str) -> tuple[list[Markup], str]:
    """What is drawn of a walk, and what it does in words."""
    moves, is_cut = _moves(response)
    walk = list(maze.walk(moves))
    if maze.goal in walk:
        walk = walk[: walk.index(maze.goal) + 1]
    n_right = sum(1 for _ in _alike(walk, path))
    right, wrong = walk[:n_right], walk[n_right - 1 :]
    lines = [_line("right", right)]
    if len(wrong) > 1:
        lines.append(_line("wrong", wrong))
        at = _middle(right[-1])
        lines.append(Markup('<circle class="turn" cx="{}" cy="{}" r=".42"/>').format(*at))
        turn = f"wrong turn after {n_right - 1} of {len(path) - 1} moves"
    else:
        turn = f"no wrong turn in {n_right - 1} of {len(path) - 1} moves"
    if walk[-1] == maze.goal:
        end = f"at the goal after {len(walk) - 1} moves"
    elif not maze.is_open(walk[-1]):
        x, y = _middle(walk[-1])
        cross = Markup('<path class="hit" d="M{0} {1}l.6 .6m0 -.6l-.6 .6"/>')
        lines.append(cross.format(round(x - 0.3, 1), round(y - 0.3, 1)))
        end = f"move {len(walk) - 1} meets a wall"
    else:
        end = f"not drawn further than {MOST} moves" if is_cut else "ends before the goal"
    return lines, f"{turn[0].upper()}{turn[1:]}; {end}."


def _moves(response: str) -> tuple[str, bool]:
    """The moves before the end or the first that is none, and whether there are more than MOST."""
    answer = response.partition(DONE)[0][: MOST + 1]
    n_valid = next((i for i, letter in enumerate(answer) if letter not in MOVES), len(answer))
    return answer[: min(n_valid, MOST)], n_valid > MOST


def _alike(walk: list[Place], path: list[Place]) -> Iterable[Place]:
    """The places up to which a walk follows the path."""
    for place, expected in zip(walk, path, strict=False):
        if place != expected:
            return
        yield place


def _middle(place: Place) -> tuple[float, float]:
    row, column = place
    return column + 0.5, row + 0.5


def _line(kind: str, places: list[Place]) -> Markup:
    points = " ".join("{},{}".format(*_middle(place)) for place in places)
    return Markup('<polyline class="{}" points="{}"/>').format(kind, points)


def _walls(maze: Maze) -> Iterable[str]:
    """A rectangle a run of walls in a row."""
    for row, places in enumerate(maze.rows):
        for symbol, run in groupby(range(len(places)), key=places.__getitem__):
            columns = list(run)
            if symbol == WALL:
                yield f"M{columns[0]} {row}h{len(columns)}v1h-{len(columns)}z"
