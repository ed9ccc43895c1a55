"""Countdown arithmetic: reach a target from given digits, each used once, with + - *.

A prompt is `3256=24:` and a correct response is `5*2*3-6` or another expression that reaches 24;
most problems have several, of very different probability under a trained policy, which is where a
lost rare solution shows. Problems are (multiset of digits, target); their digits stand in one
random order, and those of one multiset are a cluster. Everything follows from the spec's seed.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders.countdown import solution
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.specs.base import STRICT, Seed
from fgrpo_bench.tasks.task import Task

OPERATORS = "+-*"
TARGETS = 1_000
"""One above the largest that there can be."""
MOST_DIGITS = 6
"""Of a problem whose solutions are enumerated: up to 174,960 expressions; each further digit has 21
times as many."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class CountdownSpec(TaskSpec):
    """What a problem of countdown is, and how its problems are split."""

    name: Literal["countdown"]
    """A key of fgrpo_bench.tasks.TASKS."""
    seed: Seed
    """Seed of the generator and of the split into training and held-out problems."""
    n_digits: Annotated[int, Field(ge=2, le=5)]
    """Digits a problem offers, each to be used once."""
    max_target: Annotated[int, Field(ge=1, le=999)]
    """Largest target value; targets run from 1, and all are written with as many figures: two, or
    three where it is above 99."""
    heldout_fraction: Annotated[float, Field(gt=0, lt=1)]
    """Share of the problems that training never sees."""


class Countdown(Task):
    """All solvable problems of a spec, split by its seed."""

    spec = CountdownSpec
    vocabulary = "0123456789+-*=:"

    def __init__(self, spec: CountdownSpec) -> None:
        self._width = max(2, len(str(spec.max_target)))
        self.prompt_length = spec.n_digits + self._width + 2
        self.response_length = 2 * spec.n_digits - 1
        self._digits, self._targets, self._solutions, self._starts = _enumerate(spec)
        rng = np.random.default_rng([spec.seed, spec.n_digits, spec.max_target])
        order = rng.permutation(len(self._targets))
        self._shuffled = rng.permuted(self._digits, axis=1)
        self.n_heldout = int(len(order) * spec.heldout_fraction)
        self.n_train = len(order) - self.n_heldout
        self._items = np.roll(order, -self.n_heldout)  # training first

    def problem(self, index: int) -> Problem:
        """Training problem 0 .. n_train - 1, then held-out ones."""
        return self._problem(int(self._items[index]))

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        """One of the training problem's solutions, all equally likely."""
        return str(rng.choice(self.solutions(int(self._items[index]))))

    def solutions(self, item: int) -> list[str]:
        """Every correct response to an item of the enumeration."""
        rows = self._solutions[self._starts[item] : self._starts[item + 1]]
        return _written(rows)

    @staticmethod
    def in_words(problem: Problem) -> str:
        """What a problem asks, e.g. `reach 24 from 3, 2, 5, 6`."""
        digits, target = problem.problem_id.split("-")
        return f"reach {int(target)} from {', '.join(digits)}"

    @staticmethod
    def target_in_words(problem: Problem) -> str:
        """What is right, e.g. `24, from 3, 2, 5, 6 each once with + - *`."""
        digits, target = problem.target.split("-")
        return f"{int(target)}, from {', '.join(digits)} each once with {' '.join(OPERATORS)}"

    def _problem(self, item: int) -> Problem:
        digits = "".join(map(str, self._shuffled[item]))
        target = f"{self._targets[item]:0{self._width}d}"
        bag = "".join(map(str, self._digits[item]))
        return Problem(
            benchmark="countdown",
            problem_id=f"{digits}-{target}",
            prompt=f"{digits}={target}:",
            target=f"{digits}-{target}",
            grader="countdown",
            cluster=bag,
        )


@lru_cache(maxsize=4096)
def all_solutions(target: str) -> frozenset[str]:
    """Every solution of a problem, as fgrpo_bench.graders.countdown.solution writes it.

    target: of the problem, e.g. `3256-24`. All orders of its digits with all operators are
    computed. ValueError for more than MOST_DIGITS digits.
    """
    digits, _, reached = target.partition("-")
    if len(digits) > MOST_DIGITS:
        raise ValueError(
            f"the solutions of {target} are not enumerated: it has {len(digits)} digits, and up to "
            f"{MOST_DIGITS} can be; leave out readings of all solutions"
        )
    orders = np.array(sorted(set(permutations(map(int, digits)))))
    operators = np.array(list(product(range(3), repeat=len(digits) - 1)), np.int64)
    numbers, signs = orders.repeat(len(operators), 0), np.tile(operators, (len(orders), 1))
    is_right = _values(numbers, signs) == int(reached)
    return frozenset(map(solution, _written(_texts(numbers[is_right], signs[is_right]))))


def _enumerate(
    spec: CountdownSpec,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Digits [items, n] in rising order, targets [items], solutions as ASCII rows [all, 2n - 1]
    sorted by item, and where each item's solutions start [items + 1]."""
    n = spec.n_digits
    bags = np.array(list(combinations_with_replacement(range(1, 10), n)))
    orders = np.array(list(permutations(range(n))))
    operators = np.array(list(product(range(3), repeat=n - 1)))
    digits = bags[:, orders][:, :, None, :].repeat(len(operators), 2).reshape(-1, n)
    signs = np.broadcast_to(operators, (len(bags) * len(orders), *operators.shape))
    signs = signs.reshape(-1, n - 1)
    bag = np.repeat(np.arange(len(bags)), len(orders) * len(operators))
    reached = _values(digits, signs)
    keep = (reached >= 1) & (reached <= spec.max_target)
    digits, signs, item = digits[keep], signs[keep], bag[keep] * TARGETS + reached[keep]
    text = _texts(digits, signs)
    code = item.copy()
    for column in text.T:  # equal digits give the same text twice: count each once
        code = code * 16 + (column & 15)
    _, first = np.unique(code, return_index=True)
    item, text = item[first], text[first]
    keys, starts = np.unique(item, return_index=True)
    return bags[keys // TARGETS], keys % TARGETS, text, np.append(starts, len(item))


def _texts(digits: NDArray[np.int64], operators: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Expressions as `_values` takes them, as ASCII [rows, 2n - 1]."""
    rows, n = digits.shape
    text = np.empty((rows, 2 * n - 1), np.uint8)
    text[:, ::2] = digits + ord("0")
    text[:, 1::2] = np.frombuffer(OPERATORS.encode(), np.uint8)[operators]
    return text


def _written(rows: NDArray[np.uint8]) -> list[str]:
    """Inverse of the rows of `_texts`."""
    return ["".join(map(chr, row)) for row in rows]


def _values(digits: NDArray[np.int64], operators: NDArray[np.int64]) -> NDArray[np.int64]:
    """Values of expressions [rows, n] with operator numbers [rows, n - 1], usual precedence."""
    total = np.zeros(len(digits), np.int64)
    sign, term = np.ones(len(digits), np.int64), digits[:, 0].copy()
    for i in range(operators.shape[1]):
        times = operators[:, i] == OPERATORS.index("*")
        total = np.where(times, total, total + sign * term)
        sign = np.where(times, sign, np.where(operators[:, i] == OPERATORS.index("-"), -1, 1))
        term = np.where(times, term * digits[:, i + 1], digits[:, i + 1])
    return total + sign * term
