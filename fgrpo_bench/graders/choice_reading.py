"""The letter that a response to a multiple choice settles on, as a reader finds it.

A response makes statements, the strongest first: a letter in a box; in `<answer>` tags; behind "the
answer is" or before "is the answer"; in a conclusion ("so it must be D", "leaving B", "probably
C", "option B is correct", a letter alone on the first or last line). A letter that is supposed,
reported of others, denied, asked or under a condition is no statement, nor is one that the next
words call wrong. After a correction ("Wait, ...", "No, ...") that ends in a statement, those before
it no longer count. Of what is left the strongest kind decides, and of that kind the last. Where
that one names several letters, or a later box or tag another letter or none, nothing is settled.

docs/grading.md has tables of both sides. The time is linear in the text.
"""

from __future__ import annotations

import re
from itertools import chain

from fgrpo_bench.graders.choice_statements import (
    CONCLUSION,
    KINDS,
    PHRASE,
    WINDOW,
    Statement,
    called,
    conclusions,
    enclosed,
    phrases,
    words,
)
from fgrpo_bench.graders.math import after_thoughts

_TYPED = str.maketrans("\u2018\u2019\u201c\u201d\u00a0\u2013", "''\"\" -")
"""Quotes, spaces and dashes as they are typed."""
_SMALL = re.compile(r"(?<!\w)\([a-d]\)")
_BREAK = re.compile(
    rf"[.!?;](?=\s)|\n|{words('so', 'hence', 'thus', 'therefore', 'but', 'however', 'in fact')}"
)
"""Where a clause begins, which what stands before does not govern."""
_DENIED = re.compile(
    r"(?i:\b(?:not|nor|neither|never|(?:wrong|incorrect|false) (?:answer|choice|option)(?: is)?)"
    r"(?: the (?:\w{1,12} )?(?:answer|choice|option)(?: is)?)?[ :$*({]*+(?:option |choice )?)\Z"
)
_SUPPOSE = words(
    *("if", "whether", "suppose", "supposing", "assume", "imagine", "assuming that"),
    "let(?:'s| us) say",
)
_SUPPOSED = re.compile(
    rf"{_SUPPOSE}(?: for (?:a )?(?:contradiction|moment))?,?(?: {words('that', 'now', 'instead')})?"
    rf"(?: {words('the', 'it', 'my', 'our')})?(?: \w{{1,12}})?(?: {words('answer is')})?"
    r"[\s:$*(]*+\Z"
)
_UNDER = re.compile(words("if", "whether", "unless", "suppose", "supposing", "assume", "were"))
"""What makes a conclusion behind it one under a condition."""
_SAY = "(?:thought|(?:say|think|claim|guess|expect)s?|said|(?:claim|guess|expect)ed"
_SAY += "|(?:argue|believe|conclude)[sd]?)"
_OTHERS = "(?:some(?:one|body)?|many|others|people|students?|(?:text)?books?|one|he|she|they)"
_REPORTED = re.compile(
    words(
        rf"{_OTHERS}[^,]{{0,40}} {_SAY}",
        rf"(?:might|could|would|may) (?:be tempted to )?{_SAY}",
        *(r"(?:I|we) (?:\w{1,12} )?thought", "tempting", "at first (?:glance|sight)"),
        *("unlikely", "I doubt", "no way", "(?:false|wrong) that"),
    )
    + r"|(?i:n't|\bnot|\bnever|\bno)\b[^,]{0,20}"
    + words("think", "believe", "say", "sure", "certain", "clear", "true", "mean", "convinced")
)
_IF = re.compile(
    rf"[\s*_$)}}\]'\"`]*+(?:{words('only')}\s)?{words('if', 'unless', 'provided')}"
    rf"(?!\s{words('we', 'I', 'one')})"
)
"""A condition behind a statement; "if we round" is none."""
_WRONG = words(
    *("wrong", "incorrect", "false", "mistaken", "mistake", "error", "impossible", "absurd"),
    *("contradiction", "not (?:right|correct|possible|true)"),
)
_TAKEN_BACK = re.compile(
    rf"\W{{0,12}}(?:{words('hmm', 'wait', 'no', 'oh', 'but', 'however', 'actually', 'a')}"
    r"\W{1,4}){0,4}(?:"
    + words(
        *("contradiction", "scratch that", "I was wrong", "I (?:have )?made an? (?:mistake|error)"),
        "(?:that|this|it|which) (?:cannot|can't|can not) be (?:right|correct|true)",
    )
    + "|"
    + words("(?:that|this|it|he|she|they|which)(?: is|'s| are| was| were| leads to)")
    + rf"(?:\s(?!not\b)\w{{1,12}}){{0,2}}\s{_WRONG}(?!\s{words('to', 'for', 'that')}))"
)
_CORRECTION = re.compile(
    r"(?:^|[.!?;:\u2026\u2014,-])[ \t]*+(?:"
    + words(
        *("wait", "hmm", "actually", "correction", "sorry", "oops", "hold on", "recheck"),
        *("scratch that", "on second thoughts?", "let me (?:re|double.)check"),
    )
    + rf"|{words('no')}(?=[,:.!]))",
    re.MULTILINE,
)
_NAMED = re.compile(
    r"(?<![\w\\^])([A-D]{1,4})(?=[\s$]*+(?:[).,:;/&|{}\]]|\\text|$|(?:or|and|nor)\b))"
)
_DENIES = re.compile(
    words(
        *("none", "neither", "nothing", "not", "all", "any", "both", "either", "cannot", "unknown")
    )
)


