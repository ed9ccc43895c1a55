"""The answer that a sentence or a tag states without a box: `The answer is 18 dollars.` states 18.

In: a text after its thoughts, and a normalised gold. Out: what the last statement says, so that it
can be compared like the content of a box. A statement follows the word "answer" (`The answer is`,
`**Final Answer**` above a line) or `####`. What it states is read from its beginning: expressions
with or without dollars, in lists joined by commas, `and` or `or`, and a unit or remark behind each
is left out. Of an expression nothing is left out: `2x+1` is not 2, `12:30` not 12. Where words
make another value of a number (`3 and a half`, `at least 7`, `5 more than x`, `not 5`), all of the
clause is the answer, and no number in it. Where the gold is words, the words are.

A sentence is looked at in a window of fixed size, and each expression is possessive or bounded, so
that the time is linear in the text.
"""
# ruff: noqa: RUF001 (signs that look like others are what is read here)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

WINDOW = 600
"""Characters behind the word "answer" in which a statement is looked for."""


class Statement(NamedTuple):
    """What is stated."""

    answer: str
    whole: bool
    """Whether words belong to it that make another value of its numbers."""
    rest: str
    """What follows it."""


def sentence(text: str, gold: str) -> Statement | None:
    """What the last answer sentence of a text states; None without one.

    gold: normalised; where it is words, words are stated.

    >>> sentence("The answer is 2x+1 because 2 > 1.", "2").answer
    '2x+1'
    >>> sentence('The answer to "What is 7 times 6?" is 42.', "7").answer
    '42'
    """
    for cue in reversed(list(_CUE.finditer(text))):
        if _SUPPOSED.search(text, max(cue.start() - 60, 0), cue.start()):
            continue
        said = text[cue.end() : cue.end() + WINDOW]
        for begin in _begins(
            said, heading=cue["line"] is not None, hashes=cue["hashes"] is not None
        ):
            if (statement := stated(said, gold, begin)) is not None:
                return statement
    return None


_CUE = re.compile(
    r"(?P<hashes>^####(?=[ \t]))"
    r"|(?P<line>^[ \t]*+(?:[#>*_-]++[ \t]*+)*+(?:[Tt]he )?)?"
    r"\b(?i:(?:final |correct )?(?:answers?|ans))\b",
    re.MULTILINE,
)
"""Groups: `####`, and what stands before the word where that begins a line."""
_SUPPOSED = re.compile(
    r"\b(?i:if|whether|suppose|assum(?:e|ing)|unless|check(?:ing)?|verify(?:ing)?|wrong|incorrect"
    r"|previous|put|give|write|enter|express|state|simplify|round|leave|report|provide)"
    r"\b[^.,:;!?\n]{0,40}\Z"
)
"""What stands before the word "answer" where no answer is stated."""
_IS = (
    r"(?:(?:is|are|was)(?=n't)|(?:is|are|was|equals|becomes|comes? out to(?: be)?"
    r"|(?:should|must|would|will|has to|have to|can only) be)(?![A-Za-z])|[:=])"
)
_NEXT = re.compile(
    r"(?:[*_`\"')\]]|</?[a-z]{1,6}>)*+(?:\s?\([^()\n]{1,80}\))?+(?:, [^,.\n]{1,60},)?+"
    rf"[ \t]*+(?:\n\s*+(?=[:=]))?+(?:{_IS}|[-–—](?=\s))"
)
"""`answer` and at once what it is."""
_BELOW = re.compile(r"[*_:# \t]*+\n\s*+")
"""The end of a heading."""
_LINKS = 3
"""Verbs of a sentence behind which an answer is looked for, the last first."""
_FAR = re.compile(rf"(?<![A-Za-z])(?!=){_IS}")


def _begins(said: str, *, heading: bool, hashes: bool) -> Iterator[int]:
    """Where what is stated may begin behind the word "answer", the likeliest first."""
    if hashes:
        yield 0
    elif following := _NEXT.match(said):
        yield following.end()
    elif heading and (line := _BELOW.match(said)):
        yield line.end()
    elif said[:1] == " ":
        end = _SENTENCE_END.search(said)
        clause = said[: end.start() if end else None]
        yield from [link.end() for link in _FAR.finditer(clause)][: -_LINKS - 1 : -1]


_SENTENCE_END = re.compile(r"\n|[.!](?=\s|$)")


# What is stated. Tokens of a formula follow each other until a word, a remark or the end of the
# sentence.

