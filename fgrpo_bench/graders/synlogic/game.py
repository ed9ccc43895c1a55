"""What a verifier takes of a game, checked, and what it gives back.

A field that is missing or is not what it must be raises ValueError that names it; the grader makes
`unscored` of that. A response that has no answer raises NoAnswer and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.graders.synlogic import extract

LONGEST_SHOWN = 500
"""Characters of an answer that a grade keeps."""
LARGEST_SIDE = 40
"""Rows and columns of a grid."""
T = TypeVar("T")
Verifier = Callable[[Any, str], Grade]
Position = tuple[int, int]
"""Row and column, from 0."""


def field(game_data: Any, *keys: str) -> Any:
    """The value at a path of keys; ValueError that names the path where there is none."""
    value = game_data
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"the game lacks {'.'.join(keys)}")
        value = value[key]
    return value


def text(game_data: Any, *keys: str) -> str:
    """A text at a path of keys; a number as it is written."""
    value = field(game_data, *keys)
    if is_integer(value) or isinstance(value, float):
        value = str(value)[:LONGEST_SHOWN]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"the game's {'.'.join(keys)} is no text")
    return value


def integer(game_data: Any, *keys: str) -> int:
    """An integer at a path of keys, of at most 15 digits."""
    value = field(game_data, *keys)
    if not is_integer(value) or abs(value) >= 10**15:
        raise ValueError(f"the game's {'.'.join(keys)} is no integer")
    return int(value)


def integers(game_data: Any, *keys: str, length: int | None = None) -> list[int]:
    """A list of integers at a path of keys."""
    value = field(game_data, *keys)
    if not is_row(value, is_integer) or (length is not None and len(value) != length):
        raise ValueError(f"the game's {'.'.join(keys)} is no list of {length or ''} integers")
    return list(value)


def texts(game_data: Any, *keys: str) -> list[str]:
    """A list of texts at a path of keys."""
    value = field(game_data, *keys)
    if not is_row(value, is_text):
        raise ValueError(f"the game's {'.'.join(keys)} is no list of texts")
    return list(value)


def grid(
    game_data: Any, *keys: str, cell: Callable[[Any], bool], square: bool = True
) -> list[list[Any]]:
    """Rows of cells of one length, as many as columns where it is square."""
    value = field(game_data, *keys)
    if not is_grid(value, cell) or not value or (square and len(value) != len(value[0])):
        raise ValueError(f"the game's {'.'.join(keys)} is no grid of the cells it must have")
    return [list(row) for row in value]


def cells(value: Any) -> set[Position] | None:
    """Pairs of integers as a set of cells; None where it is no list of them."""
    if not isinstance(value, list | tuple):
        return None
    if not all(is_row(pair, is_integer) and len(pair) == 2 for pair in value):
        return None
    return {(pair[0], pair[1]) for pair in value}


def is_integer(value: Any) -> bool:
    """An integer and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """A string."""
    return isinstance(value, str)


def is_row(value: Any, cell: Callable[[Any], bool]) -> bool:
    """A list or tuple of such cells."""
    return isinstance(value, list | tuple) and all(cell(item) for item in value)


def is_grid(value: Any, cell: Callable[[Any], bool]) -> bool:
    """Rows of such cells, of one length and within LARGEST_SIDE."""
    return (
        isinstance(value, list | tuple)
        and len(value) <= LARGEST_SIDE
        and all(is_row(row, cell) and 0 < len(row) <= LARGEST_SIDE for row in value)
        and len({len(row) for row in value}) == 1
    )


def same_shape(first: Sequence[Sequence[Any]], second: Sequence[Sequence[Any]]) -> bool:
    """As many rows and columns."""
    return [len(row) for row in first] == [len(row) for row in second]


def pairs(
    first: Sequence[Sequence[Any]], second: Sequence[Sequence[Any]]
) -> Iterator[tuple[Any, Any]]:
    """The cells of two grids of the same shape, place by place."""
    for first_row, second_row in zip(first, second, strict=True):
        yield from zip(first_row, second_row, strict=True)


def around(
    cell: Position, shape: Sequence[Sequence[Any]], *, corners: bool = False
) -> Iterable[Position]:
    """The neighbours of a cell within a grid: four, or eight with corners."""
    steps = [(-1, 0), (0, -1), (0, 1), (1, 0)]
    if corners:
        steps += [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    for down, right in steps:
        row, column = cell[0] + down, cell[1] + right
        if 0 <= row < len(shape) and 0 <= column < len(shape[row]):
            yield row, column


def verdict(fault: str | None, answer: Any) -> Grade:
    """Correct without a fault, else incorrect for it."""
    return Grade(
        outcome="incorrect" if fault else "correct",
        extracted=_shown(answer),
        reason=fault or "the answer fits",
    )


class NoAnswer(Exception):
    """A response has no answer of the kind that its words name; such a response is incorrect."""


def require_answer(answer: T | None, kind: str) -> T:
    """The answer of a response; NoAnswer, which names its kind, where there is none."""
    if answer is None:
        raise NoAnswer(f"no {kind} found")
    return answer


def literal(
    response: str, kind: str, accept: Callable[[Any], bool], *, in_block: str | None = None
) -> Any:
    """The last literal of a response that is accepted (extract.literal); NoAnswer without one."""
    text = extract.final_text(response)
    return require_answer(extract.literal(text, accept, in_block=in_block), kind)


def _shown(answer: Any) -> str:
    shown = answer if isinstance(answer, str) else repr(answer)
    shown = shown.encode("utf-8", "replace").decode()
    return shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 1] + "\u2026"
