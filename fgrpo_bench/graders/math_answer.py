"""The answer that a sentence or a tag states without a box: `The answer is 18 dollars.` states 18.

In: a text after its thoughts, and a normalised gold. Out: what the last statement says, so that it
can be compared like the content of a box. A statement follows the word "answer" (`The answer is`,
`**Final Answer**` above a line) or `####`. What it states is read from its beginning: expressions
with or without dollars, in lists joined by commas, `and` or `or`, and a unit or remark behind each
is left out. Of an expression nothing is left out: `2x+1` is not 2, `12:30` not 12. Where words
make another value of a number (`3 and a half`, `at least 7`, `5 more than x`, `not 5`), all of the
clause is the answer, and no number in it. Where the gold is words, the words are.

The last sentences are looked at, each in a window of fixed size, so that the time is linear in the
text.
"""
# ruff: noqa: RUF001 (signs that look like others are what is read here)

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from fgrpo_bench.graders.math_reading import parts, set_notation

WINDOW = 600
"""Characters behind the word "answer", besides as many as the gold has, in which a statement is
looked for."""

MOST = 50
"""Mentions of an answer that are looked at, the last ones."""


class Reading(NamedTuple):
    """What is stated."""

    answer: str
    whole: bool
    """Whether words belong to it that make another value of its numbers."""
    rest: str
    """What follows it."""


def sentence(text: str, gold: str) -> Reading | None:
    """What the last answer sentence of a text states; None without one.

    gold: normalised; where it is words, words are stated.

    >>> sentence("The answer is 2x+1 because 2 > 1.", "2").answer
    '2x+1'
    >>> sentence('The answer to "What is 7 times 6?" is 42.', "7").answer
    '42'
    """
    text = _ANSWER_IN_FORMULA.sub(_before_formula, text)
    for cue in list(_CUE.finditer(text))[: -MOST - 1 : -1]:
        if _SUPPOSED.search(text, max(cue.start() - 60, 0), cue.start()):
            continue
        said = text[cue.end() : cue.end() + WINDOW + len(gold)]
        if not _NEXT.match(said) and (statement := _said_before(text, cue.start(), gold)):
            return statement
        for begin in _begins(
            said, heading=cue["line"] is not None, hashes=cue["hashes"] is not None
        ):
            if (statement := stated(said, gold, begin)) is not None:
                return statement
    return None


_ANSWER_IN_FORMULA = re.compile(
    r"(?:(\\\(|\\\[|\$\$?)\s{0,9})?\\(?:text(?:bf|rm)?|math(?:rm|bf)|mbox)\s?"
    r"\{([^{}\\$\n]{0,80}\b[Aa]nswer\b[^{}\\$\n]{0,80})\}(\s{0,9}[=:])?"
    r"(?:\s{0,9}(\\\)|\\\]|\$\$?))?"
)
"""Groups: the beginning of a formula, its first words, what joins them to it, its end."""


def _before_formula(match: re.Match[str]) -> str:
    """`\\(\\text{Answer: } 11\\)` as `Answer: \\( 11\\)`."""
    begin, said, joint, end = match.groups("")
    # signs around these words alone go with them
    return said + joint + ("" if begin and end else begin or end)


