"""Words and brackets that a reader sees in a box and math-verify does not; for `judge_worker`.

math-verify drops any text at the end of an answer as a unit, and multiplies the letters of a word,
so that their order is lost. What it takes for equal is refused here where the answer denies, leaves
open, or has the letters of the gold's words in another order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgrpo_bench.graders.judge_reading import as_read, modulus

DENIALS = frozenset(
    [
        *("not", "isn't", "isnt", "aren't", "never", "neither", "nor", "cannot", "wrong", "but"),
        *("incorrect", "false", "except", "or"),
    ]
)
"""Words by which a number is no longer the answer, or one of several."""
BOUNDS = frozenset(["least", "most"])
"""The same behind `at`."""

_TOKEN = re.compile(r"\\[A-Za-z]++|[A-Za-z]++(?:'[a-z]++)?|[0-9]++|\S")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox|operatorname|rm|bf|it)")
_STANDS_ALONE = frozenset(",;:.()[]{}=~$") | {"\\angle", "\\measuredangle", "\\triangle"}
_SIDES = re.compile(r"\\(?:left|right)(?![A-Za-z])")
_NAMED = re.compile(r"^\\?[^=(){}\[\],\\]*+(?:=|\\in(?![A-Za-z]))|^\([^(){}=]*+\)\s*+=")
_BRACKET = re.compile(r"\\[{}]|[(){}\[\]]")
_VOWELS = frozenset("aeiou")


def refusal(gold: str, answer: str, *, several: bool) -> str | None:
    """Why a reader takes an answer for another one that math-verify finds equal; None where not.

    gold, answer: normalised. several: whether the gold has several parts, of which alternatives may
    then be. Linear in their lengths.
    """
    if None not in (moduli := (modulus(gold), modulus(answer))) and moduli[0] != moduli[1]:
        return "another modulus"
    gold, answer = as_read(gold), as_read(answer)
    if {_enclosing(gold), _enclosing(answer)} == {"(", "\\{"}:
        return "a pair for a set, or the reverse"
    theirs, ours = _tokens(gold), _tokens(answer)
    in_gold = {token.lower() for token in theirs}
    denied = next((word for word in _denials(ours, several=several) if word not in in_gold), None)
    if denied is not None:
        return f"says {denied!r} and the gold does not"
    known = set(_words(theirs))
    for word in _words(ours):
        if word in known:
            continue
        if any(_reordered(word, other) for other in known):
            return "the letters of a word in another order"
    return None


def denies(text: str) -> bool:
    """Whether a text has a word of DENIALS.

    >>> denies("is not the answer"), denies("metres")
    (True, False)
    """
    return any(True for _ in _denials(_tokens(text), several=False))


def _enclosing(text: str) -> str:
    """The bracket around a list of which it is all, behind a name or not; empty where none is."""
    text = _NAMED.sub("", _SIDES.sub("", text)).strip()
    opened = 0
    for bracket in _BRACKET.finditer(text):
        opened += 1 if bracket[0][-1] in "({[" else -1
        if opened <= 0:
            around = bracket.end() == len(text) and "," in text
            return (_BRACKET.match(text) or [""])[0] if around else ""
    return ""


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if not _TEXT.fullmatch(token)]


def _denials(tokens: list[str], *, several: bool) -> Iterator[str]:
    """Denying words, and where the gold has one part a further number behind `and`.

    Left of the last equals sign stands the name of a quantity, as in `P(\\text{not } A) = 1`; there
    a word denies only right before the sign.
    """
    named = max((i for i, token in enumerate(tokens) if token == "="), default=0)
    around = zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)
    for i, (before, token, behind) in enumerate(around):
        word = token.lower()
        bound = word in BOUNDS and before.lower() == "at"
        further = word == "and" and behind.isdigit()
        denies = word in DENIALS or bound or further
        if denies and not (several and word in {"or", "and"}) and (i >= named or behind == "="):
            yield word


def _words(tokens: list[str]) -> Iterator[str]:
    """Runs of three or more letters that stand alone: no factor, power or index beside them."""
    for i, token in enumerate(tokens):
        if len(token) > 2 and token.isalpha() and token.isascii():
            beside = tokens[max(i - 1, 0) : i] + tokens[i + 1 : i + 2]
            if all(each in _STANDS_ALONE or each.isalpha() for each in beside):
                yield token if token.isupper() else token.lower()


def _reordered(word: str, other: str) -> bool:
    """Whether two runs of letters are the same letters, and words or points rather than products:
    products are written in the alphabet's order by one of two authors, or have no vowel."""
    if sorted(word) != sorted(other) or word.isupper() != other.isupper():
        return False
    if word.isupper():
        return True
    products = (list(each) == sorted(set(each)) for each in (word, other))
    return bool(_VOWELS & set(word)) and not any(products)
