"""Where a response without a box states its answer: in a tag, or in a sentence such as "The answer
is 2x + 1."

In: the text after the thoughts, and the normalised gold, which says which words belong to an answer
and which are prose. Out: the answer as it would stand in a box, never a part of an expression. The
last `<answer>` tag counts before any sentence, and the last sentence that states mathematics, or
words of the gold, before the others. A sentence that denies, supposes or asks states nothing.

All of it is linear in the length of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from fgrpo_bench.graders.math_reading import parts

IN_TAG, AS_ANSWER = ", in a tag", ", as the answer"
"""How the reason of a grade ends whose answer was stated so; one in a box has no such end."""
LONGEST = 400
"""Characters behind "answer" in which its statement is looked for."""


class Stated(NamedTuple):
    """What a text states as its answer."""

    answer: str | None
    """As it would stand in a box; None where it has yet to be found in `text` by its place."""
    text: str
    how: str
    """IN_TAG or AS_ANSWER."""


def stated(text: str, gold: str) -> Stated | None:
    """The statement that decides; None where there is no tag and no sentence.

    >>> stated("So the answer is $2x+1$, as was to be shown.", "2x+1").answer
    '2x+1'
    >>> stated('The answer to "What is 7 times 6?" is 42.', "42").answer
    '42'
    >>> stated("<answer>18 eggs", "18"), stated("It is 18.", "18")
    (Stated(answer='18', text='18 eggs', how=', in a tag'), None)
    """
    tag = _last_tag(text)
    if tag is not None:
        content = _of_json(tag)
        whole = expression(content, gold)
        if whole is None or not _is_prose(content):
            answer = whole
        else:
            answer = next(_sentences(content, gold), None)
        return Stated(answer, content, IN_TAG)
    answer = next(_sentences(text, gold), None)
    return None if answer is None else Stated(answer, text, AS_ANSWER)


# Tags.

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_FENCE = re.compile(r"\A```[a-z]*+\s|```\s*+\Z")


def _last_tag(text: str) -> str | None:
    """Content of the last `<answer>` that has some, to its end or that of the text; else None."""
    content: str | None = None
    opened: int | None = None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            opened = tag.end()
        elif opened is not None:
            content = text[opened : tag.start()].strip() or content
            opened = None
    if opened is not None:
        content = text[opened:].strip() or content
    return content


def _of_json(content: str) -> str:
    """The answer of a JSON object such as {"answer": 18}; any other content as it is."""
    text = _FENCE.sub("", content).strip()
    if not text.startswith("{") or len(text) > LONGEST:
        return content
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return content
    for key in ("final_answer", "answer", "Answer"):
        if key in value:
            inner = value[key]
            return inner if isinstance(inner, str) else json.dumps(inner).strip("[]")
    return content


_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}+(?![A-Za-z{(])")


def _is_prose(text: str) -> bool:
    """Whether a text holds a sentence rather than an expression with its unit."""
    return "\n" in text or len(_WORD.findall(text)) > 3


# Sentences.

_IS = (
    r"(?:is|are|was|were|equals|becomes|must be|should be|has to be|will be|comes out (?:as|to)"
    r"|turns out to be)"
)
_ANSWER = re.compile(
    r"(?P<before>[^\n.!?]{0,40})"
    r"(?<![A-Za-z])(?P<word>(?i:answers?|ans|solution|result)\b)(?P<marks>[*_`\")\]]{0,4}+)"
    r"|^[ \t*]*+(?P<hashes>\#{4})(?!\#)|^[ \t*]*+(?P<short>A)(?=:)",
    re.MULTILINE,
)
_VERB = re.compile(rf"(?i:(?<![A-Za-z]){_IS}(?![A-Za-z]))|[:=]")
_HEADING = re.compile(r"[ \t*_:]*+\n\s*+")
_QUOTED = re.compile(r"\"[^\"\n]*+\"|\u201c[^\u201d\n]*+\u201d")
_END = re.compile(r"[.!?](?=[\s*_\"')\]]|\Z)|\n")
_VOID_BEFORE = re.compile(
    r"(?i:\b(?:if|whether|suppose|supposing|assume|assuming|wrong|incorrect|false|not|isn't)\b)"
)
_DENIED = re.compile(r"(?i:[\s*_]*+(?:not|never|neither|no longer)\b)")
_BUT = re.compile(r"(?i:[,;]?\s*+(?:but|rather|instead)(?: rather)?[,:]?\s)")
_WHY = re.compile(r"(?i:\b(?:because|since|as|where|which|so|and|when|if|for|by|with)\b)")


def _sentences(text: str, gold: str) -> Iterator[str]:
    """What the sentences of a text state as the answer, the last first."""
    for mark in reversed(list(_ANSWER.finditer(text))):
        value = _value(text, mark)
        if value is None:
            continue
        if _DENIED.match(value):
            rather = _BUT.search(value)
            if rather is None:
                yield f"\\text{{not }}{value}"
                return
            value = value[rather.end() :]
        answer = expression(value, gold)
        if answer is not None:
            yield answer


def _value(text: str, mark: re.Match[str]) -> str | None:
    """What a sentence says of the answer; None where it supposes, asks or says nothing of it."""
    behind = text[mark.end() : mark.end() + LONGEST]
    if mark["hashes"]:
        return behind.partition("\n")[0]
    if mark["short"]:
        return behind[1:].partition("\n")[0]
    if _VOID_BEFORE.search(mark["before"]):
        return None
    is_answer = mark["word"].lower().startswith("ans")
    if is_answer and (heading := _HEADING.match(behind)):
        return _first_display(behind[heading.end() :])
    # what is quoted has verbs of its own, and so may the question before the last one
    shown = _QUOTED.sub(lambda quoted: "q" * len(quoted[0]), behind)
    end = _END.search(shown)
    verb = _VERB.search(shown, 0, end.start() if end else len(shown))
    if verb is None or (end is not None and shown[end.start()] == "?"):
        return None
    if not is_answer and (verb[0] in ":=" or verb.start() > 20):
        return None  # a "result" or "solution" is often a step, unless it is said to be this
    heading = _HEADING.match(behind, verb.end())
    if heading is not None:
        return _first_display(behind[heading.end() :])
    value = behind[verb.end() :]
    asked = re.match(r"(?i:\s*(?:to|of|for)\b)", shown)
    while asked and (again := _VERB.search(value.partition("\n")[0])):
        if again[0] in ":=" or _WHY.search(value[: again.start()]):
            break
        value = value[again.end() :]
    return value


def _first_display(text: str) -> str:
    """The first line of a text, or its first display where it begins with one."""
    for left, right in (("$$", "$$"), ("\\[", "\\]")):
        if text.startswith(left) and right in text[2:]:
            return text[: text.index(right, 2) + 2]
    return text.partition("\n")[0]


# Expressions: the mathematics with which a text begins, whole.

_LEAD = re.compile(
    r"[\s*_`:=\"'>\u201c]++|\\(?:quad|qquad)(?![A-Za-z])|\\[,;:! ]"
    r"|(?i:(?:therefore|thus|hence|then|so|simply|just|indeed|exactly|precisely|clearly|also|now"
    r"|approximately|about|around|roughly|equal to|given by|a total of|in total|only|the (?:number"
    r"|value|pair|ordered pair|set|interval|expression|fraction|point|function|equation|integer"
    r"|letter|word))(?![A-Za-z]),?+)"
)
"""Decoration, and words before an answer that say nothing of it."""
_PIECE = re.compile(
    r"(?P<number>(?:[0-9]++(?:[.,:][0-9]++|\{,\}[0-9]{3}|,\\![0-9]{3})*+|\.[0-9]++)"
    r"(?:[eE][-+]?+[0-9]++)?+(?:\s?\\?%)?+)"
    r"|(?P<display>\$\$|\\\[|\\\(|(?<!\\)\$)"
    r"|(?P<currency>\\\$|[\u20ac\u00a3\u00a5\u20b9])"
    r"|(?P<formula>\\(?:text(?:bf|it|rm)?|math(?:rm|bf)|mbox|operatorname)\s*+\{[^{}]*+\}"
    r"|\\(?:[A-Za-z]++|[%,;:! {}|])"
    r"|[-+*/^=<>!|_%\u2212\u2013\u00b1\u00d7\u00f7\u00b7\u221a\u03c0\u221e\u222a\u2229\u2208\u2264"
    r"\u2265\u00b0\u00bd\u00bc\u00be\u00b2\u00b3])"
    r"|(?P<opening>[(\[{])|(?P<closing>[)\]}])"
    r"|(?P<comma>[,;])"
    r"|(?P<word>[A-Za-z]++)"
    r"|(?P<space>[ \t~]++)"
)
_CLOSED_BY = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_SENTENCE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}+[ ,]++[A-Za-z]{2,}+(?![A-Za-z{(])")
_NAMES = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "exp",
        "sqrt",
        "pi",
        "max",
        "min",
        "mod",
        "abs",
        "inf",
        "infinity",
    ]
)
"""Words of mathematics."""
_UNITS = frozenset(
    [
        "cm",
        "mm",
        "km",
        "kg",
        "mg",
        "ml",
        "in",
        "ft",
        "lb",
        "oz",
        "hr",
        "th",
        "st",
        "nd",
        "rd",
        "am",
        "pm",
        "m",
        "g",
        "s",
        "h",
        "l",
        "L",
        "J",
        "N",
        "W",
        "V",
        "C",
    ]
)
"""What stands right behind a number and is no factor."""
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_GOES_ON = frozenset({"dozen", "plus", "minus", "times", "squared", "cubed", "over", "divided"})
"""Words behind a number that make it another one."""
_LETTERS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]++")
_TRAILING = re.compile(r"(?:[\s,;:=*_`'\"~.]|(?<!\\)\\[,;:! ])++\Z")
_EQUALS = re.compile(r"(?<![<>!\\])=")
_NEXT_WORD = re.compile(r"[\s*_$)]*+([A-Za-z]++)")


def expression(text: str, gold: str) -> str | None:
    """The mathematics with which a text begins, with words of the gold, as it would stand in a box;
    None where it begins with prose. Of an expression nothing is cut off; a unit behind it is.

    >>> expression("**$18** per day, as 9 is odd", "18"), expression("12:30 PM", "12:30")
    ('18', '12:30')
    >>> expression("2x+1.", "2"), expression("5 million", "5"), expression("3 or 4", "3, 4")
    ('2x+1', '5\\\\times 10^{6}', '3 or 4')
    >>> expression("Tuesday, of course", "Tuesday"), expression("a number", "a")
    ('Tuesday', None)
    """
    text = text[:LONGEST]
    at = 0
    while lead := _LEAD.match(text, at):
        at = lead.end()
    gold_words = frozenset(map(str.lower, _LETTERS.findall(gold)))
    answer, end = _read(text, at, gold_words, several=parts(gold) > 1)
    if answer is None:
        return None
    following = _NEXT_WORD.match(text, end)
    word = "" if following is None else following[1].lower()
    if word in _POWERS and answer[-1].isdigit():
        return f"{answer}\\times 10^{{{_POWERS[word]}}}"
    if word in _GOES_ON:
        return f"{answer} {word}"
    if answer[0] == "{" and answer[-1] == "}" and "," in answer:
        return f"\\{answer[:-1]}\\}}"
    return _right_side(answer, gold)


def _read(
    text: str, at: int, gold_words: frozenset[str], *, several: bool
) -> tuple[str | None, int]:
    """The pieces of one expression and where it ends; None where none begins here, or where prose
    stands within its brackets."""
    kept, depth = list[str](), 0
    while piece := _PIECE.match(text, at):
        kind, shown, end = piece.lastgroup, piece[0], piece.end()
        if kind == "display":
            closing = text.find(_CLOSED_BY[shown], end)
            inner = "" if closing < 0 else text[end:closing]
            if inner and "\n\n" not in inner and not _SENTENCE.search(inner):
                shown, end = inner.strip(), closing + len(_CLOSED_BY[shown])
            elif shown == "$" and text[end : end + 1].isdigit():
                shown = ""  # a currency
            else:
                break
        elif kind == "currency":
            shown = ""
        elif kind == "opening":
            if _starts_prose(text, end, gold_words) and depth == 0:
                break
            depth += 1
        elif kind == "closing":
            if depth == 0:
                break
            depth -= 1
        elif kind == "comma" and depth == 0:
            if _starts_prose(text, end, gold_words):
                break
        elif kind == "word":
            joins = shown.lower() == "and" or (shown.lower() == "or" and several)
            if joins and kept and not _starts_prose(text, end, gold_words):
                shown = shown.lower()
            elif not _is_mathematical(text, piece, gold_words):
                break
        kept.append(shown)
        at = end
    answer = _TRAILING.sub("", "".join(kept)).strip()
    return (answer if answer and depth == 0 and re.search(r"\w", answer) else None), at


def _is_mathematical(text: str, word: re.Match[str], gold_words: frozenset[str]) -> bool:
    """Whether a run of letters belongs to an expression rather than to the prose behind it."""
    run, start, end = word[0], word.start(), word.end()
    if run.lower() in gold_words:
        return len(run) > 1 or run not in "aAI" or not text[end : end + 2].strip().isalpha()
    if run in _NAMES:
        return True
    is_glued = start > 0 and text[start - 1].isdigit()
    if is_glued:
        return len(run) <= 2 and run not in _UNITS
    return len(run) == 1 and (run not in "aAI" or not text[end : end + 2].strip().isalpha())


def _starts_prose(text: str, at: int, gold_words: frozenset[str]) -> bool:
    """Whether no mathematics stands behind a bracket, a comma or a word that joins."""
    while at < len(text) and text[at] in " \t*":
        at += 1
    piece = _PIECE.match(text, at)
    if piece is None:
        return True
    return piece.lastgroup == "word" and not _is_mathematical(text, piece, gold_words)


def _right_side(answer: str, gold: str) -> str:
    """Of a computation such as `9 * 60 = 540` what comes out, unless the gold is an equation."""
    if "=" in gold:
        return answer
    left, *others = _EQUALS.split(answer)
    letters = [run for run in _LETTERS.findall(left) if run not in _NAMES]
    is_computation = bool(others) and any(map(str.isdigit, left)) and not letters
    return others[-1].strip() or answer if is_computation else answer


# By its place. What math-verify finds in a text may be a part of an expression.

_BEFORE = re.compile(r"(?:[\w)}\]]\s*+[-+*/^\u00d7\u00f7]\s*+|[\^_/\\])\Z")
_BEHIND = re.compile(
    r"[\^_]|[:/.][0-9]|\s*+[-+*/\u00d7\u00f7]\s*+[\w\\(]|\{?,\}?[0-9]{3}(?![0-9])|[A-Za-z]++"
)


def whole(text: str, part: str, gold: str) -> str:
    """What was found by its place, or the expression of which it is a part wherever it stands.

    >>> whole("It opens at 12:30", "12", "12"), whole("It is 12 cm", "12", "12")
    ('12:30', '12')
    """
    larger = part
    for place in re.finditer(re.escape(part), text) if part else ():
        start, end = place.span()
        if text[start - 1 : start].isdigit() or text[end : end + 1].isdigit():
            continue
        before = _BEFORE.search(text, max(0, start - 8), start)
        behind = _BEHIND.match(text, end)
        run = behind[0] if behind else ""
        if run.isalpha() and (len(run) > 2 or run in _UNITS):
            behind = None
        if before is None and behind is None:
            return part
        larger = text[before.start() : end] if before else expression(text[start:], gold) or part
    return larger