_CUE = re.compile(
    r"(?P<hashes>^####(?=[ \t])|^A:(?=[ \t][^\n]*+\s*+\Z))"
    r"|(?P<line>^[ \t]*+(?:[#>*_-]++[ \t]*+)*+(?:[Tt]he )?)?"
    r"\b(?i:(?:final[ _]|correct )?(?:answers?|ans))\b",
    re.MULTILINE,
)
"""Groups: `####` or the last line's `A:`, and what stands before a word that begins a line."""
_SUPPOSED = re.compile(
    r"\b(?i:if|whether|doubt|suppose|assum(?:e|ing)|unless|check(?:ing)?|verify(?:ing)?|wrong|incorrect"
    r"|previous|put|give|write|enter|express|state|simplify|round|leave|report|provide)"
    r"\b[^.,:;!?\n]{0,40}\Z"
)
"""What stands before the word "answer" where no answer is stated."""
_IS = (
    r"(?:(?:is|are|was|would|should|will)(?=n't| not\b)|(?=can(?:not|'t| not)\b)"
    r"|(?:is|are|was|equals|becomes|comes? out to(?: be)?"
    r"|(?:should|must|would|will|has to|have to|can only) be)(?![A-Za-z])|[:=≈→⇒])"
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
        if following := _AT_ONCE.match(said):
            yield following.end()
    elif following := _AT_ONCE.match(said):
        yield following.end()


_AT_ONCE = re.compile(r",?\s(?:of\s)?(?=\\?\$?-?[\d\\])")
"""`answer of 18`, `answer 18`."""


def _said_before(text: str, end: int, gold: str) -> Reading | None:
    """What a sentence such as `So 7 is the answer` states, of which the word "answer" begins at a
    place; None where it is none. One that denies, at the end of a text, is a statement as a whole.
    """
    verb = _IS_THE.search(text, max(end - 40, 0), end)
    if verb is None:
        return None
    clause = text[max(verb.start() - WINDOW, 0) : verb.start()]
    clause = clause[max((mark.end() for mark in _CLAUSE_BEGINS.finditer(clause)), default=0) :]
    clause = clause[len((_LEADING.match(clause) or [""])[0]) :]
    if not clause or _PRONOUN.fullmatch(clause):
        return None
    if verb[1]:
        denied = not _DIGIT.search(text, end)
        return Reading(f"{clause}{verb[0]}answer", whole=True, rest="") if denied else None
    for said in dict.fromkeys((clause, clause.rpartition(", ")[2])):
        statement = stated(said, gold)
        if statement and not statement.whole and not _DIGIT.search(statement.rest):
            return statement
    return None


_IS_THE = re.compile(
    r"\s(?:(?:is|was|are|as|be)|(is(?:n't| not)))\s(?:the|our|my|your)\s(?:[a-z]{1,10}\s)?\Z"
)
_CLAUSE_BEGINS = re.compile(r"\n|[.!?:;]\s")
_LEADING = re.compile(
    r"(?:[\s,]|(?:so|and|but|therefore|thus|hence|then|now|finally|that|which|us"
    r"|(?:we|i|which|this|that|it|it follows) ?(?:gets?|ha(?:ve|s)|finds?|obtains?|sees?|thinks?"
    r"|believes?|conclude|gives?|yields?|means|makes?|leaves?)?)(?![A-Za-z]))*+",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"(?:this|that|it|which|these|those|there|what|here|\W)*", re.IGNORECASE)


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
    r"|(?P<number>(?:\d{1,3}(?:(?:,(?:\\!\s?)?|\{,\})\d{3})++(?!\d)(?:\.\d++)?+|\d++(?:\.\d++|,\d{1,2}(?![\d,]))?+|\.\d++)"
    r"(?:[eE][-+]?\d{1,3}(?![\w.]))?+)"
    r"|(?P<text>\\(?:text|textbf|textrm|mathrm|mbox)\s*+\{[^{}\n]*+\})"
    r"|(?P<command>\\(?:[A-Za-z]++|[%,;:! {}\\|]))"
    rf"|(?P<function>(?<![A-Za-z])(?:{_FUNCTIONS})(?![A-Za-z]))"
    r"|(?P<letter>(?<![A-Za-z'’])[A-Za-z](?![A-Za-z'’]|&[A-Z])|[π∞θ∅½¼¾⅓⅔])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<mark>(?<=\d):(?=\d)|![=]?(?=\s*[-+*/^)\]=\d])|<(?![/|A-Za-z])"
    r"|[-+*/^=>|_~&%×÷·⋅±−≤≥≠≈∈∪∩√°²³¹⁰-⁹′])"
    r")",
    re.DOTALL,
)
_MARKUP = re.compile(
    r"\\(?:begin|end)\{(?:equation|align(?:ed)?|gather(?:ed)?)\*?\}|"
    r"(?<![\w)}\]$*])\*{1,3}(?=\S)|(?<=[^\s*])\*{1,3}(?![\w({\\*$])|_{2,3}|[`\"“”]|(?<=[A-Za-z]{2})\$\^\{?[23]\}?\$"
)
"""Bold, italics, code and quotation marks."""
_FILLERS = re.compile(
    r"(?:[\s:>~*_'‘&]|(?:approximately|about|around|roughly|simply|just|exactly|only|therefore|thus"
    r"|hence|then|indeed|actually|clearly|obviously|equal to|given by|as follows|also|in fact"
    r"|(?:found|going) to be|a total of|in total|option|that"
    r"|the (?:number|value|fraction|expression|interval|set|point|pair|ordered pair|integer))"
    r"(?![A-Za-z]),?)*+",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(
    r"\s*+(?:[,;](?:\s*+(?:and|or)(?![A-Za-z]))?+|(?:and|or)(?![A-Za-z])|&)\s*+", re.IGNORECASE
)
_TIMES = re.compile(r"(?<=\d)\s?[x×]\s?(?=10\^)")
_ITEM = re.compile(r"(?:[-*•]\s|\d{1,2}[.)]\s|\(?[a-h]\)\s)\s*+")
"""What stands before an item of a list."""
_ARTICLE = re.compile(r"\s*+(?:[aAI]\s[A-Za-z])")
_SCALE = re.compile(r"\s?(hundred|thousand|[mbtr]+illion)(?![A-Za-z])")
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_REMARK = re.compile(r"\s++\((?=[^()]*(?<![\\A-Za-z])[A-Za-z]{2})(?!\s*+mod\b)")
_UNIT = re.compile(
    r"\s?([mgshLJNVWKCF])(?:\^?[23]|²|³)?+(?:/[a-z]{1,3}(?:\^?2)?)?(?![\w^/*=(])"
    r"|\s?/\s?(?=[A-Za-z]{2})|\s?\\?\$(?![\w\\$(])|(:)00(?!\d)"
)
"""A unit of one letter, which a formula has only where the gold has that letter too, or what stands
before or for a unit: `/day`, `$`, and `:00` of a time, where the gold is none."""
_REMARKS = (
    "because|since|which|where|when|as|so|for|with|that|who|after|given|using|from|at|on|in|into"
    "|and|or|per|before|is|are|was|were|did|do|will|would|can|have|has"
)
_CLAUSE = re.compile(
    r"(?:[^\n.,;:()!?—–<\"“]|[.](?=\w)|,(?=\d))*?"
    rf"(?=[\n.,;:()!?—–<\"“]|$|(?<![A-Za-z])(?:{_REMARKS}|(?<!out )of)(?![A-Za-z]))"
)
"""What stands behind an expression: up to a mark or to a word that begins a remark."""
_VARIABLE = r"\s++(?:[b-zB-HJ-Z](?![A-Za-z'’])|[$\\\d])"
_IF = rf"(?:if|unless){_VARIABLE}|(?:otherwise|else)(?![A-Za-z])"
_CHANGES = re.compile(
    r"\\(?!%)|[+*=^](?![23])"
    r"|(?<![A-Za-z])(?:(?:hundred|thousand|[mbtr]+illion|halves|thirds|(?:fif|six|eigh|ten)ths"
    r"|plus|minus|divided|not|never|or (?:more|less|so|fewer))(?![A-Za-z])"
    rf"|(?:(?:more|less|fewer|greater|larger|smaller) than|times){_VARIABLE}|{_IF})",
    re.IGNORECASE,
)
"""Words behind a number by which it is another value."""
_CHANGES_NEXT = re.compile(
    r"\s?[–—]\s?\d|\s*+,?\s*+(?:(?:or (?:more|less|so|fewer)|and an? (?:half|third|quarter)"
    rf")(?![A-Za-z])|{_IF})",
    re.IGNORECASE,
)
_CHANGES_AT_ONCE = re.compile(
    r"\s?(?:squared|cubed|factorial|choose)(?![A-Za-z])|\s(?:out )?of\s\d"
    r"|[^\S\n]*+(?:(?!(?:because|since|for|in|per|so|from|on|at|with|using|of|and|or|not|rather)\s)"
    r"[^\s\d.,;:()?!&]++[^\S\n]++){0,2}\\?\$?\d"
)
"""The same at once, or a further number behind at most two words: `6 feet 2 inches`."""
_CHANGES_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:not|never|n't|can(?:not|'t| not)|neither|from|between|at least|at most|up to"
    r"|over|under|unlikely|unclear|(?:no )?(?:more|less|fewer|greater|larger|smaller) than)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)


