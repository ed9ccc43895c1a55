"""Tasks whose answer is a grid: squares of numbers, grids that are filled, things placed on a grid.

In: a game's data and a response. Out: a grade. Every grid that keeps the rules is right, whichever
is stored with the game.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.graders.synlogic.game import Position

Square = Sequence[Sequence[int]]

_CELL = re.compile(r"\(?\s{0,3}([0-9]{1,2})\s{0,3},\s{0,3}([0-9]{1,2})\s{0,3}\)?")
_EMPTY = ("X", "x")
_DIVIDED = frozenset(["/", "\u00f7", ":"])
_SPACED = re.compile("[0-9\\s,\uff0c;]{1,8000}")


def _numbers(value: Any) -> bool:
    return game.is_grid(value, game.is_integer)


def _given(cell: Any) -> bool:
    """A number, in quotes or not, or a sign for an empty cell."""
    return game.is_integer(cell) or (game.is_text(cell) and (cell.isdecimal() or cell in _EMPTY))


def _spaced(text: str) -> Square | None:
    """Rows between commas, cells between spaces, in double brackets; or a list of lists.

    >>> _spaced("So [[1 2,2 1]]."), _spaced("[[1, 2], [2, 1]]")
    ([[1, 2], [2, 1]], [[1, 2], [2, 1]])
    """
    inside = extract.double_bracketed(text)
    if inside is None or not _SPACED.fullmatch(inside):
        square: Square | None = extract.literal(text, _numbers)
        return square
    rows = re.split("[,\uff0c;\n]", inside)
    square = [[int(cell[:9]) for cell in row.split()] for row in rows if row.strip()]
    return square if _numbers(square) else None


def _latin(square: Square, size: int) -> str | None:
    """A fault where a row or column lacks a number from 1 to size."""
    if len(square) != size or any(len(row) != size for row in square):
        return f"not {size} rows of {size}"
    numbers = set(range(1, size + 1))
    if any(set(row) != numbers for row in square):
        return "a row lacks a number"
    if any(set(column) != numbers for column in zip(*square, strict=True)):
        return "a column lacks a number"
    return None


def _kept(square: Square, given: Sequence[Sequence[Any]], empty: Sequence[Any]) -> str | None:
    """A fault where a given number was changed."""
    if not game.same_shape(square, given):
        return "not the shape of the given grid"
    if any(cell not in empty and str(cell) != str(now) for cell, now in game.pairs(given, square)):
        return "a given number was changed"
    return None


def sudoku(game_data: Any, response: str) -> Grade:
    """1 to 9 in every row, column and block of 3 x 3, and the given numbers."""
    given = game.grid(game_data, "metadata", "original_sudoku", cell=_given)
    if len(given) != 9:
        raise ValueError("the game's metadata.original_sudoku is no grid of 9 x 9")
    square = game.literal(response, "grid of numbers", _numbers, in_block="python")
    fault = _kept(square, given, (*_EMPTY, 0, "0")) or _latin(square, 9)
    for corner in range(0, 81, 27):
        for right in range(0, 9, 3):
            rows = square[corner // 9 : corner // 9 + 3]
            if not fault and len({cell for row in rows for cell in row[right : right + 3]}) != 9:
                fault = "a block lacks a number"
    return game.verdict(fault, square)


def futoshiki(game_data: Any, response: str) -> Grade:
    """1 to n in every row and column, the given numbers, and every inequality."""
    size = game.integer(game_data, "metadata", "grid_size")
    stored = game.field(game_data, "answer")
    solution: Square = (_spaced(stored) or []) if isinstance(stored, str) else stored
    if not _numbers(solution) or _latin(solution, size):
        raise ValueError(f"the game's answer is no grid of {size} x {size}")
    given = game.cells(game.field(game_data, "metadata", "prefilled_coords"))
    relations = game.field(game_data, "metadata", "constraints")
    if given is None or not all(_inside(cell, size) for cell in given):
        raise ValueError("the game's metadata.prefilled_coords is no list of cells")
    if not isinstance(relations, list) or not all(
        _is_relation(relation, size) for relation in relations
    ):
        raise ValueError("the game's metadata.constraints is no list of inequalities")
    square = game.require_answer(_spaced(extract.final_text(response)), "grid of numbers")
    fault = _latin(square, size)
    if not fault and any(square[row][column] != solution[row][column] for row, column in given):
        fault = "a given number was changed"
    if not fault and not all(_holds(square, *relation) for relation in relations):
        fault = "an inequality does not hold"
    return game.verdict(fault, square)


def _inside(cell: Sequence[int], size: int) -> bool:
    return 0 <= cell[0] < size and 0 <= cell[1] < size


def _is_relation(value: Any, size: int) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 3 or value[2] not in ("<", ">"):
        return False
    pair = game.cells(value[:2])
    return pair is not None and all(_inside(cell, size) for cell in pair)


def _holds(square: Square, left: Sequence[int], right: Sequence[int], sign: str) -> bool:
    first, second = square[left[0]][left[1]], square[right[0]][right[1]]
    return first < second if sign == "<" else first > second


def calcudoko(game_data: Any, response: str) -> Grade:
    """1 to n in every row and column; a region's numbers differ and make its target."""
    size = game.integer(game_data, "metadata", "grid_size")
    stored = game.field(game_data, "metadata", "regions")
    if not isinstance(stored, list) or not stored:
        raise ValueError("the game's metadata.regions is no list")
    regions = [_region(region, size) for region in stored]
    square = game.require_answer(_spaced(extract.final_text(response)), "grid of numbers")
    fault = _latin(square, size)
    for cells, operator, target in regions:
        numbers = [] if fault else [square[row][column] for row, column in cells]
        if not fault and len(set(numbers)) != len(numbers):
            fault = "a number repeats within a region"
        if not fault and not _makes(numbers, operator, target):
            fault = f"a region does not make {target}{operator}"
    return game.verdict(fault, square)


