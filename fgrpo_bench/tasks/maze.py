"""Mazes: find the one path from a corner to the opposite one.

A prompt is a grid of symbols, one character each (fgrpo_bench.graders.maze): `^[`, the rows
each closed by `/`, and `]:`, which at 17 x 17 are 310 characters. The correct response is the
simple path and an end, e.g. `RRDD...!`; there is no other one, so a policy has no rare solutions
here that it could lose. The mazes are trees by randomised Prim.

Nothing is stored: a maze follows from the spec's seed, its split and its index. One that has a
longer path than max_moves is drawn again, and so is a held-out maze that equals another one, and a
training maze that equals a held-out one; training mazes may equal each other, which only matters at
the smallest sizes, where the plan says how often.

Randomised Prim (`spanning_trees`), many trees at once: the tree begins with the first cell; the
frontier is the cells beside it. In each step one cell of the frontier is drawn, all equally likely,
and joined to one of its neighbours in the tree, all equally likely. (Drawing a wall between tree
and frontier, or random weights and Prim's order, gives other distributions.) Each tree follows from
its own seed: its numbers are fgrpo_bench.core.seeds.uniforms of that seed, two per step, so it is
the same whatever is made beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds, uniforms
from fgrpo_bench.graders import maze as mazes
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.specs.base import STRICT, Positive, Seed
from fgrpo_bench.tasks.task import Task

DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Row and column of a cell's neighbours; a tree has their numbers."""
_OUTSIDE, _FRONTIER, _TREE, _BORDER = range(4)
_AT_ONCE = 2**18
"""Cells of the trees that are grown together: what fits a processor's cache, about."""


def _nth_set() -> NDArray[np.int8]:
    """The number of the n-th set bit of a mask of four, [mask, n]; -1 where there are fewer."""
    table = np.full((16, 4), -1, np.int8)
    for mask in range(16):
        bits = [bit for bit in range(4) if mask >> bit & 1]
        table[mask, : len(bits)] = bits
    return table


_NTH_SET = _nth_set()
_N_SET = np.array([mask.bit_count() for mask in range(16)])