def stated(said: str, gold: str, begin: int = 0) -> Reading | None:
    """What a text states from a place on, up to the end of its sentence; None where it has neither
    an expression nor, for a gold of words, words.

    >>> stated("3 cm and 5 cm.", "3, 5").answer, stated("Tuesday, I think.", "Monday").answer
    ('3, 5', '\\\\text{Tuesday}')
    """
    is_label = begin == 0 or said[begin - 1] in ":\n-–—"
    if not gold.startswith("-") and (bullet := _BULLET.match(said, begin)):
        begin = bullet.end()
    said = _TIMES.sub(r"\\times ", _MARKUP.sub("", said[begin:]))
    start = at = len((_FILLERS.match(said) or [""])[0])
    written = _verbatim(gold)
    if verbatim := written.match(said) or written.match(said, at):
        return Reading(gold, whole=False, rest=said[verbatim.end() :])
    phrase = _PHRASE.match(said, at) if is_prose(gold) or _SET.search(gold) else None
    if phrase and not is_prose(gold) and not set_notation(phrase[1]):
        phrase = None
    if phrase and phrase[1].strip() and not _CHANGES_BEFORE.match(said, at):
        return _phrase(phrase, gold)
    said = said[:at] + _MINUS.sub("-", said[at:], count=1)
    reader = _Reader(said, gold)
    at = reader.item(at) if reader.several or not is_label else reader.result(at)
    if at == start and (said.startswith("n't") or _CHANGES_BEFORE.match(said, at)):
        return _clause(said, at)
    if reader.end(at) == at:
        at = reader.only_expression(at)
    return None if at < 0 else reader.listed(at)


