"""What a reader sees in an answer and math-verify does not: its parts, numerals, names and words.

In: normalised golds and answers (`math_notation`). Three parts: how many parts an answer has, for
`math`; how a box is rewritten before math-verify reads it, and by which words an answer is refused
that math-verify takes for equal, both for `judge_worker`.

All of it is linear in the length of its text and imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Parts. An answer has several where it is a list, a pair or longer tuple, or a set. Where the gold
# has several and the last box has fewer, the boxes before it belong to it that are joined to it by
# nothing but commas, space, a unit, bullets and numbers of lines, rows of a formula, names
# (`y_2 =`, `**Part (b):**`) and words such as `and` (`math.final_answer`). A gold of one part takes
# the last box alone.

LONGEST_JOINT = 80
"""Most characters between two boxes of one answer."""

_SEPARATOR_OR_BRACKET = re.compile(
    r"(?P<separator>[,;]|\\text\s*+\{\s*+(?:and|or)\s*+\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
    r"|\\pm(?![A-Za-z]))"
    r"|(?P<call>(?<![A-Za-z\\])[A-Za-z](?:\\left)?\()"
    r"|(?P<opening>\{|(?P<list>[(\[]|\\\{))|(?P<closing>[)\]}]|\\\})"
    r"|\\[A-Za-z]++|\\.",
    re.DOTALL,
)
_GROUPED_NUMBER = re.compile(r"\s*+[-+]?[0-9]{1,3}(?:,[0-9]{3})++(?:\.[0-9]*+)?\s*+")
_BARE_SET = re.compile(r"\{[^{}]++\}")
_LIST = r"\s*+(?:\\left)?(?:\((?:[^()])++\)|\[[^][]++\]|\\\{[^{}]++\})\s*+"
_SINGLE_LIST = re.compile(_LIST)
_LISTS = re.compile(rf"{_LIST}(?:(?:[,;]|and|\\text\s*+\{{\s*+and\s*+\}}){_LIST})++")
_NAME = r"\\?[A-Za-z]++(?:_(?:\w|\{[^{}=]*+\}))?+\s*+&?\s*+="
_PART_LABEL = r"(?:[a-z]|[ivx]{1,4}|[0-9]{1,2})"
_LABEL = (
    rf"(?:\(\s*+{_PART_LABEL}\s*+\)|[Pp]art\s(?:[A-H]|{_PART_LABEL})(?![\w.])"
    rf"|(?<=\*){_PART_LABEL}\))"
)
_WORD = (
    r"(?i:and|or|for|is|the|part|question|other|first|second|third|root|solution|value|number"
    r"|larger|smaller|answer(?=\s(?:to|for)))(?![A-Za-z])"
)
_NO_UNIT = r"(?:so|then|thus|hence|therefore|is|are|was|not|but|which|gives?|from|wrong|where)\b"
_UNIT_BEHIND = (
    rf"\$?\s++(?:(?!{_NO_UNIT})[a-z]{{2,20}}\s?){{1,3}}(?<![\s])(?=\s*+(?:,|;|and\b|or\b))"
)
_LINE = (
    rf"\n\s*+(?:(?:[-*+•]|[0-9]{{1,2}}[.)])\s++|{_PART_LABEL}\))"
    r"(?:\**+(?![A-Za-z ]{0,30}?(?i:answer|total|final|sum)\b)[A-Za-z][A-Za-z ]{0,30}:)?+"
)
"""The beginning of a line with a bullet, its number or its letter, and a name with a colon."""
_JOINT = re.compile(
    rf"(?:[\s$,;:~&]|{_NAME}|{_LABEL}|{_WORD}|\\[()\[\],;:! \\]|\\q?quad(?![A-Za-z])"
    rf"|\\text\s*+\{{(?:[\s,]|{_WORD})*+\}})*+"
)
_NAMED_QUANTITY = (
    r"(?i:the|its)\s(?!answer|final|total|sum|result|correct)[a-z]{2,20}\sis(?![A-Za-z])"
)
_ROW = r"\|\s*+(?:\w{1,12}\s*+\|)?+"
_LOOSE_JOINT = re.compile(
    rf"(?:{_UNIT_BEHIND})?(?:{_LINE}|[\s$,;:~&]|\*{{2,3}}|\*(?=[\s$*:.])"
    rf"|\.(?=[\s$*]*+(?:\n|The\s(?:first|second|third|other)\b|For\b|Part\b|\())"
    rf"|{_NAME}|{_LABEL}|{_NAMED_QUANTITY}|{_WORD}|{_ROW}|to(?=\s\()"
    rf"|\\[()\[\],;:! \\]|\\q?quad(?![A-Za-z])|\\text\s*+\{{(?:[\s,]|{_WORD})*+\}})*+"
)


def parts(answer: str) -> int:
    """How many parts a normalised answer has. Linear in its length.

    >>> parts("7"), parts("10{,}000"), parts("1, 2 and 3"), parts("x = \\\\pm 3")
    (1, 1, 3, 2)
    >>> parts("(1, 2), (3, 4), (5, 6)"), parts("(1, 2)"), parts("f(x, y)")
    (3, 2, 1)
    """
    answer = answer.replace("{,}", "").replace(",\\!", "")
    if _BARE_SET.fullmatch(answer):
        answer = f"\\{answer[:-1]}\\}}"
    if _GROUPED_NUMBER.fullmatch(answer):
        return 1
    counts, is_list = [1], False  # of the groups that are open, outermost first
    inside, end = 1, 0  # parts of the last group that was closed, and where that was
    for token in _SEPARATOR_OR_BRACKET.finditer(answer):
        if token["separator"]:
            counts[-1] += 1
        elif token["closing"] and len(counts) > 1:
            closed = counts.pop()
            if len(counts) == 1:
                inside, end = (closed if is_list else 1), token.end()
        elif token["opening"] or token["call"]:
            if len(counts) == 1:
                is_list = bool(token["list"])
            counts.append(1)
    return counts[0] if counts[0] > 1 or answer[end:].strip(" .$") else inside


def is_list(answer: str) -> bool:
    """Whether an answer is one pair, tuple or set. Linear in its length.

    >>> is_list("(1, 2)"), is_list("(1, 2), (3, 4)"), is_list("2")
    (True, False, False)
    """
    return _SINGLE_LIST.fullmatch(answer) is not None


def is_several_lists(answer: str) -> bool:
    """Whether an answer is several pairs, tuples or sets. Linear in its length.

    >>> is_several_lists("(1, 2), (3, 4)"), is_several_lists("(1, 2)"), is_several_lists("1, 2")
    (True, False, False)
    """
    return _LISTS.fullmatch(answer) is not None


def joins(between: str, *, loosely: bool = False) -> bool:
    """Whether the text between two boxes makes them one answer.

    loosely: whether bullets, labels, rows, units and names of quantities do too, which also stand
    between results on the way to an answer.

    >>> joins("$, $"), joins(" and $y_2 = "), joins(" for part (a) and "), joins(" or maybe ")
    (True, True, True, False)
    """
    joint = _LOOSE_JOINT if loosely else _JOINT
    return len(between) <= LONGEST_JOINT and joint.fullmatch(between) is not None


# How a boxed answer or a gold is written before math-verify reads it. math-verify passes over what
# follows `_` after a number and takes `ABC` for a product, so that a numeral in another base and
# the letters of an angle are given a form that says what they are.

_NUMERAL = re.compile(
    r"(?<![0-9A-Za-z.\\_^])(?:\(\s*+([0-9A-F]++)\s*+\)|([0-9A-F]++))\s*+_\s*+"
    r"(?:([0-9])|\{((?:[^{}]|\{[^{}]*+\})*+)\})"
)
_BASE_MARKUP = re.compile(r"\\(?:text|mathrm|mbox|rm|textrm)\b|base|[{}()\s~]")
_NUMBER_NAMES = [
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
_GROUPED_INTEGER = re.compile(r"\s*-?[0-9]{1,3}(?:,[0-9]{3})+\s*")
_PASSED_OVER = re.compile(r"[€£¥₹]|(?<=\\circ)\s*+[CF](?![A-Za-z])")
_IMAGINARY = re.compile(r"(?<![A-Za-z\\])i(?![A-Za-z])")
_INDEX = re.compile(r"_\s*+\{?\s*+i(?![A-Za-z])|(?<![A-Za-z\\])i\s*+=|\\(?:sum|prod)(?![A-Za-z])")
_MODULUS = re.compile(
    r"\\p?mod(?![A-Za-z])\s*+(?:\{([^{}]*+)\}|([0-9]++|[a-z](?![A-Za-z])))"
    r"|\(\s*+(?:\\b?mod|\\(?:text|mathrm)\s*+\{\s*+mod\s*+\}|mod)(?![A-Za-z])([^()]*+)\)"
)
_TEXT_OPENING = r"\s*+\\(?:text(?:bf|it|rm)?|math(?:bf|rm)|mbox)\s*+\{\s*+"
_LETTER = re.compile(rf"{_TEXT_OPENING}(?:\(([A-J])\)|([A-J])[).:])\s*+\}}(?:\s|\\ |~)*+")
_LETTER_ALONE = re.compile(rf"(?:{_TEXT_OPENING})?+\s*+\(?[A-J]\)?\s*+\}}?")


def as_read(text: str, *, several: bool = False) -> str:
    """A normalised gold or answer as math-verify is given it. Linear in its length.

    several: whether the gold has several parts, so that 100,200 is two numbers and not one.

    >>> as_read("2516_{8}"), as_read("2516_{10}"), as_read(r"\\angle CBA")
    ('\\\\mathbb{B}_{8x2516}', '2516', '\\\\angle ABC')
    >>> as_read("100,200"), as_read("100,200", several=True), as_read("= 3")
    ('100,200', '100, 200', '3')
    """
    text = _LEADING.sub("", text)
    if several and _GROUPED_INTEGER.fullmatch(text):
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


def chosen_part(answer: str, gold: str) -> str:
    """Of an answer that is a letter of a choice and its value, the one that the gold is.

    >>> both = r"\\textbf{(C) } 12"
    >>> chosen_part(both, "(C)"), chosen_part(both, "12"), chosen_part("12", "12")
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
    word = _BASE_MARKUP.sub("", text)
    if word.isascii() and word.isdigit() and len(word) < 3:
        return int(word) if 2 <= int(word) <= 36 else None
    return _NUMBER_NAMES.index(word.lower()) + 2 if word.lower() in _NUMBER_NAMES else None