def grow(seeds: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    """Trees of a lattice of width x width cells, one a seed: [trees, cells] has of every cell the
    direction of the next one towards cell 0, as a number in DIRECTIONS; of cell 0 it is 0."""
    parts = max(1, -(-len(seeds) * width**2 // _AT_ONCE))
    grown = [_grow(part, width) for part in np.array_split(seeds, parts)]
    return np.concatenate(grown)


def _grow(seeds: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    n, padded = len(seeds), width + 2  # a border spares the test of what lies outside
    area = padded**2
    offsets = [down * padded + right for down, right in DIRECTIONS]
    inner = (np.arange(1, width + 1)[:, None] * padded + np.arange(1, width + 1)).ravel()
    state = np.full((n, area), _BORDER, np.int8)
    state[:, inner] = _OUTSIDE
    towards = np.zeros((n, area), np.int8)
    frontier = np.zeros((n, width**2), np.int32)
    # Flat below: place p of tree t is at t * area + p, slot s of its frontier at t * cells + s.
    flat_state, flat_towards, slots = state.ravel(), towards.ravel(), frontier.ravel()
    tree, first_slot = np.arange(n) * area, np.arange(n) * width**2
    size = np.zeros(n, np.int64)
    numbers = np.ascontiguousarray(uniforms(seeds, 2 * (width**2 - 1)).T)

    def enlarge(cell: NDArray[np.int64], neighbours: list[NDArray[np.int8]]) -> None:
        """Put a cell of every tree into it, and its neighbours outside into the frontier."""
        flat_state[cell] = _TREE
        for offset, kind in zip(offsets, neighbours, strict=True):
            is_new = kind == _OUTSIDE
            neighbour = cell + offset
            flat_state[neighbour] = np.where(is_new, np.int8(_FRONTIER), kind)
            # Where it is not new the slot is written in vain: the next one takes it.
            slots[first_slot + size] = neighbour - tree
            size[is_new] += 1

    start = tree + inner[0]
    enlarge(start, [flat_state[start + offset] for offset in offsets])
    for step in range(width**2 - 1):
        slot = first_slot + (numbers[2 * step] * size).astype(np.int64)
        cell = tree + slots[slot]
        size -= 1
        slots[slot] = slots[first_slot + size]
        neighbours = [flat_state[cell + offset] for offset in offsets]
        mask = sum((kind == _TREE).astype(np.int64) << bit for bit, kind in enumerate(neighbours))
        nth = (numbers[2 * step + 1] * _N_SET[mask]).astype(np.int64)
        flat_towards[cell] = _NTH_SET[mask, nth]
        enlarge(cell, neighbours)
    return towards[:, inner]


def paths(trees: NDArray[np.int8], width: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Directions from cell 0 to the last cell, [trees, longest], and their number, [trees]; -1
    behind the last."""
    steps = np.array([down * width + right for down, right in DIRECTIONS])
    at = np.full(len(trees), width**2 - 1)
    backwards = [np.full(len(trees), -1, np.int8)]  # so that there is a column without a tree too
    while at.any():
        towards = np.where(at > 0, trees[np.arange(len(trees)), at], np.int8(-1))
        backwards.append(np.where(towards < 0, np.int8(-1), towards ^ 1))  # U and D, L and R
        at = at + np.where(towards < 0, 0, steps[towards])
    met = np.stack(backwards[::-1], axis=1)
    lengths = (met >= 0).sum(1)
    order = np.argsort(met < 0, axis=1, kind="stable")
    return np.take_along_axis(met, order, 1), lengths


@lru_cache
def spanning_trees(width: int) -> int:
    """How many spanning trees a lattice of width x width cells has, exactly.

    Kirchhoff's matrix-tree theorem: the determinant of the Laplacian without the row and column of
    one cell. Bareiss's elimination keeps it in integers, and within the matrix's band.

    >>> spanning_trees(4)
    100352
    """
    cells = width**2
    laplacian = [[0] * cells for _ in range(cells)]
    for cell in range(cells):
        for other in (cell + 1 if (cell + 1) % width else cells, cell + width):
            if other < cells:
                laplacian[cell][other] = laplacian[other][cell] = -1
                laplacian[cell][cell] += 1
                laplacian[other][other] += 1
    rows, last, divisor = laplacian, cells - 1, 1
    for i in range(last - 1):
        pivot = rows[i][i]
        for k in range(i + 1, min(i + width, last - 1) + 1):
            row, head = rows[k], rows[k][i]
            for j in range(i + 1, min(k + width, last - 1) + 1):
                entering = divisor if k == i + width else 1  # what the steps so far would have made
                row[j] = (row[j] * entering * pivot - head * entering * rows[i][j]) // divisor
        divisor = pivot
    return rows[last - 1][last - 1]


def _digests(trees: NDArray[np.int8]) -> NDArray[np.uint64]:
    """A number of 64 bits a tree, the same for equal trees: [trees]. Where others share it a maze
    is drawn again in vain, which does no harm."""
    weights = np.random.default_rng(0).integers(2**64, size=trees.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        numbers = (trees.astype(np.uint64) * (weights | np.uint64(1))).sum(1)
    return np.asarray(numbers, np.uint64)


MOST_HELD_OUT = 0.1
"""Share of all mazes of a size that can be held out: Prim draws some of them hardly ever, so that
different ones would take long to come to."""
COUNTED_WIDTH = 5
"""Cells across of the widest mazes of which a million hold many that are equal (13 x 13 has 3e13
trees, its million mazes about none)."""
SAMPLED = 100_352
"""Mazes of which the equal ones are counted: at 9 x 9 no more can be asked for."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class MazeSpec(TaskSpec):
    """How large a maze is, and how many there are."""

    name: Literal["maze"]
    """A key of fgrpo_bench.tasks.TASKS."""
    seed: Seed
    """Seed of all mazes."""
    size: Annotated[int, Field(ge=mazes.SMALLEST, le=mazes.LARGEST)]
    """Width and height in places, walls included; odd, since cells and walls take turns."""
    n_train: Positive
    """Training mazes."""
    n_heldout: Positive
    """Mazes that training never sees, all different."""
    max_moves: Positive | None = None
    """Most moves of a path; longer ones are drawn again. Null is as long as a path can be (124 at
    17 x 17, where 28 to 36 are usual)."""

    @property
    def width(self) -> int:
        """Cells across."""
        return self.size // 2

    @property
    def response_length(self) -> int:
        """Most symbols of the right answer: its moves and the end."""
        cells = self.width**2  # start and goal are of one colour of a chessboard: an even number
        return (self.max_moves or 2 * ((cells - 1) // 2 * 2)) + len(mazes.DONE)

    def __post_init__(self) -> None:
        if self.size % 2 == 0:
            raise ValueError(
                f"size={self.size} is even: cells and the walls between them take turns, and walls "
                f"are around, so the size is odd; choose {self.size - 1} or {self.size + 1}"
            )
        shortest = 4 * (self.width - 1)
        if self.max_moves is not None and self.max_moves < shortest:
            raise ValueError(
                f"max_moves={self.max_moves} with size={self.size}: no path is shorter than "
                f"{shortest} moves; raise max_moves, or leave it out"
            )
        trees = spanning_trees(self.width)
        if self.n_train + self.n_heldout > trees:
            raise ValueError(
                f"n_train={self.n_train} and n_heldout={self.n_heldout} with size={self.size}: "
                f"there are {trees:,} mazes of that size; lower one of them, or raise size"
            )
        if self.n_heldout > MOST_HELD_OUT * trees:
            raise ValueError(
                f"n_heldout={self.n_heldout} with size={self.size}: at most {MOST_HELD_OUT:.0%} of "
                f"the {trees:,} mazes of that size can be held out; lower it, or raise size"
            )

    def notes(self, prompts: int) -> list[str]:
        """That mazes repeat, where they do: prompts are those that a training run draws."""
        texts = []
        equal = expected_equal(self)
        if equal >= 0.0005:
            texts.append(
                f"of the n_train={self.n_train:,} training mazes {100 * equal:.1f}% are expected "
                f"to equal an earlier one (there are {spanning_trees(self.width):,} of size "
                f"{self.size}); lower n_train or raise size where that matters"
            )
        if prompts > self.n_train:
            texts.append(
                f"{prompts:,} prompts are drawn of n_train={self.n_train:,} training mazes: each "
                f"is seen {prompts / self.n_train:.1f} times; raise n_train where that matters"
            )
        return texts


class MazeTask(Task):
    """The mazes of a spec."""

    spec = MazeSpec
    vocabulary = mazes.VOCABULARY

    def __init__(self, spec: MazeSpec) -> None:
        self._spec = spec
        self.prompt_length = 2 + spec.size * (spec.size + 1) + 2
        self.response_length = spec.response_length
        self.n_train, self.n_heldout = spec.n_train, spec.n_heldout

    def problem(self, index: int) -> Problem:
        """Training problem 0 .. n_train - 1, then held-out ones."""
        return self.problems([index])[0]

    def problems(self, indices: Sequence[int]) -> list[Problem]:
        """The same, made together."""
        numbers, n = np.asarray(indices, np.int64), self.n_train
        is_train = numbers < n
        trees = np.empty((len(numbers), self._spec.width**2), np.int8)
        trees[is_train] = self._train(numbers[is_train])
        trees[~is_train] = self._heldout[numbers[~is_train] - n]
        places = [f"t{i}" if i < n else f"h{i - n}" for i in numbers.tolist()]
        grids = _grids(trees, self._spec.size)
        return [self._problem(*item) for item in zip(places, grids, strict=True)]

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        """The path of a training problem."""
        return self.demonstrations([index], rng)[0]

    def demonstrations(self, indices: Sequence[int], rng: np.random.Generator) -> list[str]:
        """The paths of training problems; nothing of rng is used."""
        directions, lengths = paths(self._train(indices), self._spec.width)
        letters = np.frombuffer("".join(mazes.MOVES).encode(), np.uint8)
        doubled = letters[directions].repeat(2, axis=1)  # from cell to cell are two moves
        return [
            bytes(row[: 2 * length]).decode() + mazes.DONE
            for row, length in zip(doubled, lengths.tolist(), strict=True)
        ]

    @staticmethod
    def in_words(problem: Problem) -> str:
        """What a problem asks, e.g. `16 moves to the goal of 9-4-h0`."""
        maze = mazes.read_maze(problem.target)
        return f"{len(maze.moves)} moves to the goal of {problem.problem_id}"

    @cached_property
    def _heldout(self) -> NDArray[np.int8]:
        """Their trees, [n_heldout, cells]."""
        trees = self._draw_trees("heldout", np.arange(self.n_heldout))
        for attempt in count(1):
            first = np.unique(_digests(trees), return_index=True)[1]
            again = np.setdiff1d(np.arange(len(trees)), first)
            if not len(again):
                break
            trees[again] = self._draw_trees(f"heldout other {attempt}", again)
        return trees

    @cached_property
    def _heldout_digests(self) -> NDArray[np.uint64]:
        return _digests(self._heldout)

    def _train(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int8]:
        """The trees of training problems, [indices, cells]."""
        numbers = np.asarray(indices, np.int64)
        trees = self._draw_trees("train", numbers)
        for attempt in count(1):
            again = np.flatnonzero(np.isin(_digests(trees), self._heldout_digests))
            if not len(again):
                break
            trees[again] = self._draw_trees(f"train other {attempt}", numbers[again])
        return trees

    def _draw_trees(self, purpose: str, numbers: NDArray[np.int64]) -> NDArray[np.int8]:
        """Trees whose paths are no longer than max_moves, [numbers, cells]."""
        trees = self._grown(purpose, numbers)
        most = self._spec.max_moves
        for attempt in count(1):  # a third of the mazes, at 41 x 41, have the shortest path
            longer = most is not None and 2 * paths(trees, self._spec.width)[1] > most
            again = np.flatnonzero(longer)
            if not len(again):
                break
            trees[again] = self._grown(f"{purpose} shorter {attempt}", numbers[again])
        return trees

    def _grown(self, purpose: str, numbers: NDArray[np.int64]) -> NDArray[np.int8]:
        return grow(draw_seeds(self._spec.seed, [f"maze {purpose}"], numbers)[0], self._spec.width)

    def _problem(self, place: str, grid: str) -> Problem:
        return Problem(
            benchmark="maze",
            problem_id=f"{self._spec.size}-{self._spec.seed}-{place}",
            prompt=f"{mazes.BEGIN}{mazes.GRID}{grid}{mazes.GRID_END}{mazes.PATH}",
            target=grid,
            grader="maze",
        )


def _grids(trees: NDArray[np.int8], size: int) -> list[str]:
    """Mazes as text, of trees [trees, cells]."""
    line, n_trees = size + 1, len(trees)
    places = np.full((n_trees, size * line), ord(mazes.WALL), np.uint8)
    places[:, size::line] = ord(mazes.NEWLINE)
    odd = np.arange(1, size, 2)
    cells = (odd[:, None] * line + odd).ravel()
    towards = np.array([down * line + right for down, right in DIRECTIONS])
    places[np.arange(n_trees)[:, None], cells[1:] + towards[trees[:, 1:]]] = ord(mazes.OPEN)
    places[:, cells] = ord(mazes.OPEN)
    places[:, cells[0]], places[:, cells[-1]] = ord(mazes.START), ord(mazes.GOAL)
    text, length = places.tobytes().decode(), size * line
    return [text[i * length : (i + 1) * length] for i in range(n_trees)]


@lru_cache
def expected_equal(spec: MazeSpec) -> float:
    """Share of the training mazes that equal one of a smaller index.

    Counted, up to SAMPLED mazes; of more, from the number of equal pairs among those.
    """
    if spec.width > COUNTED_WIDTH:
        return 0.0
    n = min(spec.n_train, SAMPLED)
    counts = np.unique(_digests(MazeTask(spec)._train(range(n))), return_counts=True)[1]
    if n == spec.n_train:
        return 1 - len(counts) / n
    pairs = float((counts * (counts - 1)).sum()) / 2
    chance = pairs / (n * (n - 1) / 2)
    return 1 - float(-np.expm1(-spec.n_train * chance)) / (spec.n_train * chance) if pairs else 0.0