def read(response: str) -> Statement | None:
    """The statement that decides, None without one; its letter is None where nothing is settled.

    Linear in the length of the text. Capitals count, and small letters in parentheses.

    >>> [read(text).letter for text in ("Not A. The answer is (C).", r"so \\boxed{\\text{B}}")]
    ['C', 'B']
    >>> read("Suppose the answer is (B).") is None, read("The answer is (B) or (C).").letter
    (True, None)
    """
    text = after_thoughts(response).translate(_TYPED)
    text = _SMALL.sub(lambda small: small[0].upper(), text)
    in_boxes, others = enclosed(text)
    statements = [
        statement
        for statement in chain(in_boxes, phrases(text), called(text), conclusions(text))
        if not _is_void(text, statement)
    ]
    if not statements:
        return None
    last = max(statement.start for statement in statements)
    corrections = [mark.start() for mark in _CORRECTION.finditer(text, 0, last)]
    since = corrections[-1] if corrections else 0
    decides = min(
        (statement for statement in statements if statement.start >= since),
        key=lambda statement: (KINDS.index(statement.kind), -statement.start),
    )
    if any(start > decides.start and _takes_back(box, decides.letter) for start, box in others):
        return decides._replace(letter=None)
    return decides


def _is_void(text: str, statement: Statement) -> bool:
    """Whether it is denied, supposed, reported, under a condition, or called wrong behind."""
    behind = text[statement.end : statement.end + WINDOW]
    before = text[max(0, statement.start - WINDOW) : statement.start]
    clause = _BREAK.split(before)[-1]
    return (
        _DENIED.search(clause) is not None
        or _SUPPOSED.search(clause) is not None
        or (statement.kind in (PHRASE, CONCLUSION) and _REPORTED.search(clause) is not None)
        or (statement.kind == CONCLUSION and _UNDER.search(clause) is not None)
        or _TAKEN_BACK.match(behind) is not None
        or _IF.match(behind) is not None
    )


def _takes_back(box: str, letter: str | None) -> bool:
    """Whether a box or tag with something else says that it is another letter, or none."""
    named = {each for name in _NAMED.findall(box) for each in name}
    return bool(named - {letter}) or _DENIES.search(box) is not None
