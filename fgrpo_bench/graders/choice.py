"""Multiple choice: is the letter that a response settles on the right one?

The letter is that of the last balanced box that holds one letter and nothing else, after the last
`</think>`: `\\boxed{B}`, `\\boxed{(B)}`, `\\boxed{B.}`, `\\boxed{\\text{B}}`. Without such a box it
is that of the last phrase `answer is (X)` or `Answer: X`, in which a bare letter must end its line
or sentence, so that "the answer is A good deal larger" says nothing. Else there is none, and the
response is incorrect. Letters are capitals.
"""

from __future__ import annotations

import hashlib
import re
from itertools import permutations

from fgrpo_bench.graders.math import after_thoughts, boxes
from fgrpo_bench.records import Grade, Problem

LETTERS = "ABCD"
PERMUTATION_SEED = 0
"""Changes the order of choices of every problem, and with it every prompt."""
LONGEST_BOX = 60
"""Characters of a box that may hold one letter with its decoration."""

_ORDERS = list(permutations(range(len(LETTERS))))
_STYLE = r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bm|rm|bf)\s*"
_LETTER_ALONE = re.compile(rf"(?:{_STYLE}|[\s${{}}().])*([A-D])[\s${{}}().]*")
_PHRASE = re.compile(
    rf"(?i:\banswer\s*+(?:is\b|:))[\s:$*]*+(?:{_STYLE})?"
    r"(?:[({\[]+([A-D])[)}\]]|([A-D])(?=[ \t$*]*+(?:[.,;:!)]|$)))",
    re.MULTILINE,
)


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
    letter = extract(response)
    if problem.target not in tuple(LETTERS):
        return Grade(outcome="unscored", extracted=letter, reason="the gold is no letter")
    if letter is None:
        return Grade(outcome="incorrect", extracted=None, reason="no letter found")
    if letter == problem.target:
        return Grade(outcome="correct", extracted=letter, reason="the right choice")
    return Grade(outcome="incorrect", extracted=letter, reason="another choice")


def extract(response: str) -> str | None:
    """The letter that a response settles on; None without one. Linear in the length of the text.

    >>> extract("Not A. The answer is (C)."), extract(r"so \\boxed{\\text{B}}"), extract("A or B?")
    ('C', 'B', None)
    """
    text = after_thoughts(response)
    found = None
    for content in boxes(text, longest=LONGEST_BOX):
        if alone := _LETTER_ALONE.fullmatch(content):
            found = alone[1]
    if found is not None:
        return found
    for phrase in _PHRASE.finditer(text):
        found = phrase[1] or phrase[2]
    return found


def guessing_floor(k: int, n_choices: int = len(LETTERS)) -> float:
    """pass@k of somebody who guesses: 1 - (1 - 1 / n_choices) ** k, a fraction.

    >>> guessing_floor(1), round(guessing_floor(16), 4)
    (0.25, 0.99)
    """
    if k < 1 or n_choices < 1:
        raise ValueError(f"k={k}, n_choices={n_choices}: both must be at least 1")
    return float(1.0 - (1.0 - 1.0 / n_choices) ** k)