_FUNCTIONS = "sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|max|min|mod|gcd|lcm"
_TOKEN = re.compile(
    r"\s*+(?:"
    r"\$\$(?P<display>(?:[^$\\]|\\.)++)\$\$"
    r"|\\\[(?P<bracketed>(?:[^\\]|\\(?!\]))++)\\\]"
    r"|\\\((?P<parenthesised>(?:[^\\]|\\(?!\)))++)\\\)"
    r"|\$(?![\s$])(?P<inline>(?:[^$\\\n]|\\.)++)(?<![\s\\])\$(?!\d)"
    r"|(?P<currency>\\?\$(?=\s?[-+]?[\d.])|[€£¥₹](?=\s?[-+]?[\d.]))"
    r"|(?P<number>(?:\d{1,3}(?:(?:,(?:\\!\s?)?|\{,\})\d{3})++(?!\d)(?:\.\d++)?+|\d++(?:\.\d++)?+|\.\d++)"
    r"(?:[eE][-+]?\d{1,3}(?![\w.]))?+)"
    r"|(?P<text>\\(?:text|textbf|textrm|mathrm|mbox)\s*+\{[^{}\n]*+\})"
    r"|(?P<command>\\(?:[A-Za-z]++|[%,;:! {}\\|]))"
    rf"|(?P<function>(?<![A-Za-z])(?:{_FUNCTIONS})(?![A-Za-z]))"
    r"|(?P<letter>(?<![A-Za-z'’])[A-Za-z](?![A-Za-z'’]))"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<mark>(?<=\d):(?=\d)|![=]?(?=\s*[-+*/^)\]=\d])|<(?![/|A-Za-z])"
    r"|[-+*/^=>|_~&%×÷·⋅±−≤≥≠≈∈∪∩∞√π°θ²³¹⁰-⁹½¼¾⅓⅔′])"
    r")",
    re.DOTALL,
)
_MARKUP = re.compile(
    r"(?<![\w)}\]$*])\*{1,3}(?=\S)|(?<=[^\s*])\*{1,3}(?![\w({\\*$])|_{2,3}|[`\"“”]|(?<=[A-Za-z]{2})\$\^\{?[23]\}?\$"
)
"""Bold, italics, code and quotation marks."""
_FILLERS = re.compile(
    r"(?:[\s:>~*_'‘]|(?:approximately|about|around|roughly|simply|just|exactly|only|therefore|thus"
    r"|hence|then|indeed|actually|clearly|obviously|equal to|given by|as follows|also|in fact"
    r"|(?:found|going) to be|a total of|in total|option|that"
    r"|the (?:number|value|fraction|expression|interval|set|point|pair|ordered pair|integer))"
    r"(?![A-Za-z]),?)*+",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"\s*+(?:[,;](?:\s*+(?:and|or)(?![A-Za-z]))?+|(?:and|or)(?![A-Za-z])|&)\s*+", re.IGNORECASE
)
_ARTICLE = re.compile(r"\s*+(?:[aAI]\s[A-Za-z])")
_SCALE = re.compile(r"\s?(hundred|thousand|[mbtr]+illion)(?![A-Za-z])")
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_REMARK = re.compile(r"\s++\((?=[^()]*(?<![\\A-Za-z])[A-Za-z]{2})(?!\s*+mod\b)")
_UNIT = re.compile(r"\s?([mgshLJNVWKCF])(?:\^?[23]|²|³)?+(?:/[a-z]{1,3}(?:\^?2)?)?(?![\w^/*=(])")
"""A unit of one letter, which a formula has only where the gold has that letter too."""
_CLAUSE = re.compile(
    r"(?:[^\n.,;:()!?—–<\"“]|[.](?=\w)|,(?=\d))*?(?=[\n.,;:()!?—–<\"“]|$|(?<![A-Za-z])(?:because|since|which"
    r"|where|when|as|so|for|with|that|who|after|given|using|from|at|on|in|into|and|or|of(?!\s\d))(?![A-Za-z]))"
)
"""What stands behind an expression: up to a mark or to a word that begins a remark."""
_CHANGES = re.compile(
    r"\d(?<!\^\d)(?<!m\d)|\$|\\(?!%)|[+*=^](?![23])"
    r"|(?<![A-Za-z])(?:hundred|thousand|[mbtr]+illion|dozen|plus|minus|divided|if|unless|not|never"
    r"|isn't|(?:more|less|fewer|greater|larger|smaller) than|or (?:more|less|so|fewer)"
    r"|times\s[A-Za-z](?![A-Za-z]))"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words behind a number by which it is another value."""
_CHANGES_NEXT = re.compile(
    r"\s*+,?\s*+(?:or (?:more|less|so|fewer)|and an? (?:half|third|quarter)|if|unless|of\s\d)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_POWER = re.compile(r"\s?(?:squared|cubed|factorial|choose)(?![A-Za-z])")
_CHANGES_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:not|never|n't|neither|between|at least|at most|up to|over|under|unlikely"
    r"|unclear|(?:more|less|fewer|greater|larger|smaller) than)(?![A-Za-z])",
    re.IGNORECASE,
)


def stated(said: str, gold: str, begin: int = 0) -> Statement | None:
    """What a text states from a place on, up to the end of its sentence; None where it has neither
    an expression nor, for a gold of words, words.

    >>> stated("3 cm and 5 cm.", "3, 5").answer, stated("Tuesday, I think.", "Monday").answer
    ('3, 5', '\\\\text{Tuesday}')
    """
    said = _MARKUP.sub("", said[begin:])
    at = (_FILLERS.match(said) or re.match("", said)).end()
    if said.startswith("n't") or _CHANGES_BEFORE.match(said, at):
        return _clause(said, at)
    if is_words(gold) and (words := _PHRASE.match(said, at)) and words[1].strip():
        return Statement(f"\\text{{{words[1].strip()}}}", whole=False, rest=said[words.end() :])
    reader = _Reader(said, gold)
    if reader.end(at) == at:
        at = reader.only_expression(at)
    return None if at < 0 else reader.listed(at)


def _clause(said: str, at: int) -> Statement | None:
    """All of a sentence."""
    end = _SENTENCE_END.search(said, at)
    clause = said[at : end.start() if end else None].strip()
    return Statement(clause, whole=True, rest=said[at + len(clause) :]) if clause else None


def is_words(gold: str) -> bool:
    """Whether a normalised gold is words rather than an expression.

    >>> is_words(r"\\text{Tuesday}"), is_words("yes"), is_words("ab"), is_words("2x")
    (True, True, False, False)
    """
    return _WORDS.fullmatch(_IN_TEXT.sub(r"\1", gold)) is not None


_IN_TEXT = re.compile(r"\\(?:text|textbf|textrm|mathrm|mbox)\s*+\{([^{}]*+)\}")
_WORDS = re.compile(
    r"\s*+(?:[A-Za-z]++[\s,'-]*+)*?(?:[A-Za-z]{3,}|[Nn]o)(?:[\s,.'-]++[A-Za-z]++)*+\s*+"
)
_PHRASE = re.compile(
    r"(?:(?:the|an?)\s)?([A-Za-z][A-Za-z' -]{0,80}?)"
    r"(?=[\n.,;:()!?—–<]|\s-\s|$|\s(?:because|since|as|which|where)\s)",
    re.IGNORECASE,
)


_SPANS = ("display", "bracketed", "parenthesised", "inline")
_PLAIN_NUMBER = re.compile(r"-?[\d,.]++")
_REMARK_NEXT = re.compile(r"\s(?:of|more|less|times|is|are)\b")
_BEFORE_EXPRESSION = re.compile(r"[^\d$\\\n]*?(?<![\w.,:/*^()\[\]-])(?=-?[\d$\\(]|[€£¥₹])")
_DIGIT = re.compile(r"\d")
_NEW_LINE = re.compile(r"\s*+(?<=\n)")


class _Reader:
    """Reads expressions in what is said."""

    def __init__(self, said: str, gold: str) -> None:
        self.said = said
        self.letters = set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", gold))

    def only_expression(self, at: int) -> int:
        """Where the one expression with digits of a sentence of words begins; -1 where it has none
        or several, or numbers follow the sentence."""
        end = _SENTENCE_END.search(self.said, at)
        last = end.start() if end else len(self.said)
        if _DIGIT.search(self.said, last):
            return -1
        starts = list[int]()
        while (word := _BEFORE_EXPRESSION.match(self.said, at, last)) and len(starts) < 2:
            starts.append(word.end())
            at = self.end(word.end())
            if at == word.end():
                return -1
        if len(starts) != 1 or _CHANGES_BEFORE.search(self.said, 0, starts[0]):
            return -1
        return starts[0]

    def listed(self, at: int) -> Statement | None:
        """The expressions of a list, each without its unit."""
        said, listed, joint, begin = self.said, "", "", at
        while (end := self.end(at)) > at:
            listed += joint + self.written(at, end)
            if (scale := _SCALE.match(said, end)) and _PLAIN_NUMBER.fullmatch(listed):
                listed += f" \\times 10^{{{_SCALES.get(scale[1], 0)}}}"
                end = scale.end()
            elif unit := self._unit(end):
                end = unit.end()
            clause = _CLAUSE.match(said, end)
            behind = clause.end() if clause else end
            if (
                _POWER.match(said, end)
                or _CHANGES.search(said, end, behind)
                or _CHANGES_NEXT.match(said, behind)
            ):
                return _clause(said, begin)
            following = _SEPARATOR.match(said, behind)
            if following is None or not self._goes_on(following.end()):
                return Statement(listed, whole=False, rest=said[behind:])
            at = following.end()
            joint = " \\text{ or } " if "or" in following[0].lower() else ", "
        return None

    def _goes_on(self, at: int) -> bool:
        """Whether a list has another expression at a place, rather than a remark."""
        return (end := self.end(at)) > at and not _REMARK_NEXT.match(self.said, end)

    def _unit(self, at: int) -> re.Match[str] | None:
        unit = _UNIT.match(self.said, at)
        return unit if unit and unit[1] not in self.letters else None

    def end(self, at: int) -> int:
        """Where the expression that begins at a place ends; that place where none does."""
        said, end, depth, before = self.said, at, 0, ""
        while at < len(said):
            if depth == 0 and (
                _ARTICLE.match(said, at)
                or (before and (_REMARK.match(said, at) or _NEW_LINE.match(said, at)))
                or (before == "number" and self._unit(at))
            ):
                break
            token = _TOKEN.match(said, at)
            if token is None and (depth == 0 or said[at] == "\n"):
                break
            if token is None:
                at += 1  # within brackets anything is part of it
                continue
            depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
            if depth < 0:
                break
            at = token.end()
            if token.lastgroup not in {"mark", "open", "currency"}:
                before = token.lastgroup or ""
            if depth == 0 and before:
                end = at
        return end

    def written(self, at: int, end: int) -> str:
        """An expression without its dollars and currency signs."""
        kept = list[str]()
        while at < end:
            token = _TOKEN.match(self.said, at)
            if token is None:
                kept.append(self.said[at])
                at += 1
                continue
            inside = [token[name] for name in _SPANS if token[name] is not None]
            if token["currency"] is None:
                kept.append(f" {inside[0]} " if inside else token[0])
            at = token.end()
        return "".join(kept).strip().removeprefix("+").strip()


# A number that stands alone in a text. math-verify finds the last by its place, also where it is
# only the beginning or the end of an expression.

_CUT_BEFORE = re.compile(
    r"(?:(?:[\w)\]}π√²³]|(?<=\$))\s*+[+*/^×÷·±<>≤≥]|[\d)\]}]\s*+-|(?<![A-Za-z])[A-Za-z]\s*+-"
    r"|\d\s++or|[(\[{](?:[-+\d.,/\\\s]|\b[A-Za-z]\b){1,40},|[<>≤≥])[\s$]*+\Z"
)
"""What ends before a number that is the end of an expression."""
_CUT_BEHIND = re.compile(
    r"[\^_(√π\\]|[:/]\d|[eE][-+]?\d|![=]?(?=\s*[-+*/^)=\d])|[A-Za-z](?![A-Za-z/])"
    r"|\s*+[-+*/^×÷·⋅±<>≤≥]\s*+(?:[A-Za-z](?![A-Za-z])|[\\(√π])|\s++or\s++[-$]*+\d"
    r"|\s(?:hundred|thousand|[mbtr]+illion|and an? (?:half|third|quarter))(?![A-Za-z])"
)
"""What begins behind a number that is the beginning of one."""


def cuts(text: str, start: int, end: int) -> bool:
    """Whether the number at a place of a text is a part of an expression.

    >>> cuts("so 2x + 3", 8, 9), cuts("at 12:30", 3, 5), cuts("5 + 3 = 8 apples", 8, 9)
    (True, True, False)
    """
    before, behind = text[max(start - 60, 0) : start], text[end : end + 40]
    unit = _UNIT.match(behind)
    return bool(_CUT_BEFORE.search(before) or (_CUT_BEHIND.match(behind) and not unit))


# A tag.

_TAGS = re.compile(r"<(/?)answer>", re.IGNORECASE)
_JSON = re.compile(
    r"\s*+\{\s*+\"(?:final_?)?answer\"\s*+:\s*+(?:\"((?:[^\"\\]|\\.)*+)\"|([^\"{},]++))"
)


def tagged(text: str) -> str | None:
    """What stands in the last `<answer>` that is not empty; one that is not closed reaches to the
    end. Of JSON the value of `answer`.

    >>> tagged("<answer>5</answer> no, <answer>6"), tagged('<answer>{"answer": "42"}</answer>')
    ('6', '42')
    """
    end = len(text)
    for mark in reversed(list(_TAGS.finditer(text))):
        content = text[mark.end() : end].strip()
        if not mark[1] and content:
            named = _JSON.match(content)
            return (named[1] or named[2]).replace("\\\\", "\\") if named else content
        end = mark.start()
    return None