def _region(region: Any, size: int) -> tuple[list[game.Position], str, int]:
    """Cells from 0, operator and target."""
    operator = game.text(region, "operator").strip()
    cells = [_CELL.fullmatch(text.strip()) for text in game.texts(region, "cells")]
    indices = [(int(cell[1]) - 1, int(cell[2]) - 1) for cell in cells if cell]
    if len(indices) != len(cells) or not all(_inside(cell, size) for cell in indices):
        raise ValueError("the game's regions have a cell outside the grid")
    if operator not in {"+", "-", "*", "\u00d7"} | _DIVIDED:
        raise ValueError(f"the game has a region with the operator {operator!r}")
    return indices, operator, game.integer(region, "target")


def _makes(numbers: list[int], operator: str, target: int) -> bool:
    if operator == "+":
        return sum(numbers) == target
    if operator in ("*", "\u00d7"):
        return prod(numbers) == target
    if len(numbers) != 2:
        return False
    small, large = sorted(numbers)
    return large - small == target if operator == "-" else large == small * target


def skyscraper_puzzle(game_data: Any, response: str) -> Grade:
    """1 to n in every row and column, and from every side as many in sight as its clue says."""
    size = game.integer(game_data, "metadata", "n")
    top, bottom, left, right = (
        game.integers(game_data, "metadata", side, length=size)
        for side in ("top", "bottom", "left", "right")
    )
    square = game.literal(response, "grid of numbers", _numbers, in_block="python")
    fault = _latin(square, size)
    if not fault:
        columns = list(zip(*square, strict=True))
        sides = {
            "top": (top, [_n_visible(line) for line in columns]),
            "bottom": (bottom, [_n_visible(line[::-1]) for line in columns]),
            "left": (left, [_n_visible(line) for line in square]),
            "right": (right, [_n_visible(line[::-1]) for line in square]),
        }
        wrong = [side for side, (clues, visible) in sides.items() if clues != visible]
        fault = f"not as many in sight from the {wrong[0]}" if wrong else None
    return game.verdict(fault, square)


def _n_visible(line: Sequence[int]) -> int:
    """How many are higher than all before them."""
    return sum(height > max(line[:i], default=0) for i, height in enumerate(line))