_BULLET = re.compile(r"[\s:]*+(?<=\n)[ \t]*+[-•][ \t]++")
_MINUS = re.compile(r"\A(?:negative|minus)\s(?=\\?\$?[\d\\])", re.IGNORECASE)


@lru_cache(maxsize=4_096)
def _verbatim(gold: str) -> re.Pattern[str]:
    """A gold with nothing behind it in its line: so written, it is the answer, whatever it is."""
    signs = re.findall(r"\S", _TIMES.sub(r"\\times ", _MARKUP.sub("", gold)))
    written = r"\s*+".join(map(re.escape, signs))
    return re.compile(rf"\s*+\$?\s*+{written}(?=[\s.$]*+\Z|[ .$]*+\n)" if signs else r"(?!)")


def _phrase(match: re.Match[str], gold: str) -> Reading:
    """Words behind the last verb, as the gold has them where only their case differs."""
    phrase = _VERB.split(match[1])[-1].strip()
    same = phrase.lower() == _IN_TEXT.sub(r"\1", gold).strip().lower()
    answer = gold if same else f"\\text{{{phrase}}}"
    return Reading(answer, whole=False, rest=match.string[match.end() :])


def _clause(said: str, at: int) -> Reading | None:
    """All of a sentence."""
    end = _SENTENCE_END.search(said, at)
    clause = said[at : end.start() if end else None].strip()
    return Reading(clause, whole=True, rest=said[at + len(clause) :]) if clause else None


def is_prose(gold: str) -> bool:
    """Whether a normalised gold is words rather than an expression.

    >>> is_prose(r"\\text{Tuesday}"), is_prose("yes"), is_prose("ab"), is_prose("2x")
    (True, True, False, False)
    """
    return _PROSE_ANSWER.fullmatch(_IN_TEXT.sub(r"\1", gold)) is not None


_IN_TEXT = re.compile(r"\\(?:text|textbf|textrm|mathrm|mbox)\s*+\{([^{}]*+)\}")
_PROSE_ANSWER = re.compile(
    r"\s*+(?:[A-Za-z]++[\s,'-]*+)*?(?:[A-Za-z]{3,}|[Nn]o)(?:[\s,.'-]++[A-Za-z]++)*+\s*+"
)
_VERB = re.compile(r"\b(?:is|are)\b(?: an?\b)?")
_PHRASE = re.compile(
    r"(?:(?:the|an?)\s)?([A-Za-z][A-Za-z' -]{0,80}?)"
    r"(?=[\n.,;:()!?—–<]|\s-\s|$|\s(?:because|since|as|which|where)\s)",
    re.IGNORECASE,
)


