"""Other ways of writing an answer, tried where math-verify finds it unequal to its gold.

In: a normalised gold and answer. Out: pairs of both, each with one more thing rewritten alike on
both sides: dots, the notation of programs, units within a list, conditions that say no more than
the problem, the name of a set. The judge compares each pair; the first that is equal decides.

All of it is linear in the length of its text and imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgrpo_bench.graders.math_reading import denies, parts

DOTS = "dots, however they are spelled"
PROGRAM = "the notation of programs"
UNITS = "units within a list"
CONDITION = "a condition that says no more than the problem"
NAME = "a set by its name"


def retold(gold: str, answer: str) -> Iterator[tuple[str, str, str]]:
    """Gold and answer as they may be compared too, and what was rewritten.

    >>> [*retold(r"\\pi r^2", "pi*r**2")]
    [('\\\\pi r^2', '\\\\pi *r^2', 'the notation of programs')]
    >>> [answer for _, answer, _ in retold("2k", r"2k, k \\in \\mathbb{Z}")]
    ['2k']
    """
    both = gold, answer
    for rewrite, what in (
        (_dots, DOTS),
        (_program, PROGRAM),
        (_without_conditions, CONDITION),
        (_without_units, UNITS),
        (_without_names, NAME),
    ):
        rewritten = rewrite(*both)
        if rewritten != both:
            both = rewritten
            yield *both, what


# Dots: a letter of their own, where they stand for what is left out of a list or a sum.

_DOTS = re.compile(r"(?:\\(?:[lc]?dots|dots[cbmio])(?![A-Za-z])|\.\s?\.\s?\.|…)")
_LEFT_OUT = re.compile(rf"(?<=[,+*=;-])(\s*+){_DOTS.pattern}|(\\(?:cdot|times)\s*+){_DOTS.pattern}")


def _dots(gold: str, answer: str) -> tuple[str, str]:
    return _of_dots(gold), _of_dots(answer)


def _of_dots(text: str) -> str:
    return _LEFT_OUT.sub(r"\1\2\\mathcal{D}", text)


# Programs.

_NAMED = [
    *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec"),
    *("csc", "ln", "log", "sqrt", "pi", "theta", "alpha", "beta", "gamma", "lambda", "phi"),
    *("omega", "infinity", "infty", "inf", "exp", "abs"),
]
_NAME_ALONE = re.compile(
    rf"\\text\s*+\{{[^{{}}]*+\}}|(?<![A-Za-z\\{{])({'|'.join(_NAMED)})(?![A-Za-z}}])"
)
_SAME_AS = {"infinity": "infty", "inf": "infty"}
_ARC = re.compile(r"(?<![A-Za-z\\])a(sin|cos|tan)(?=\()")
_SIGNS = {"**": "^", "<=": "\\le ", ">=": "\\ge ", "!=": "\\ne "}
_SIGN = re.compile(r"\*\*|<=|>=|!=")
_CALL = re.compile(r"(\\sqrt|\\exp|\\abs|\^)\s*+\(")
_BRACKET = re.compile(r"[()]")


_LOG = re.compile(r"(?<![A-Za-z\\])log(?=\()")


def _program(gold: str, answer: str) -> tuple[str, str]:
    if "ln" in gold and "log" not in gold:
        answer = _LOG.sub("ln", answer)  # which in most programs is the natural one
    return _of_program(gold), _of_program(answer)


def _of_program(text: str) -> str:
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], _ARC.sub(r"\\arc\1", text))
    text = _NAME_ALONE.sub(
        lambda name: f"\\{_SAME_AS.get(name[1], name[1])} " if name[1] else name[0], text
    )
    text = re.sub(r"(\\(?:[A-Za-z]++)) (?=[({^])", r"\1", text)
    return re.sub(r"(?<=\\sqrt)\s++(?=\{)", "", _with_braces(text))


def _with_braces(text: str) -> str:
    """Arguments in parentheses of what takes them in braces; e^(2x), sqrt(2), abs(x)."""
    opened, kept, end = list[tuple[bool, str]](), list[str](), 0
    calls = {call.end() - 1: call[1] for call in _CALL.finditer(text)}
    for bracket in _BRACKET.finditer(text):
        kept.append(text[end : bracket.start()])
        end = bracket.end()
        shown = bracket[0]
        if shown == "(":
            call = calls.get(bracket.start())
            closing = "|" if call == "\\abs" else "}" if call else ")"
            opened.append((call is not None, closing))
            if call is not None:
                before = {"\\abs": "|", "\\exp": "e^{"}.get(call)
                if before is None:
                    shown = "{"
                else:
                    kept[-1] = kept[-1].rstrip()[: -len(call)]
                    shown = before
        elif opened:
            shown = opened.pop()[1]
        kept.append(shown)
    return text if opened else "".join([*kept, text[end:]])


# Lists.

_TEXT = re.compile(r"(?<!\s)(?:\s|\\[ ,;:!~])*+\\(?:text(?:rm|bf)?|mathrm|mbox)\s*+\{([^{}]*+)\}")
_JOINING = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")


def _without_units(gold: str, answer: str) -> tuple[str, str]:
    if parts(gold) < 2:
        return gold, answer
    return _of_units(gold), _of_units(answer)


def _of_units(text: str) -> str:
    def separator(words: re.Match[str]) -> str:
        if denies(words[1].replace(" or ", " ")) or any(map(str.isdigit, words[1])):
            return words[0]
        return ", " if _JOINING.search(words[1]) else ""

    return _TEXT.sub(separator, text)


# Conditions.

_SPACE = r"(?:[\s,;~]|\\[,;:! ]|\\q?quad(?![A-Za-z]))"
_SETS = r"\\(?:mathbb|mathbf|mathrm)\s*+\{?\s*+[A-Z]\s*+\}?(?:\s*+[_^]\s*+[\w+*-])?+"
_SAYS = (
    r"(?:for|where|with|when|at which|attained|achieved|reached|as|equality)(?![A-Za-z])"
    r"(?!\s(?:respect|least|most))"
)
_CONDITION = re.compile(
    rf"(?<![\s~]){_SPACE}*+(?:"
    rf"\(?\s*+\\text\s*+\{{{_SPACE}*+\(?\s*+{_SAYS}[^{{}}]*+\}}.*"
    r"|\(?\s*+\\forall(?![A-Za-z]).*"
    rf"|(?:(?<=[,;\s])|\()\s*+[A-Za-z]\s*+\\in\s*+{_SETS}\s*+\)?\s*+"
    r"|(?<=[\w)}\s])\s(?:for (?:all|any|every|each|some)|where)\s.*"
    r")\Z",
    re.DOTALL,
)
_ONLY = re.compile(r"\A\\text\s*+\{\s*+only\s*+\}\s*+|(?<!\s)\s*+\\text\s*+\{\s*+only\s*+\}\Z")
_PLAIN = re.compile(r"\\(?:text|mathbb|left|right|quad|qquad)(?![A-Za-z])|[^A-Za-z0-9<>=\\]")
_RELATION = re.compile(r"[<>]|\\(?:leq?|geq?|in)(?![A-Za-z])")


_VARIABLE = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_COMMAND = re.compile(r"\\[A-Za-z]++")
_OTHERWISE = re.compile(
    r"(?<![A-Za-z])(?:if|else|otherwise|wrong|odd|even|possible)(?![A-Za-z])"
    r"|(?<![A-Za-z])for(?![A-Za-z]).*(?<![A-Za-z])for(?![A-Za-z])",
    re.DOTALL,
)
_SETS_EQUAL = re.compile(r"(?<![A-Za-z\\])([A-Za-z])(?:\([A-Za-z]\))?\s*+(?:=|\\neq?(?![A-Za-z]))")


def _changes(bare: str, condition: str) -> bool:
    """Whether a condition says more than the problem: another case, that it is wrong, or what a
    letter of the answer is."""
    if _OTHERWISE.search(condition) or denies(condition):
        return True
    letters = _COMMAND.sub("", bare)
    return any(named[1] in letters for named in _SETS_EQUAL.finditer(condition))


def _without_conditions(gold: str, answer: str) -> tuple[str, str]:
    """Without the condition that one of the two has behind it, or that both have alike."""
    gold, answer = _ONLY.sub("", gold), _ONLY.sub("", answer)
    of_gold, of_answer = _CONDITION.search(gold), _CONDITION.search(answer)
    bare_gold = gold[: of_gold.start()] if of_gold else gold
    bare_answer = answer[: of_answer.start()] if of_answer else answer
    if not bare_gold.strip() or not bare_answer.strip():
        return gold, answer
    if of_gold and of_answer and _PLAIN.sub("", of_gold[0]) != _PLAIN.sub("", of_answer[0]):
        return gold, answer
    if of_answer and not of_gold and _changes(bare_answer, of_answer[0]):
        return gold, answer
    for bare, condition in ((bare_gold, of_gold), (bare_answer, of_answer)):
        # whole numbers between two bounds are not what lies between them
        lies_between = _RELATION.search(bare) or (bare.strip()[0] in "([" and "," in bare)
        if condition and lies_between and not re.search(r"R|\\forall|text", condition[0]):
            return gold, answer
    return bare_gold, bare_answer


# Names.

_NAMED_SET = re.compile(
    r"\A\s*+(?P<name>(?:[A-Za-z'\s_^{}|]|\\(?:cap|cup|complement|overline|setminus|text|mathrm|bar)"
    r"(?![A-Za-z])){1,60}?)\s*+(?:=|\\in(?![A-Za-z]))\s*+"
    r"(?P<set>(?:\\left\s*+)?(?:[(\[]|\\\{|\\mathbb|\\emptyset|\\varnothing).*)\Z",
    re.DOTALL,
)


def _without_names(gold: str, answer: str) -> tuple[str, str]:
    """`x \\in [0, 1)` and `A \\cup B = [0, 1)` as the set alone, unless the other one names another
    set or bounds another variable."""
    of_gold, of_answer = _NAMED_SET.match(gold), _NAMED_SET.match(answer)
    names = ["".join(named["name"].split()) for named in (of_gold, of_answer) if named]
    if not names or len(set(names)) > 1:
        return gold, answer
    other = answer if of_gold else gold
    if len(names) == 1 and _bounds_another(other, names[0]):
        return gold, answer
    return (of_gold["set"] if of_gold else gold), (of_answer["set"] if of_answer else answer)


def _bounds_another(text: str, name: str) -> bool:
    has_relation = re.search(r"[<>]|\\(?:leq?|geq?)(?![A-Za-z])", text) is not None
    return has_relation and len(name) == 1 and name not in _VARIABLE.findall(text)