def survo(game_data: Any, response: str) -> Grade:
    """The given numbers, each candidate once in the gaps, and every sum."""
    given = game.grid(game_data, "metadata", "original_matrix", cell=game.is_integer)
    candidates = game.integers(game_data, "metadata", "candidate_numbers")
    square = game.literal(response, "grid of numbers", _numbers, in_block="python")
    fault = _kept(square, given, (0,))
    if not fault:
        filled = [now for cell, now in game.pairs(given, square) if cell == 0]
        lines = [*square[:-1], *list(zip(*square, strict=True))[:-1]]
        if sorted(filled) != sorted(candidates):
            fault = "the gaps do not hold each candidate once"
        elif any(sum(line[:-1]) != line[-1] for line in lines):
            fault = "a row or column has another sum"
    return game.verdict(fault, square)


def numbrix(game_data: Any, response: str) -> Grade:
    """1 to n * n, the given numbers, each number beside the next."""
    given = game.grid(game_data, "metadata", "grid", cell=_given)
    square = game.literal(response, "grid of numbers", _numbers)
    fault = _kept(square, given, _EMPTY)
    if not fault:
        where = {number: (i, j) for i, row in enumerate(square) for j, number in enumerate(row)}
        path = [where[number] for number in range(1, len(given) ** 2 + 1) if number in where]
        if len(path) != len(given) ** 2:
            fault = "a number is missing"
        elif any(abs(i - k) + abs(j - m) != 1 for (i, j), (k, m) in pairwise(path)):
            fault = "two consecutive numbers are not beside each other"
    return game.verdict(fault, square)


# Grids filled with walls, arrows or letters.

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


# Things placed on a grid: tents, ones, dominoes and stars.


def campsite(game_data: Any, response: str) -> Grade:
    """Tents as many a row and column as demanded, none touching, each with a tree of its own."""
    given = game.grid(game_data, "metadata", "grid", cell=game.is_text, square=False)
    rows = game.integers(game_data, "metadata", "row_constraints", length=len(given))
    columns = game.integers(game_data, "metadata", "col_constraints", length=len(given[0]))
    answer = game.literal(response, "grid of T, C and X", partial(game.is_grid, cell=game.is_text))
    return game.verdict(_tents_fault(given, answer, rows, columns), answer)


def _tents_fault(
    given: list[list[str]], answer: list[list[str]], rows: list[int], columns: list[int]
) -> str | None:
    if not game.same_shape(given, answer):
        return "not the shape of the given grid"
    trees, tents = _where(answer, "T"), _where(answer, "C")
    if trees != _where(given, "T"):
        return "the trees were changed"
    if len(trees) + len(tents) + len(_where(answer, "X")) != len(answer) * len(answer[0]):
        return "a cell is neither T, C nor X"
    if _in_lines(tents, 0, len(rows)) != rows or _in_lines(tents, 1, len(columns)) != columns:
        return "a row or column has another number of tents"
    if _touching(tents, answer):
        return "two tents touch"
    if len(tents) != len(trees) or not _paired(tents, trees, answer):
        return "a tent has no tree of its own"
    return None


def _where(grid: list[list[str]], sign: str) -> set[Position]:
    return {(i, j) for i, row in enumerate(grid) for j, cell in enumerate(row) if cell == sign}


def _in_lines(cells: set[Position], axis: int, n_lines: int) -> list[int]:
    """How many cells stand in each row (axis 0) or column (axis 1)."""
    counted = Counter(cell[axis] for cell in cells)
    return [counted[i] for i in range(n_lines)]


def _touching(cells: set[Position], grid: list[list[Any]]) -> bool:
    return any(other in cells for cell in cells for other in game.around(cell, grid, corners=True))


def _paired(tents: set[Position], trees: set[Position], grid: list[list[str]]) -> bool:
    """Whether every tent can have a tree beside it that no other tent has: a bipartite matching,
    by augmenting paths (Kuhn 1955), without recursion."""
    tree_by_tent: dict[Position, Position] = {}
    tent_by_tree: dict[Position, Position] = {}
    for tent in tents:
        suitor: dict[Position, Position] = {}  # tree -> the tent that would have it
        asking, free = [tent], None
        while asking and free is None:
            asker = asking.pop()
            for tree in game.around(asker, grid):
                if tree in trees and tree not in suitor:
                    suitor[tree] = asker
                    if tree not in tent_by_tree:
                        free = tree
                        break
                    asking.append(tent_by_tree[tree])
        if free is None:
            return False
        while free is not None:  # each tent on the path takes the tree it asked for
            taker = suitor[free]
            released = tree_by_tent.get(taker)
            tree_by_tent[taker], tent_by_tree[free] = free, taker
            free = released
    return True


