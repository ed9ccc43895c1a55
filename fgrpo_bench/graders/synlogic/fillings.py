"""Grids filled with walls, arrows or letters under rules.

Every filling that keeps the rules is right, whichever is stored with the game.
"""

from __future__ import annotations

from typing import Any

from fgrpo_bench.graders.synlogic import game
from fgrpo_bench.graders.synlogic.game import Position
from fgrpo_bench.records import Grade

_ARROWS = {
    "\u2191": (-1, 0), "\u2193": (1, 0), "\u2190": (0, -1), "\u2192": (0, 1),
    "\u2196": (-1, -1), "\u2197": (-1, 1), "\u2198": (1, 1), "\u2199": (1, -1),
}  # fmt: skip
"""Up, down, left, right and the diagonals, as (rows, columns)."""


def _is_clue(cell: Any) -> bool:
    """A number from 0, as an integer or a text."""
    if game.is_text(cell):
        return cell.isascii() and cell.isdecimal() and len(cell) < 5
    return game.is_integer(cell) and 0 <= cell < 10_000


def _is_arrow(cell: Any) -> bool:
    return game.is_text(cell) and cell in _ARROWS


def number_wall(game_data: Any, response: str) -> Grade:
    """Walls A around islands, each of one number and as many cells; no 2 x 2 of walls."""
    given = game.grid(
        game_data, "metadata", "grid", cell=lambda cell: cell == "X" or _is_clue(cell)
    )
    answer = game.literal(
        response,
        "grid of numbers, A and X",
        lambda value: game.is_grid(value, lambda cell: cell in ("X", "A") or _is_clue(cell)),
        in_block="python",
    )
    return game.verdict(_walls_fault(given, answer), answer)


def _walls_fault(given: list[list[Any]], answer: list[list[Any]]) -> str | None:
    if not game.same_shape(given, answer):
        return "not the shape of the given grid"
    for cell, now in game.pairs(given, answer):
        if (str(cell) != str(now)) if _is_clue(cell) else _is_clue(now):
            return "a given number was changed or one added"
    size = len(answer)
    walls = {(i, j) for i, row in enumerate(answer) for j, cell in enumerate(row) if cell == "A"}
    if any({(i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)} <= walls for i, j in walls):
        return "walls form a 2 x 2"
    left = {(i, j) for i in range(size) for j in range(size)} - walls
    while left:
        island = _island(left.pop(), answer, walls)
        left -= island
        clues = [int(answer[i][j]) for i, j in island if answer[i][j] != "X"]
        if len(clues) != 1 or clues[0] != len(island):
            return "an island has not one number that is its size"
    return None


def _island(start: Position, grid: list[list[Any]], walls: set[Position]) -> set[Position]:
    """All cells that can be reached without crossing a wall."""
    island, waiting = {start}, [start]
    while waiting:
        for cell in game.around(waiting.pop(), grid):
            if cell not in walls and cell not in island:
                island.add(cell)
                waiting.append(cell)
    return island


def arrow_maze(game_data: Any, response: str) -> Grade:
    """An arrow in every gap, as many as each number in rays that lead away from it, no others."""
    given = game.grid(
        game_data,
        *("metadata", "maze"),
        cell=lambda cell: cell == "X" or _is_arrow(cell) or _is_clue(cell),
        square=False,
    )
    answer = game.literal(
        response,
        "grid of numbers and arrows",
        lambda value: game.is_grid(value, lambda cell: _is_arrow(cell) or _is_clue(cell)),
        in_block="python",
    )
    return game.verdict(_arrows_fault(given, answer), answer)


def _arrows_fault(given: list[list[Any]], answer: list[list[Any]]) -> str | None:
    if not game.same_shape(given, answer):
        return "not the shape of the given grid"
    clues: dict[Position, int] = {}
    for i, row in enumerate(given):
        for j, cell in enumerate(row):
            now = answer[i][j]
            if cell != "X" and str(cell) != str(now):
                return "a given number or arrow was changed"
            if cell == "X" and now not in _ARROWS:
                return "a gap holds no arrow"
            if _is_clue(cell):
                clues[i, j] = int(cell)
    covered: set[Position] = set()
    for clue, number in clues.items():
        rays = _rays(clue, answer)
        if len(rays) != number:
            return "a number has not as many arrows"
        covered |= rays
    if len(covered) + len(clues) != len(answer) * len(answer[0]):
        return "an arrow belongs to no number"
    return None


def _rays(clue: Position, grid: list[list[Any]]) -> set[Position]:
    """Cells of the unbroken lines of arrows that lead away from a number."""
    rays = set()
    for arrow, (down, right) in _ARROWS.items():
        i, j = clue[0] + down, clue[1] + right
        while 0 <= i < len(grid) and 0 <= j < len(grid[i]) and grid[i][j] == arrow:
            rays.add((i, j))
            i, j = i + down, j + right
    return rays


def wordscapes(game_data: Any, response: str) -> Grade:
    """A letter in every X, nothing in every 0; each word unbroken in a row or a column."""
    given = game.grid(
        game_data, "metadata", "grid", cell=lambda cell: cell in ("X", "0"), square=False
    )
    across = game.texts(game_data, "metadata", "across_words")
    down = game.texts(game_data, "metadata", "down_words")
    answer = game.literal(
        response, "grid of letters", lambda value: game.is_grid(value, _is_letter)
    )
    if not game.same_shape(given, answer):
        return game.verdict("not the shape of the given grid", answer)
    if any(now.isalpha() != (cell == "X") for cell, now in game.pairs(given, answer)):
        return game.verdict("a cell is filled that must be empty, or empty", answer)
    rows = [_line(row) for row in answer]
    columns = [_line(column) for column in zip(*answer, strict=True)]
    fits = all(any(word.lower() in line for line in rows) for word in across)
    fits = fits and all(any(word.lower() in line for line in columns) for word in down)
    return game.verdict(None if fits else "a word is missing", answer)


def _is_letter(cell: Any) -> bool:
    """One letter, or nothing, a space or 0 for an empty cell."""
    return game.is_text(cell) and (cell.strip() in ("", "0") or (len(cell) == 1 and cell.isalpha()))


def _line(cells: Any) -> str:
    return "".join(cell.lower() if cell.isalpha() else " " for cell in cells)