def _corners(written: re.Match[str]) -> str:
    """An angle with its vertex in the middle and its sides in the alphabet's order; a triangle with
    all its corners in that order."""
    first, middle, last = written[3], written[4], written[5]
    if written[1] == "triangle":
        first, middle, last = sorted((first, middle, last))
    elif first > last:
        first, last = last, first
    return f"\\{written[1]} {first}{middle}{last}"


# Sets in words.

_SIGNED = {
    "positive": "(0, \\infty)",
    "negative": "(-\\infty, 0)",
    "nonnegative": "[0, \\infty)",
    "nonpositive": "(-\\infty, 0]",
}
_KINDS = {"real": "R", "integer": "Z", "natural": "N", "rational": "Q", "complex": "C"}
_ALL = re.compile(
    r"(?:[a-z] (?:is|can be) )?(?:the set of )?(?:all|any|every) (?:possible )?"
    rf"(?:({'|'.join(_SIGNED)}) )?({'|'.join(_KINDS)})s?(?: numbers?| values?)?(?: (?:of )?[a-z])?"
)
_NONE = re.compile(
    r"(?:there (?:is|are) )?no (?:real |integer |such )?(?:solutions?|roots?|values?|numbers?)"
    r"(?: exists?)?|(?:the )?empty set"
)
_TEXT_CONTENT = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mbox)\s*+\{([^{}]*+)\}")
MAX_SET_CHARS = 80
"""Characters of a set in words."""


