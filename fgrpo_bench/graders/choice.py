"""Multiple choice: is the letter that a response settles on the right one?

The letter is that of the last balanced box that holds one letter and nothing else, after the last
`</think>`: `\\boxed{B}`, `\\boxed{(B)}`, `\\boxed{B.}`, `\\boxed{\\text{B}}`. Without such a box it
is that of the last phrase `answer is (X)` or `Answer: X`, in which a bare letter must end its line
or sentence, so that "the answer is A good deal larger" says nothing. Else there is none, and the
response is incorrect. Letters are capitals.

Hedging settles nothing: another letter joined to it ("(B) or (C)", "B, C or D", two boxes side by
side), a later box that names another letter or none, an answer that is asked or called wrong.
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
"""Characters of a box that are read: one letter with its decoration has no more."""

_ORDERS = list(permutations(range(len(LETTERS))))
_STYLE = r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bm|rm|bf)(?![a-z])"
_LETTER_ALONE = re.compile(rf"(?:{_STYLE}|[\s${{}}().])*+([A-D])[\s${{}}().]*+")
_PHRASE = re.compile(
    r"(?i:(\b(?:wrong|incorrect|false|(?:not|never) (?:the|an?)(?: \w{1,12})?)\s{1,3}+)?+"
    rf"\banswer\s*+(?:is\b|:))[\s:$*]*+(?:{_STYLE}\s*+)?+"
    r"(?:[({\[]++([A-D])[)}\]](?![ \t$*]*+\?)|([A-D])(?=[ \t$*]*+(?:[.,;:!)]|$)))",
    re.MULTILINE,
)
"""Groups: what denies the phrase, a bracketed letter, a bare one."""
_DENIED = re.compile(
    r"(?i:\b(?:not|never|(?:wrong|incorrect|false) (?:answer|choice|option)(?: is)?)"
    r"(?: the (?:\w{1,12} )?(?:answer|choice|option)(?: is)?)?[ :$*({]*+)\Z"
)
"""What denies a box behind it."""
_NEXT = re.compile(
    rf"((?:{_STYLE}|\\(?:boxed|fbox)|\\[ ,;]|[\s$*_~(){{}}\[\],/&|]|(?i:\b(?:or|and|nor)\b))"
    r"{1,40}+)([A-D])(?!\w)"
)
"""Groups: what stands between a letter and the next, the next."""
_EITHER = re.compile(r"(?i:[/|]|\b(?:or|nor)\b)")
_LISTED = re.compile(r"(?i:[,&]|\band\b)")
_ENDS = re.compile(r"[ \t$*_)}\]]*+(?:[.,;:!?/&|]|$|(?:or|and|nor|are)\b)", re.MULTILINE)
_CLAUSE = re.compile(r"[ \t$*_)}\]]*+(?:is|was|has|does|can|cannot|would)\b")
_NAMED = re.compile(
    r"(?<![\w\\^])([A-D]{1,4})(?=[\s$]*+(?:[).,:;/&|{}\]]|\\text|$|(?:or|and|nor)\b))"
)
_DENIES = re.compile(r"(?i:\b(?:none|neither|nothing|not|all|any|both|either|cannot|unknown)\b)")


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
    >>> extract("The answer is (B) or (C)."), extract(r"\\boxed{B} \\boxed{none of these}")
    (None, None)
    """
    text = after_thoughts(response)
    letter, since, until = None, -1, -1  # of the last letter: where it begins, and its run ends
    others = []  # beginnings of boxes with something else, and the beginning of that
    for start, begin, end in boxes(text):
        alone = _LETTER_ALONE.fullmatch(text, begin, end) if end - begin <= LONGEST_BOX else None
        if alone is None:
            others.append((start, text[begin : min(end, begin + LONGEST_BOX)]))
        elif start >= until and not _DENIED.search(text[max(0, start - LONGEST_BOX) : start]):
            since = start
            letter, until = _run(text, alone[1], end)
    if since < 0:
        for phrase in _PHRASE.finditer(text):
            if phrase[1] is None and phrase.start() >= until:
                since = phrase.start()
                letter, until = _run(text, phrase[2] or phrase[3], phrase.end())
    taken_back = any(start > since and _takes_back(box, letter) for start, box in others)
    return None if taken_back else letter


def _run(text: str, letter: str, end: int) -> tuple[str | None, int]:
    """The letter, None where another is joined to it; and the end of the last joined one."""
    letters = {letter}
    while following := _NEXT.match(text, end):
        between, after = following[1], following.end()
        either = _EITHER.search(between) is not None
        if between.rstrip().endswith(("(", "[", "{")):
            joined = "\n" not in between and not _CLAUSE.match(text, after)
        else:
            joined = _LISTED.search(between) is not None and _ENDS.match(text, after) is not None
        if not (joined or either):
            break
        letters.add(following[2])
        end = after
    return (letter if len(letters) == 1 else None), end


def _takes_back(box: str, letter: str | None) -> bool:
    """Whether a box with something else than a letter says that it is another one, or none."""
    named = {each for name in _NAMED.findall(box) for each in name}
    return bool(named - {letter}) or _DENIES.search(box) is not None


def guessing_floor(k: int, n_choices: int = len(LETTERS)) -> float:
    """pass@k of somebody who guesses: 1 - (1 - 1 / n_choices) ** k, a fraction.

    >>> guessing_floor(1), round(guessing_floor(16), 4)
    (0.25, 0.99)
    """
    if k < 1 or n_choices < 1:
        raise ValueError(f"k={k}, n_choices={n_choices}: both must be at least 1")
    return float(1.0 - (1.0 - 1.0 / n_choices) ** k)