_SPANS = ("display", "bracketed", "parenthesised", "inline")
_SET = re.compile(r"\\(?:mathbb|emptyset|infty)(?![A-Za-z])")
_PLAIN_NUMBER = re.compile(r"-?[\d,.]++")
_REMARK_NEXT = re.compile(r"\s(?:of|more|less|times|is|are)\b")
_BEFORE_EXPRESSION = re.compile(r"[^\d$\\\n]*?(?<![\w.,:/*^()\[\]-])(?=-?[\d$\\(]|[€£¥₹])")
_PROSE_BETWEEN = re.compile(r"(?<!\\)\b[A-Za-z]{2,}")
_LIST_BETWEEN = re.compile(r"\$[^$\d]*+\$|\b(?:and|or|where|with|when)\s+\\?\$?[A-Za-z]\b")
_DIGIT = re.compile(r"\d")
_SPACED_PERCENT = re.compile(r"(?<=[\d}])\s*+\\?%")
_DECIMAL_COMMA = re.compile(r"\A(-?\d++),(\d{1,2})\Z")
_GROUPED = re.compile(r"\A\s*+\d{1,3}(?:,\d{3})++(?!\d)")
_BLANK = re.compile(r"\s*+")
_NEW_LINE = re.compile(r"\s*+(?<=\n)")


class _Reader:
    """Reads expressions in what is said."""

    def __init__(self, said: str, gold: str) -> None:
        self.said = said
        self.several = parts(gold) > 1
        self.letters = set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|:", gold))

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

    def result(self, at: int) -> int:
        """Behind the last equals sign of a sentence where words stand between it and the beginning:
        a label such as `Answer:` may be followed by a sentence rather than by an answer."""
        end = _SENTENCE_END.search(self.said, at)
        equals = self.said.rfind("=", at, end.start() if end else len(self.said))
        first = self.end(at)
        if equals < first or not _PROSE_BETWEEN.search(self.said, first, equals):
            return at
        return at if _LIST_BETWEEN.search(self.said, first, equals) else equals + 1

    def listed(self, at: int) -> Reading | None:
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
                _CHANGES_AT_ONCE.match(said, end)
                or _CHANGES.search(said, end, behind)
                or _CHANGES_NEXT.match(said, behind)
            ):
                return _clause(said, begin)
            following = _SEPARATOR.match(said, behind)
            if following and "or" in following[0].lower() and not self.several:
                return Reading(listed, whole=False, rest=said[behind:])  # the first of these
            at = self.item(following.end() if following else behind)
            if (following is None and at == behind) or not self._goes_on(at):
                return Reading(listed, whole=False, rest=said[behind:])
            joint = " \\text{ or } " if following and "or" in following[0].lower() else ", "
        return None

    def item(self, at: int) -> int:
        """Behind the bullet, number or letter of an item, where the gold has several parts."""
        begin = _BLANK.match(self.said, at)
        item = _ITEM.match(self.said, begin.end()) if begin and self.several else None
        return item.end() if item else at

    def _goes_on(self, at: int) -> bool:
        """Whether a list has another expression at a place, rather than a remark."""
        return (end := self.end(at)) > at and not _REMARK_NEXT.match(self.said, end)

    def _unit(self, at: int) -> re.Match[str] | None:
        unit = _UNIT.match(self.said, at)
        return unit if unit and not self.letters & {unit[1], unit[2]} else None

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
            if not self.several and token["number"]:
                kept.append(token[0].replace(",", "") if _GROUPED.search(token[0]) else token[0])
            elif token["currency"] is None:
                kept.append(f" {inside[0]} " if inside else token[0])
            at = token.end()
        answer = _SPACED_PERCENT.sub(r"\\%", "".join(kept).strip().removeprefix("+").strip())
        return answer if self.several else _DECIMAL_COMMA.sub(r"\1.\2", answer)


# A number that stands alone in a text. math-verify finds the last by its place, also where it is
# only the beginning or the end of an expression.

_CUT_BEFORE = re.compile(
    r"(?:(?:[\w)\]}π√²³]|(?<=\$))\s*+[+*/^×÷·±<>≤≥]|[\d)\]}]\s*+-|(?<![A-Za-z])[A-Za-z]\s*+-"
    r"|\d\s++or|[(\[{](?:[-+\d.,/\\\s]|\b[A-Za-z]\b){1,40},|[<>≤≥])[\s$]*+\Z"
)
"""What ends before a number that is the end of an expression."""
_CUT_BEHIND = re.compile(
    r"[\^_(√π\\]|:(?!00(?!\d))\d|/\d|[eE][-+]?\d|![=]?(?=\s*[-+*/^)=\d])|[A-Za-z](?![A-Za-z/])"
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
