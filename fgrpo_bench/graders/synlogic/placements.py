"""Things placed on a grid under rules: tents, ones, dominoes and stars.

Every placement that keeps the rules is right, whichever is stored with the game.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from fgrpo_bench.graders.synlogic import game
from fgrpo_bench.graders.synlogic.game import Position
from fgrpo_bench.records import Grade


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
    tree_of: dict[Position, Position] = {}
    tent_of: dict[Position, Position] = {}
    for tent in tents:
        asked_by: dict[Position, Position] = {}  # tree -> the tent that would have it
        asking, free = [tent], None
        while asking and free is None:
            asker = asking.pop()
            for tree in game.around(asker, grid):
                if tree in trees and tree not in asked_by:
                    asked_by[tree] = asker
                    if tree not in tent_of:
                        free = tree
                        break
                    asking.append(tent_of[tree])
        if free is None:
            return False
        while free is not None:  # each tent on the path takes the tree it asked for
            taker = asked_by[free]
            given_up = tree_of.get(taker)
            tree_of[taker], tent_of[free] = free, taker
            free = given_up
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
    return isinstance(value, dict) and all(game.cells(each) is not None for each in value.values())


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
