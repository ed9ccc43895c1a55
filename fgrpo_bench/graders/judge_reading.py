"""How a boxed answer or a gold is written before math-verify reads it; for `judge_worker`.

math-verify passes over what follows `_` after a number and takes `ABC` for a product, so that a
numeral in another base and the letters of an angle are given a form that says what they are.
"""

from __future__ import annotations

import re

_NUMERAL = re.compile(
    r"(?<![0-9A-Za-z.\\_^])(?:\(\s*+([0-9A-F]++)\s*+\)|([0-9A-F]++))\s*+_\s*+"
    r"(?:([0-9])|\{((?:[^{}]|\{[^{}]*+\})*+)\})"
)
_BASE_WORDS = re.compile(r"\\(?:text|mathrm|mbox|rm|textrm)\b|base|[{}()\s~]")
_NUMBER_WORDS = [
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen"),
]
_CORNERS = re.compile(
    r"\\(angle|measuredangle|triangle)(?![A-Za-z])\s*+(\{)?\s*+([A-Z])\s*+([A-Z])\s*+([A-Z])\s*+"
    r"(?(2)\})(?![A-Za-z_'^])"
)
_LEADING = re.compile(r"^\s*+(?:(?:=|\\(?:approx|sim(?:eq)?)(?![A-Za-z]))\s*+)++")
_ENERGY = re.compile(r"(?<![A-Za-z\\])E(?=\s*_)")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3})")
_GROUPED = re.compile(r"\s*-?[0-9]{1,3}(?:,[0-9]{3})+\s*")
_PASSED_OVER = re.compile(r"[€£¥₹]|(?<=\\circ)\s*+[CF](?![A-Za-z])")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])")
_INDEX = re.compile(r"_\s*+\{?\s*+i(?![A-Za-z])|(?<![A-Za-z\\])i\s*+=|\\(?:sum|prod)(?![A-Za-z])")
_MODULUS = re.compile(
    r"\\p?mod(?![A-Za-z])\s*+(?:\{([^{}]*+)\}|([0-9]++|[a-z](?![A-Za-z])))"
    r"|\(\s*+(?:\\b?mod|\\(?:text|mathrm)\s*+\{\s*+mod\s*+\}|mod)(?![A-Za-z])([^()]*+)\)"
)
_TEXT = r"\s*+\\(?:text(?:bf|it|rm)?|math(?:bf|rm)|mbox)\s*+\{\s*+"
_LETTER = re.compile(rf"{_TEXT}(?:\(([A-J])\)|([A-J])[).:])\s*+\}}(?:\s|\\ |~)*+")
_LETTER_ALONE = re.compile(rf"(?:{_TEXT})?+\s*+\(?[A-J]\)?\s*+\}}?")


def as_read(text: str, *, several: bool = False) -> str:
    """A normalised gold or answer as math-verify is given it. Linear in its length.

    several: whether the gold has several parts, so that 100,200 is two numbers and not one.

    >>> as_read("2516_{8}"), as_read("2516_{10}"), as_read(r"\\angle CBA")
    ('\\\\mathbb{B}_{8x2516}', '2516', '\\\\angle ABC')
    >>> as_read("100,200"), as_read("100,200", several=True), as_read("= 3")
    ('100,200', '100, 200', '3')
    """
    text = _LEADING.sub("", text)
    if several and _GROUPED.fullmatch(text):
        text = _THOUSANDS.sub(", ", text)
    text = text.replace("\\langle", "(").replace("\\rangle", ")")
    text = _MODULUS.sub("", _PASSED_OVER.sub("", text))
    if not _INDEX.search(text):
        text = _IMAGINARY.sub("I", text)  # which math-verify reads as the imaginary unit
    text = _ENERGY.sub(r"\\mathcal{E}", text)  # `E_0` alone cannot be read
    return _CORNERS.sub(_corners, _NUMERAL.sub(_numeral, text)) if text else text


def modulus(text: str) -> str | None:
    """What a normalised gold or answer is taken modulo; None where it is not.

    >>> modulus(r"5 \\pmod{7}"), modulus("5 (mod 7)"), modulus("5")
    ('7', '7', None)
    """
    written = _MODULUS.search(text)
    return None if written is None else "".join(written.groups("")).strip(" ~\\")


def chosen(answer: str, gold: str) -> str:
    """Of an answer that is a letter of a choice and its value, the one that the gold is.

    >>> chosen(r"\\textbf{(C) } 12", "(C)"), chosen(r"\\textbf{(C) } 12", "12"), chosen("12", "12")
    ('C', '12', '12')
    """
    letter = _LETTER.match(answer)
    if letter is None or letter.end() == len(answer):
        return answer
    if _LETTER_ALONE.fullmatch(gold):
        return letter[1] or letter[2]
    return answer if _LETTER.match(gold) else answer[letter.end() :]


def _numeral(written: re.Match[str]) -> str:
    digits, base = written[1] or written[2], _base(written[3] or written[4] or "")
    if base is None or (not digits.isdigit() and not 10 < base <= 16):
        return written[0]
    digits = digits.lstrip("0") or "0"
    return digits if base == 10 else f"\\mathbb{{B}}_{{{base}x{digits}}}"


def _base(text: str) -> int | None:
    word = _BASE_WORDS.sub("", text)
    if word.isascii() and word.isdigit() and len(word) < 3:
        return int(word) if 2 <= int(word) <= 36 else None
    return _NUMBER_WORDS.index(word.lower()) + 2 if word.lower() in _NUMBER_WORDS else None


def _corners(written: re.Match[str]) -> str:
    """An angle with its vertex in the middle and its sides in the alphabet's order; a triangle with
    all its corners in that order."""
    first, middle, last = written[3], written[4], written[5]
    if written[1] == "triangle":
        first, middle, last = sorted((first, middle, last))
    elif first > last:
        first, last = last, first
    return f"\\{written[1]} {first}{middle}{last}"
