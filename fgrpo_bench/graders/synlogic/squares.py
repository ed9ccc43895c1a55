"""Squares of numbers under rules: sudoku, futoshiki, calcudoko, skyscraper, survo and numbrix.

Every square that keeps the rules is right, whichever is stored with the game.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from fgrpo_bench.graders.synlogic import extract, game
from fgrpo_bench.records import Grade

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
    if not isinstance(relations, list) or not all(_is_relation(each, size) for each in relations):
        raise ValueError("the game's metadata.constraints is no list of inequalities")
    square = game.wanted(_spaced(extract.final_text(response)), "grid of numbers")
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
    regions = [_region(each, size) for each in stored]
    square = game.wanted(_spaced(extract.final_text(response)), "grid of numbers")
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
            "top": (top, [_seen(line) for line in columns]),
            "bottom": (bottom, [_seen(line[::-1]) for line in columns]),
            "left": (left, [_seen(line) for line in square]),
            "right": (right, [_seen(line[::-1]) for line in square]),
        }
        wrong = [side for side, (clues, seen) in sides.items() if clues != seen]
        fault = f"not as many in sight from the {wrong[0]}" if wrong else None
    return game.verdict(fault, square)


def _seen(line: Sequence[int]) -> int:
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
