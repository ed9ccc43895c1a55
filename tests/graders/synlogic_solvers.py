"""All solutions of small constraint puzzles, by search: what the verifiers are tested against.

Written apart from the verifiers and after the rules: each yields answers as Python values.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from typing import Any

Game = dict[str, Any]
Grid = list[list[Any]]
_AROUND = ((0, 1), (1, 0), (0, -1), (-1, 0))
_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def exact(expression: str) -> Fraction:
    """Value of an expression of the tests' own, by Python's grammar and exactly.

    Raises SyntaxError, ValueError or ZeroDivisionError where it has none.
    """
    return _exact(ast.parse(expression, mode="eval").body)


def _exact(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _exact(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_exact(node.left), _exact(node.right))
    raise ValueError(f"no arithmetic: {ast.dump(node)}")


def _squares(
    given: Grid, empty: tuple[Any, ...], fits: Callable[[Grid, int], bool]
) -> Iterator[Grid]:
    """Squares with no number twice in a row or column; fits(grid, row) judges a full row."""
    size = len(given)

    def fill(grid: Grid, place: int) -> Iterator[Grid]:
        if place == size * size:
            yield [list(row) for row in grid]
            return
        i, j = divmod(place, size)
        known = given[i][j]
        for number in range(1, size + 1) if known in empty else (known,):
            if number in grid[i][:j] or any(grid[k][j] == number for k in range(i)):
                continue
            grid[i][j] = number
            if j < size - 1 or fits(grid, i):
                yield from fill(grid, place + 1)
        grid[i][j] = 0

    yield from fill([[0] * size for _ in range(size)], 0)


def sudoku(game: Game) -> Iterator[Grid]:
    def fits(grid: Grid, i: int) -> bool:
        top = i - i % 3
        blocks = [
            [grid[r][c] for r in range(top, i + 1) for c in (b, b + 1, b + 2)] for b in (0, 3, 6)
        ]
        return all(len(set(block)) == len(block) for block in blocks)

    yield from _squares(game["metadata"]["original_sudoku"], ("X", 0), fits)


def futoshiki(game: Game) -> Iterator[Grid]:
    metadata = game["metadata"]
    size = metadata["grid_size"]
    given = [[0] * size for _ in range(size)]
    for i, j in metadata["prefilled_coords"]:
        given[i][j] = game["answer"][i][j]
    for grid in _squares(given, (0,), lambda grid, i: True):
        values = [
            (grid[a][b], grid[c][d], sign) for (a, b), (c, d), sign in metadata["constraints"]
        ]
        if all(a < b if sign == "<" else a > b for a, b, sign in values):
            yield grid


def calcudoko(game: Game) -> Iterator[Grid]:
    size = game["metadata"]["grid_size"]
    for grid in _squares([[0] * size for _ in range(size)], (0,), lambda grid, i: True):
        if all(_region_fits(region, grid) for region in game["metadata"]["regions"]):
            yield grid


def _region_fits(region: dict[str, Any], grid: Grid) -> bool:
    cells = [ast.literal_eval(cell) for cell in region["cells"]]
    numbers = sorted((grid[i - 1][j - 1] for i, j in cells), reverse=True)
    value = Fraction(numbers[0])
    sign = {"+": "+", "-": "-", "*": "*", "÷": "/"}[region["operator"]]
    for number in numbers[1:]:
        value = Fraction(exact(f"({value}){sign}{number}"))
    return value == region["target"] and len(set(numbers)) == len(numbers)


def skyscraper_puzzle(game: Game) -> Iterator[Grid]:
    clues = game["metadata"]

    def seen(line: list[int]) -> int:
        return len({max(line[: i + 1]) for i in range(len(line))})

    def fits(grid: Grid, i: int) -> bool:
        return seen(grid[i]) == clues["left"][i] and seen(grid[i][::-1]) == clues["right"][i]

    for grid in _squares([[0] * clues["n"] for _ in range(clues["n"])], (0,), fits):
        columns = [list(column) for column in zip(*grid, strict=True)]
        from_above = [seen(column) for column in columns]
        from_below = [seen(column[::-1]) for column in columns]
        if from_above == clues["top"] and from_below == clues["bottom"]:
            yield grid


def survo(game: Game) -> Iterator[Grid]:
    given = game["metadata"]["original_matrix"]
    holes = [(i, j) for i, row in enumerate(given) for j, cell in enumerate(row) if cell == 0]
    for numbers in set(permutations(game["metadata"]["candidate_numbers"])):
        grid = [list(row) for row in given]
        for (i, j), number in zip(holes, numbers, strict=True):
            grid[i][j] = number
        lines = grid[:-1] + [list(column) for column in zip(*grid, strict=True)][:-1]
        if all(sum(line[:-1]) == line[-1] for line in lines):
            yield grid


def numbrix(game: Game) -> Iterator[Grid]:
    given = game["metadata"]["grid"]
    size = len(given)
    clues = {
        cell: (i, j) for i, row in enumerate(given) for j, cell in enumerate(row) if cell != "X"
    }
    path: list[tuple[int, int]] = []

    def walk(cell: tuple[int, int]) -> Iterator[Grid]:
        i, j = cell
        number = len(path) + 1
        if not (0 <= i < size and 0 <= j < size) or cell in path:
            return
        if given[i][j] not in ("X", number) or clues.get(number, cell) != cell:
            return
        later = [(k, place) for k, place in clues.items() if k > number]
        if any(abs(i - a) + abs(j - b) > k - number for k, (a, b) in later):
            return
        path.append(cell)
        if number == size * size:
            grid = [[0] * size for _ in range(size)]
            for k, (a, b) in enumerate(path, start=1):
                grid[a][b] = k
            yield grid
        else:
            for step in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                yield from walk(step)
        path.pop()

    for start in product(range(size), repeat=2):
        yield from walk(start)


def campsite(game: Game) -> Iterator[Grid]:
    """Tents chosen tree by tree, so that each has a tree of its own."""
    metadata = game["metadata"]
    given = metadata["grid"]
    trees = [(i, j) for i, row in enumerate(given) for j, cell in enumerate(row) if cell == "T"]
    beside = [[(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)] for i, j in trees]
    free = {(i, j) for i, row in enumerate(given) for j, cell in enumerate(row) if cell == "X"}
    told = set()
    for tents in product(*([cell for cell in cells if cell in free] for cells in beside)):
        key = frozenset(tents)
        if len(key) != len(trees) or key in told:
            continue
        told.add(key)
        if any(max(abs(a - c), abs(b - d)) < 2 for (a, b), (c, d) in combinations(key, 2)):
            continue
        grid = [
            ["C" if (i, j) in key else cell for j, cell in enumerate(row)]
            for i, row in enumerate(given)
        ]
        if [row.count("C") for row in grid] == metadata["row_constraints"] and [
            column.count("C") for column in zip(*grid, strict=True)
        ] == metadata["col_constraints"]:
            yield grid


def kukurasu(game: Game) -> Iterator[Grid]:
    rows, columns = game["metadata"]["row_sums"], game["metadata"]["col_sums"]
    fitting = [
        [
            row
            for row in product((0, 1), repeat=len(columns))
            if sum(j * one for j, one in enumerate(row, 1)) == total
        ]
        for total in rows
    ]
    for grid in product(*fitting):
        if [
            sum(i * row[j] for i, row in enumerate(grid, 1)) for j in range(len(columns))
        ] == columns:
            yield [["1" if one else "X" for one in row] for row in grid]


def norinori(game: Game) -> Iterator[list[list[tuple[int, int]]]]:
    regions = game["metadata"]["region_grid"]
    size = len(regions)
    places = [
        ((i, j), (i + a, j + b))
        for i, j in product(range(size), repeat=2)
        for a, b in ((0, 1), (1, 0))
        if i + a < size and j + b < size
    ]
    wanted = {name: 2 for row in regions for name in row}
    if "X" in wanted:
        wanted["X"] = sum(row.count("X") for row in regions)

    def place(start: int, chosen: list[Any], left: Counter[str]) -> Iterator[list[Any]]:
        if not any(left.values()):
            yield [[(i + 1, j + 1) for i, j in domino] for domino in chosen]
        for k in range(start, len(places)):
            domino = places[k]
            used = Counter(regions[i][j] for i, j in domino)
            if any(left[name] < n for name, n in used.items()):
                continue
            if any(
                abs(a - c) + abs(b - d) < 2 for a, b in domino for other in chosen for c, d in other
            ):
                continue
            yield from place(k + 1, [*chosen, domino], left - used)

    yield from place(0, [], Counter(wanted))


def number_wall(game: Game) -> Iterator[Grid]:
    given = game["metadata"]["grid"]
    size = len(given)
    free = [(i, j) for i in range(size) for j in range(size) if given[i][j] == "X"]
    numbers = {(i, j): given[i][j] for i in range(size) for j in range(size) if given[i][j] != "X"}
    for walls in combinations(free, size * size - sum(numbers.values())):
        wall = set(walls)
        if any({(i + 1, j), (i, j + 1), (i + 1, j + 1)} <= wall for i, j in wall):
            continue
        islands = []
        for cell in numbers:
            island = {cell}
            for _ in range(size * size):
                reached = {(i + a, j + b) for i, j in island for a, b in _AROUND}
                island |= {(i, j) for i, j in reached - wall if max(i, j) < size and min(i, j) >= 0}
            islands.append((len(island), len(island & numbers.keys()), numbers[cell]))
        if all(n == number and clues == 1 for n, clues, number in islands):
            yield [
                ["A" if (i, j) in wall else given[i][j] for j in range(size)] for i in range(size)
            ]


def arrow_maze(game: Game) -> Iterator[Grid]:
    """Arrows chosen gap by gap among those whose ray begins at a number, then counted."""
    given = game["metadata"]["maze"]
    steps = {
        "↑": (-1, 0),
        "↓": (1, 0),
        "←": (0, -1),
        "→": (0, 1),
        "↖": (-1, -1),
        "↗": (-1, 1),
        "↘": (1, 1),
        "↙": (1, -1),
    }
    holes = [(i, j) for i, row in enumerate(given) for j, cell in enumerate(row) if cell == "X"]

    def source(grid: Grid, i: int, j: int, arrow: str) -> tuple[int, int] | None:
        a, b = steps[arrow]
        while True:
            i, j = i - a, j - b
            if not (0 <= i < len(grid) and 0 <= j < len(grid[0])):
                return None
            if grid[i][j].isdecimal():
                return i, j
            if grid[i][j] not in (arrow, "X"):
                return None

    clues = {
        (i, j): int(cell)
        for i, row in enumerate(given)
        for j, cell in enumerate(row)
        if cell.isdecimal()
    }

    def fill(grid: Grid, k: int) -> Iterator[Grid]:
        """Gaps that are left may still lengthen a ray, so a count may only be too large early."""
        open_ended = any("X" in row for row in grid)
        arrows = [(i, j, cell) for i, row in enumerate(grid) for j, cell in enumerate(row)]
        counted = Counter(source(grid, i, j, cell) for i, j, cell in arrows if cell in steps)
        if None in counted or any(counted[place] > number for place, number in clues.items()):
            return
        if not open_ended:
            if all(counted[place] == number for place, number in clues.items()):
                yield [list(row) for row in grid]
            return
        i, j = holes[k]
        for arrow in steps:
            grid[i][j] = arrow
            yield from fill(grid, k + 1)
        grid[i][j] = "X"

    yield from fill([list(row) for row in given], 0)


def star_placement_puzzle(game: Game) -> Iterator[dict[str, list[tuple[int, int]]]]:
    """Where every row has one star."""
    regions = game["metadata"]["region_grid"]
    for columns in permutations(range(len(regions))):
        stars = list(enumerate(columns))
        names = [regions[i][j] for i, j in stars]
        apart = all(abs(a - b) > 1 for a, b in pairwise(columns))
        if apart and len(set(names)) == len(names):
            yield {regions[i][j]: [(i + 1, j + 1)] for i, j in stars}


def game_of_24(game: Game) -> Iterator[str]:
    metadata = game["metadata"]
    for a, b, c, d in sorted(set(permutations(metadata["numbers"]))):
        for x, y, z in product(metadata["operators"], repeat=3):
            for text in (
                f"(({a}{x}{b}){y}{c}){z}{d}",
                f"({a}{x}{b}){y}({c}{z}{d})",
                f"{a}{x}({b}{y}({c}{z}{d}))",
            ):
                try:
                    value = exact(text)
                except ZeroDivisionError:
                    continue
                if value == metadata["result"]:
                    yield text


def math_path(game: Game) -> Iterator[str]:
    query = game["metadata"]["query_expr"]
    left, _, right = query.partition("=")
    pieces = left.split("?")
    for digits in product("0123456789", repeat=len(pieces) - 1):
        filled = "".join(piece + digit for piece, digit in zip(pieces, [*digits, ""], strict=True))
        try:
            if exact(filled) == exact(right.strip()):
                yield f"{filled}={right}"
        except ZeroDivisionError:
            continue


def cryptarithm(game: Game) -> Iterator[str]:
    words, signs = game["metadata"]["letter_words"], game["metadata"]["operators"]
    letters = sorted(set("".join(words)))
    for digits in permutations("0123456789", len(letters)):
        numbers = ["".join(digits[letters.index(letter)] for letter in word) for word in words]
        if any(number[0] == "0" and len(number) > 1 for number in numbers):
            continue
        left = numbers[0] + "".join(
            f" {sign} {number}" for sign, number in zip(signs, numbers[1:], strict=False)
        )
        if exact(left) == int(numbers[-1]):
            yield f"{left} = {numbers[-1]}"


SOLVERS: dict[str, Callable[[Game], Iterator[Any]]] = {
    solver.__name__: solver
    for solver in (
        arrow_maze, calcudoko, campsite, cryptarithm, futoshiki, game_of_24, kukurasu, math_path,
        norinori, number_wall, numbrix, skyscraper_puzzle, star_placement_puzzle, sudoku, survo,
    )
}  # fmt: skip
