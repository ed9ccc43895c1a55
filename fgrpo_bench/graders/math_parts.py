"""What counts as one answer: how many parts an answer has, and which boxes are one answer together.

An answer has several parts where it is a list, a pair or longer tuple, or a set. Where the gold has
several and the last box has fewer, the boxes before it belong to it that are joined to it by
nothing but commas, space, names (`y_2 =`, `part (b):`) and words such as `and`
(`math.final_answer`). A gold of one part takes the last box alone.
"""

from __future__ import annotations

import re

LONGEST_JOINT = 60
"""Most characters between two boxes of one answer."""

_TOKEN = re.compile(
    r"(?P<separator>[,;]|\\text\s*+\{\s*+(?:and|or)\s*+\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
    r"|\\pm(?![A-Za-z]))"
    r"|(?P<call>(?<![A-Za-z\\])[A-Za-z](?:\\left)?\()"
    r"|(?P<opening>\{|(?P<list>[(\[]|\\\{))|(?P<closing>[)\]}]|\\\})"
    r"|\\[A-Za-z]++|\\.",
    re.DOTALL,
)
_GROUPED = re.compile(r"\s*+[-+]?[0-9]{1,3}(?:,[0-9]{3})++(?:\.[0-9]*+)?\s*+")
_NAME = r"\\?[A-Za-z]++(?:_(?:\w|\{[^{}=]*+\}))?+\s*+="
_LABEL = r"\(\s*+(?:[a-z]|[ivx]{1,4}|[0-9]{1,2})\s*+\)"
_WORD = (
    r"(?:and|or|for|is|the|part|question|other|first|second|third|root|solution|value|number)"
    r"(?![A-Za-z])"
)
_JOINT = re.compile(
    rf"(?:[\s$,;:~&]|{_NAME}|{_LABEL}|{_WORD}|\\[()\[\],;:! \\]|\\q?quad(?![A-Za-z])"
    rf"|\\text\s*+\{{(?:[\s,]|{_WORD})*+\}})*+"
)


def parts(answer: str) -> int:
    """How many parts a normalised answer has. Linear in its length.

    >>> parts("7"), parts("10{,}000"), parts("1, 2 and 3"), parts("x = \\\\pm 3")
    (1, 1, 3, 2)
    >>> parts("(1, 2), (3, 4), (5, 6)"), parts("(1, 2)"), parts("f(x, y)")
    (3, 2, 1)
    """
    answer = answer.replace("{,}", "").replace(",\\!", "")
    if _GROUPED.fullmatch(answer):
        return 1
    counts, is_list = [1], False  # of the groups that are open, outermost first
    inside, end = 1, 0  # parts of the last group that was closed, and where that was
    for token in _TOKEN.finditer(answer):
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


def joins(between: str) -> bool:
    """Whether the text between two boxes makes them one answer.

    >>> joins("$, $"), joins(" and $y_2 = "), joins(" for part (a) and "), joins(" or maybe ")
    (True, True, True, False)
    """
    return len(between) <= LONGEST_JOINT and _JOINT.fullmatch(between) is not None