def set_notation(text: str) -> str | None:
    """What a set in words is in signs; None for all else.

    >>> set_notation(r"\\text{all real numbers}"), set_notation(r"\\text{no solution}")
    ('\\\\mathbb{R}', '\\\\emptyset')
    """
    if len(text) > MAX_SET_CHARS:
        return None
    phrase = " ".join(
        _TEXT_CONTENT.sub(r"\1", text).lower().strip(" .").replace("non-", "non").split()
    )
    if _NONE.fullmatch(phrase):
        return "\\emptyset"
    every = _ALL.fullmatch(phrase)
    if every is None or (every[1] and every[2] != "real"):
        return None
    return _SIGNED[every[1]] if every[1] else f"\\mathbb{{{_KINDS[every[2]]}}}"


# Words and brackets. math-verify drops any text at the end of an answer as a unit, and multiplies
# the letters of a word, so that their order is lost. What it takes for equal is refused here where
# the answer denies, leaves open, or has the letters of the gold's words in another order.

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
_TEXT_COMMAND = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it)|mbox|operatorname|rm|bf|it)")
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
    names = set(_letter_runs(theirs))
    for word in _letter_runs(ours):
        if word in names:
            continue
        if any(_reordered(word, other) for other in names):
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
    return [token for token in _TOKEN.findall(text) if not _TEXT_COMMAND.fullmatch(token)]


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


def _letter_runs(tokens: list[str]) -> Iterator[str]:
    """Runs of three or more letters that stand alone: no factor, power or index beside them."""
    for i, token in enumerate(tokens):
        if len(token) > 2 and token.isalpha() and token.isascii():
            neighbours = tokens[max(i - 1, 0) : i] + tokens[i + 1 : i + 2]
            if all(side in _STANDS_ALONE or side.isalpha() for side in neighbours):
                yield token if token.isupper() else token.lower()


def _reordered(word: str, other: str) -> bool:
    """Whether two runs of letters are the same letters, and words or points rather than products:
    products are written in the alphabet's order by one of two authors, or have no vowel."""
    if sorted(word) != sorted(other) or word.isupper() != other.isupper():
        return False
    if word.isupper():
        return True
    products = (list(run) == sorted(set(run)) for run in (word, other))
    return bool(_VOWELS & set(word)) and not any(products)