def kukurasu(game_data: Any, response: str) -> Grade:
    """Ones whose columns add up to each row's sum, and whose rows to each column's."""
    rows = game.integers(game_data, "metadata", "row_sums")
    columns = game.integers(game_data, "metadata", "col_sums")
    answer = game.literal(
        response,
        "grid of X and 1",
        lambda value: game.is_grid(value, lambda cell: cell in ("X", "1", 1)),
    )
    if len(answer) != len(rows) or len(answer[0]) != len(columns):
        return game.verdict(f"not {len(rows)} rows of {len(columns)}", answer)
    ones = [[cell != "X" for cell in row] for row in answer]
    if [_weight(row) for row in ones] != rows:
        return game.verdict("a row has another sum", answer)
    if [_weight(column) for column in zip(*ones, strict=True)] != columns:
        return game.verdict("a column has another sum", answer)
    return game.verdict(None, answer)


def _weight(line: Any) -> int:
    return sum(place for place, is_marked in enumerate(line, start=1) if is_marked)


def norinori(game_data: Any, response: str) -> Grade:
    """Dominoes that share no edge, two covered cells in every region, every shadow cell covered."""
    regions = game.grid(game_data, "metadata", "region_grid", cell=game.is_text)
    answer = game.literal(response, "list of dominoes", _is_dominoes)
    return game.verdict(_dominoes_fault(regions, answer), answer)


def _is_dominoes(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= game.LARGEST_SIDE**2
        and all(
            isinstance(domino, list | tuple) and len(domino) == 2 and game.cells(domino) is not None
            for domino in value
        )
    )


def _dominoes_fault(regions: list[list[str]], answer: Any) -> str | None:
    covered: dict[Position, int] = {}
    for number, domino in enumerate(answer):
        cells = [(row - 1, column - 1) for row, column in domino]
        for row, column in cells:
            if not (0 <= row < len(regions) and 0 <= column < len(regions[0])):
                return "a domino lies outside the grid"
            if (row, column) in covered:
                return "a cell is covered twice"
            covered[row, column] = number
        if cells[1] not in game.around(cells[0], regions):
            return "a domino's cells are not beside each other"
    for cell, number in covered.items():
        if any(covered.get(other, number) != number for other in game.around(cell, regions)):
            return "two dominoes share an edge"
    counted = Counter(regions[row][column] for row, column in covered)
    names = {name for row in regions for name in row}
    if any(counted[name] != 2 for name in names - {"X"}):
        return "a region has not two covered cells"
    if counted["X"] != sum(row.count("X") for row in regions):
        return "a shadow cell is not covered"
    return None


def star_placement_puzzle(game_data: Any, response: str) -> Grade:
    """k stars in every row, column and region, none touching; rows and columns from 1."""
    per_line = game.integer(game_data, "metadata", "k")
    regions = game.grid(game_data, "metadata", "region_grid", cell=game.is_text)
    answer = game.literal(response, "dictionary of lists of cells", _is_stars, in_block="python")
    stars = {(row - 1, column - 1) for cells in answer.values() for row, column in cells}
    return game.verdict(_stars_fault(regions, stars, per_line), answer)


def _is_stars(value: Any) -> bool:
    return isinstance(value, dict) and all(
        game.cells(stars) is not None for stars in value.values()
    )


def _stars_fault(regions: list[list[str]], stars: set[Position], per_line: int) -> str | None:
    size = len(regions)
    if not all(0 <= row < size and 0 <= column < size for row, column in stars):
        return "a star lies outside the grid"
    for axis, line in enumerate(("row", "column")):
        if _in_lines(stars, axis, size) != [per_line] * size:
            return f"a {line} has not {per_line} stars"
    counted = Counter(regions[row][column] for row, column in stars)
    if any(counted[name] != per_line for row in regions for name in row):
        return f"a region has not {per_line} stars"
    return "two stars touch" if _touching(stars, regions) else None
