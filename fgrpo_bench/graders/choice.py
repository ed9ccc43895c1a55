"""Multiple choice: is the letter that a response settles on the right one?

In: a problem whose target means one of its options, and a response. Out: a grade whose reason says
by which kind of statement the letter was read (choice_reading). Hedging settles nothing, and a
response without a letter is incorrect. docs/reference/grading.md has tables of both sides;
tests/cases/choice.json the cases.

A problem has the options that its prompt lists, by letters or else by numbers. Where it lists none,
they are A to D, and on to the gold.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders.choice_reading import (
    PRINT,
    WEAK,
    letter_with_text,
    read_choice,
    with_labels,
)

LETTERS = string.ascii_uppercase
"""What options may be called."""
PERMUTATION_SEED = 0
"""Changes the order of choices of every problem, and with it every prompt."""

_ORDERS = list(permutations(range(4)))


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
    """Correct where the response settles on the letter that problem.target means.

    Unscored where it means none of the problem's letters, e.g. E of an option that is not listed.
    """
    choice = _choice(problem.prompt, problem.target)
    statement = read_choice(response, choice.labels, choice.options)
    letter = None if statement is None else statement.letter
    if choice.right is None:
        reason = f"the gold is none of the letters {choice.labels}, nor the text of one option"
        return Grade(outcome="unscored", extracted=letter, reason=reason)
    if statement is None:
        return Grade(outcome="incorrect", extracted=None, reason="no letter found")
    if letter is None:
        return Grade(outcome="incorrect", extracted=None, reason=f"not settled, {statement.kind}")
    right = letter == choice.right
    return Grade(
        outcome="correct" if right else "incorrect",
        extracted=letter,
        reason=f"{'the right' if right else 'another'} choice, {statement.kind}",
    )


def grade_strict(problem: Problem, response: str) -> Grade:
    """The same, and incorrect where no box, tag or "the answer is" states the letter."""
    judged = grade(problem, response)
    if judged.outcome == "unscored" or not judged.reason.endswith(WEAK):
        return judged
    return replace(judged, outcome="incorrect", reason=f"not stated, {judged.reason}")


class _Choice(NamedTuple):
    """What a problem asks to choose among."""

    labels: str
    options: Mapping[str, str]
    """Label and text; empty where the prompt lists none."""
    right: str | None
    """The label that the gold means."""


@lru_cache(maxsize=4_096)
def _choice(prompt: str, gold: str) -> _Choice:
    """Options that are listed by letters, else by numbers if the gold is one of these; else A to D,
    and on to the gold."""
    options = options_in(prompt)
    if not options and letter_in(gold, numbered := _listed(prompt, "123456789")) is not None:
        options = numbered
    right = letter_in(gold, options)
    labels = "".join(options) or LETTERS[: max(4, LETTERS.find(right or "A") + 1)]
    return _Choice(labels, options, right)


def n_options(prompt: str, gold: str) -> int:
    """How many options a prompt lists; 0 where it lists none. gold: as in `grade`."""
    return len(_choice(prompt, gold).options)


def guessing_floor(k: int, n_choices: Sequence[int]) -> float | None:
    """pass@k of somebody who guesses: 1 - (1 - 1 / n) ** k for a problem with n options, the mean
    over problems, a fraction; None without problems, or where a number is not known.

    n_choices: of each problem, 0 if not known (`n_options`).

    >>> guessing_floor(1, [4]), guessing_floor(1, [2, 4]), guessing_floor(1, [4, 0])
    (0.25, 0.375, None)
    """
    if k < 1:
        raise ValueError(f"k={k}: must be at least 1")
    if not n_choices or min(n_choices) < 1:
        return None
    return float(sum(1.0 - (1.0 - 1.0 / n) ** k for n in n_choices) / len(n_choices))


_STYLED = r"(?:\\(?:text(?:bf|rm|sf)?|math(?:rm|bf)|bf)\s?\{|[*_`]{1,3})?+[ \t]?+"
_LABELS = (
    # on a line of its own: "A. 4", "(A) 4", "- **A)** 4", "A: 4", "A - 4"
    rf"^[ \t]*+(?:[-+*>\u2022][ \t]++)?+\$?{_STYLED}"
    r"(?:[(\[](@)[)\]][.:]?+|(@)(?:[*_`}]{0,3}+[.):](?!\w\.)|\t|[ \t]++[-\u2013\u2014](?=\s)))",
    # in the run of a line: "(A) 4 (B) 5", "A) 4 B) 5", "A. 4 B. 5"
    rf"{_STYLED}[(\[](@)[)\]]",
    rf"(?<![\w(]){_STYLED}(@)\)",
    rf"(?<!\S){_STYLED}(@)\.(?=\s)",
)
"""How a prompt calls its options; @ stands for one of the labels."""
_OPENS = re.compile(r"(?:^|[:?])\s*+\Z", re.MULTILINE)
"""What stands before the first of two labels in the run of a line."""
_TRIMMED = re.compile(r"\A(?:\s|\\[ ,;:]|[~}*_`])++|(?:\s|\\[ ,;:\\]|\\q?quad(?![a-z])|~)++\Z")
_REST_OF_LINE = re.compile(r"\s*+[^\n]*+")
_MENTIONED = re.compile(r"(?:[\s,;/&]|or\b|and\b)*+", re.IGNORECASE)
"""What stands between labels that name no options: "(A), (B) or (C)"."""
LONGEST_OPTION = 2_000
"""Characters of the last option that are read."""


def options_in(prompt: str) -> dict[str, str]:
    """Letter and text of the options that a prompt lists last; empty where it lists none.

    On lines of their own or in the run of a line, behind capitals or else small letters. The last
    option ends with its line.

    >>> options_in("Which is prime? (A) 4 (B) 5 (C) 6")
    {'A': '4', 'B': '5', 'C': '6'}
    >>> options_in("Answer with (A), (B) or (C).")
    {}
    """
    options = _listed(prompt, LETTERS) or _listed(prompt, LETTERS.lower())
    return {letter.upper(): text for letter, text in options.items()}


def _listed(prompt: str, labels: str) -> dict[str, str]:
    """The last list of lines, or one in the run of a line that is longer and not before it."""
    chosen, start = dict[str, str](), 0
    for pattern in _LABELS:
        lists = list[list[re.Match[str]]]()
        for label in with_labels(pattern, labels).finditer(prompt):
            name = label[label.lastindex or 0]
            if name == labels[0]:
                lists.append([label])
            elif lists and labels.find(name) == len(lists[-1]):
                lists[-1].append(label)
        for marks in reversed(lists):
            inline, begin = pattern is not _LABELS[0], marks[0].start()
            if len(marks) <= len(chosen) or (inline and marks[-1].start() < start):
                continue
            opens = not inline or _OPENS.search(prompt[max(0, begin - 9) : begin])
            if len(marks) < (2 if opens else 3):
                continue
            if options := _texts(prompt, marks):
                chosen, start = options, begin
            if chosen and not inline:
                break
    return chosen


def _texts(prompt: str, marks: list[re.Match[str]]) -> dict[str, str]:
    """What stands behind each label; empty where the labels are only mentioned."""
    begin = marks[-1].end()
    last = _REST_OF_LINE.match(prompt, begin, begin + LONGEST_OPTION)
    ends = [*(label.start() for label in marks[1:]), last.end() if last else begin]
    texts = [prompt[label.end() : end] for label, end in zip(marks, ends, strict=True)]
    if all(_MENTIONED.fullmatch(text) for text in texts[:-1]):
        return {}
    names = [label[label.lastindex or 0] for label in marks]
    return {name: _TRIMMED.sub("", text) for name, text in zip(names, texts, strict=True)}


_GOLD = re.compile(
    rf"{PRINT}*+(?:(?:option|choice|answer)\b[\s:]*+)?+{PRINT}*+[(\[]?+([A-Z]){PRINT}*+"
    rf"(?:[)\].:]++{PRINT}*+(.*+))?+",
    re.IGNORECASE | re.DOTALL,
)
"""Groups: a letter, the option's text behind it."""


def letter_in(gold: str, options: Mapping[str, str]) -> str | None:
    """The letter that a gold means, None where it means none, or one thing or another.

    gold: a letter in either case and with decoration, the text of an option, or the place of an
    option from 0 on, as MMLU publishes it; a number that is an option's text is that option.
    options: letter and text, as from `options_in`; empty: unknown, and any letter is one.

    >>> [letter_in(gold, {"A": "4", "B": "2"}) for gold in ("b", "(B) 2", "2", "0", "C", "5")]
    ['B', 'B', 'B', 'A', None, None]
    """
    gold, letters = gold.strip(), tuple(options) or tuple(LETTERS)
    if gold in letters:
        return gold
    meant = {by_text} if (by_text := letter_with_text(gold, options)) else set[str]()
    if (named := _GOLD.fullmatch(gold)) and (letter := named[1].upper()) in letters:
        text = letter_with_text(named[2] or "", options)
        if text not in (None, letter):
            return None
        meant.add(letter)
    is_place = re.fullmatch(r"[0-9]{1,2}", gold) and letters[0].isalpha()
    if not meant and is_place and int(gold) < len(letters):
        meant.add(letters[int(gold)])
    return meant.pop() if len(meant) == 1 else None
