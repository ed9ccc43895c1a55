"""Mazes: find the one path from a corner to the opposite one.

A prompt is a grid of symbols, one character each (fgrpo_bench.graders.maze_text): `^[`, the rows
each closed by `/`, and `]:`, which at 17 x 17 are 310 characters. The correct response is the
simple path and an end, e.g. `RRDD...!`; there is no other one, so a policy has no rare solutions
here that it could lose. The mazes are trees by randomised Prim (fgrpo_bench.tasks.maze_trees).

Nothing is stored: a maze follows from the spec's seed, its split and its index. One that has a
longer path than max_moves is drawn again, and so is a held-out maze that equals another one, and a
training maze that equals a held-out one; training mazes may equal each other, which only matters at
the smallest sizes, where the plan says how often.
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
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.graders import maze_text as mazes
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.specs.base import STRICT, Positive, Seed
from fgrpo_bench.tasks.maze_trees import DIRECTIONS, digests, grow, paths, spanning_trees

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


class Maze:
    """The mazes of a spec; see fgrpo_bench.tasks.Task."""

    spec = MazeSpec
    vocabulary = mazes.VOCABULARY

    def __init__(self, spec: MazeSpec) -> None:
        self._spec = spec
        self.prompt_length = 2 + spec.size * (spec.size + 1) + 2
        self.response_length = spec.response_length
        self.n_train, self.n_heldout = spec.n_train, spec.n_heldout

    def train_problem(self, index: int) -> Problem:
        """Training problem 0 .. n_train - 1."""
        return self.train_problems([index])[0]

    def train_problems(self, indices: Sequence[int]) -> list[Problem]:
        """Training problems, made together."""
        return self._problems("t", indices, self._train(indices))

    def heldout_problem(self, index: int) -> Problem:
        """Held-out problem 0 .. n_heldout - 1."""
        return self._problems("h", [index], self._heldout[[index]])[0]

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
        trees = self._drawn("heldout", np.arange(self.n_heldout))
        for attempt in count(1):
            first = np.unique(digests(trees), return_index=True)[1]
            again = np.setdiff1d(np.arange(len(trees)), first)
            if not len(again):
                break
            trees[again] = self._drawn(f"heldout other {attempt}", again)
        return trees

    @cached_property
    def _heldout_digests(self) -> NDArray[np.uint64]:
        return digests(self._heldout)

    def _train(self, indices: Sequence[int]) -> NDArray[np.int8]:
        """The trees of training problems, [indices, cells]."""
        numbers = np.asarray(indices, np.int64)
        trees = self._drawn("train", numbers)
        for attempt in count(1):
            again = np.flatnonzero(np.isin(digests(trees), self._heldout_digests))
            if not len(again):
                break
            trees[again] = self._drawn(f"train other {attempt}", numbers[again])
        return trees

    def _drawn(self, purpose: str, numbers: NDArray[np.int64]) -> NDArray[np.int8]:
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

    def _problems(
        self, split: str, indices: Sequence[int], trees: NDArray[np.int8]
    ) -> list[Problem]:
        return [
            Problem(
                benchmark="maze",
                problem_id=f"{self._spec.size}-{self._spec.seed}-{split}{index}",
                prompt=f"{mazes.BEGIN}{mazes.GRID}{grid}{mazes.GRID_END}{mazes.PATH}",
                target=grid,
                grader="maze",
            )
            for index, grid in zip(indices, _grids(trees, self._spec.size), strict=True)
        ]


def _grids(trees: NDArray[np.int8], size: int) -> list[str]:
    """Mazes as text, of trees [trees, cells]."""
    line, of = size + 1, len(trees)
    places = np.full((of, size * line), ord(mazes.WALL), np.uint8)
    places[:, size::line] = ord(mazes.NEWLINE)
    odd = np.arange(1, size, 2)
    cells = (odd[:, None] * line + odd).ravel()
    towards = np.array([down * line + right for down, right in DIRECTIONS])
    places[np.arange(of)[:, None], cells[1:] + towards[trees[:, 1:]]] = ord(mazes.OPEN)
    places[:, cells] = ord(mazes.OPEN)
    places[:, cells[0]], places[:, cells[-1]] = ord(mazes.START), ord(mazes.GOAL)
    text, length = places.tobytes().decode(), size * line
    return [text[i * length : (i + 1) * length] for i in range(of)]


@lru_cache
def expected_equal(spec: MazeSpec) -> float:
    """Share of the training mazes that equal one of a smaller index.

    Counted, up to SAMPLED mazes; of more, from the number of equal pairs among those.
    """
    if spec.width > COUNTED_WIDTH:
        return 0.0
    n = min(spec.n_train, SAMPLED)
    counts = np.unique(digests(Maze(spec)._train(range(n))), return_counts=True)[1]
    if n == spec.n_train:
        return 1 - len(counts) / n
    pairs = float((counts * (counts - 1)).sum()) / 2
    chance = pairs / (n * (n - 1) / 2)
    return 1 - float(-np.expm1(-spec.n_train * chance)) / (spec.n_train * chance) if pairs else 0.0
