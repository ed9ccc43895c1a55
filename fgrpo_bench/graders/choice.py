"""Multiple choice: is the letter that a response settles on the right one?

How the letter is read: `choice_reading` and docs/grading.md. Hedging settles nothing, and a
response without a letter is incorrect. The reason says by which kind of statement it was read.
"""

from __future__ import annotations

import hashlib
from itertools import permutations

from fgrpo_bench.graders.choice_reading import read
from fgrpo_bench.records import Grade, Problem

LETTERS = "ABCD"
PERMUTATION_SEED = 0
"""Changes the order of choices of every problem, and with it every prompt."""

_ORDERS = list(permutations(range(len(LETTERS))))


def permutation(record_id: str, seed: int = PERMUTATION_SEED) -> tuple[int, ...]:
    """Which choice stands at A, B, C and D; the same for all draws and models.

    It follows from the record alone, so neither a new order of rows nor another draw of random
    numbers changes it.

    >>> sorted(permutation("rec1"))
    [0, 1, 2, 3]
    """
    digest = hashlib.sha256(f"{seed}:{record_id}".encode()).digest()
    return _ORDERS[int.from_bytes(digest) % len(_ORDERS)]


def grade(problem: Problem, response: str) -> Grade:
    """Correct where the response settles on the letter problem.target."""
    statement = read(response)
    letter = None if statement is None else statement.letter
    if problem.target not in tuple(LETTERS):
        return Grade(outcome="unscored", extracted=letter, reason="the gold is no letter")
    if statement is None:
        return Grade(outcome="incorrect", extracted=None, reason="no letter found")
    if letter is None:
        return Grade(outcome="incorrect", extracted=None, reason=f"not settled, {statement.kind}")
    right = letter == problem.target
    return Grade(
        outcome="correct" if right else "incorrect",
        extracted=letter,
        reason=f"{'the right' if right else 'another'} choice, {statement.kind}",
    )


def guessing_floor(k: int, n_choices: int = len(LETTERS)) -> float:
    """pass@k of somebody who guesses: 1 - (1 - 1 / n_choices) ** k, a fraction.

    >>> guessing_floor(1), round(guessing_floor(16), 4)
    (0.25, 0.99)
    """
    if k < 1 or n_choices < 1:
        raise ValueError(f"k={k}, n_choices={n_choices}: both must be at least 1")
    return float(1.0 - (1.0 - 1.0 / n_choices) ** k)
