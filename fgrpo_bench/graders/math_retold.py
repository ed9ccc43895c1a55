"""Other ways of writing an answer, tried where math-verify finds it unequal to its gold.

In: a normalised gold and answer. Out: pairs of both, each with one more thing rewritten alike on
both sides: dots, the notation of programs, units within a list, conditions that say no more than
the problem, a set in words or by its name, brackets of a list. The judge compares each pair; the
first that is equal decides.

All of it is linear in the length of its text and imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fgrpo_bench.graders.math_reading import denies, is_list, parts, set_notation

DOTS = "dots, however they are spelled"
PROGRAM = "the notation of programs"
UNITS = "units within a list"
CONDITION = "a condition that says no more than the problem"
NAMED_IN_PROSE = "a set in words"
NAME = "a set by its name"
BRACKETS = "a list in brackets"


def retold(gold: str, answer: str) -> Iterator[tuple[str, str, str]]:
    """Gold and answer as they may be compared too, and what was rewritten.

    >>> [*retold(r"\\pi r^2", "pi*r**2")]
    [('\\\\pi r^2', '\\\\pi *r^2', 'the notation of programs')]
    >>> [answer for _, answer, _ in retold("2k", r"2k, k \\in \\mathbb{Z}")]
    ['2k']
    """
    both = gold, answer
    for rewrite, what in (
        (_without_prose, NAMED_IN_PROSE),
        (_dots, DOTS),
        (_program, PROGRAM),
        (_without_conditions, CONDITION),
        (_without_units, UNITS),
        (_without_names, NAME),
        (_without_brackets, BRACKETS),
    ):
        rewritten = rewrite(*both)
        if rewritten != both:
            both = rewritten
            yield *both, what


# Dots: a letter of their own, where they stand for what is left out of a list or a sum.

_DOTS = re.compile(r"(?:\\(?:[lc]?dots|dots[cbmio])(?![A-Za-z])|\.\s?\.\s?\.|…)")
_OPERATOR_DOTS = re.compile(
    rf"(?<=[,+*=;-])(\s*+){_DOTS.pattern}|(\\(?:cdot|times)\s*+){_DOTS.pattern}"
)


def _dots(gold: str, answer: str) -> tuple[str, str]:
    return _dotted_d(gold), _dotted_d(answer)


def _dotted_d(text: str) -> str:
    return _OPERATOR_DOTS.sub(r"\1\2\\mathcal{D}", text)


# Programs.

_NAMED = [
    *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec"),
    *("csc", "ln", "log", "lg", "sqrt", "pi", "theta", "alpha", "beta", "gamma", "lambda", "phi"),
    *("omega", "infinity", "infty", "inf", "oo"),
]
_NAME_ALONE = re.compile(
    rf"\\text\s*+\{{[^{{}}]*+\}}|(?<![A-Za-z\\{{])({'|'.join(_NAMED)})(?![A-Za-z}}]|(?:2|10)\()"
)
_SAME_AS = {"infinity": "infty", "inf": "infty", "oo": "infty"}
_MODULE = re.compile(r"(?<![\w.\\])(?:c?math|np|numpy|sp|sympy)\.(?=[A-Za-z])")
_ARC = re.compile(r"(?<![A-Za-z\\])a(sin|cos|tan)(?=\()")
_SIGNS = {"**": "^", "<=": "\\le ", ">=": "\\ge ", "!=": "\\ne "}
_SIGN = re.compile(r"\*\*|<=|>=|!=")
_EXPONENT = re.compile(r"\^\s?(-?[0-9]++\.[0-9]++|-(?:[0-9]++|[A-Za-z](?![A-Za-z(])))")
_TIMES = re.compile(r"(?<=[0-9])\s?x\s?(?=10\s?\^)")
_COMMON_LOG = re.compile(r"\\lg(?![A-Za-z])")
_ARGUMENTS = {
    "^": ("^{", "}"),
    "sqrt": ("\\sqrt{", "}"),
    "cbrt": ("\\sqrt[3]{", "}"),
    "root": ("{(", ")}^{1/(", ")}"),
    "pow": ("{(", ")}^{", "}"),
    "exp": ("e^{", "}"),
    "abs": ("|", "|"),
    "Abs": ("|", "|"),
    "floor": ("\\lfloor ", "\\rfloor "),
    "ceil": ("\\lceil ", "\\rceil "),
    "ceiling": ("\\lceil ", "\\rceil "),
    "factorial": ("(", ")!"),
    "log2": ("\\log_{2}(", ")"),
    "log10": ("\\log_{10}(", ")"),
    "log": ("\\frac{\\ln(", ")}{\\ln(", ")}"),
    "Rational": ("\\frac{", "}{", "}"),
    "Fraction": ("\\frac{", "}{", "}"),
    "comb": ("\\binom{", "}{", "}"),
    "binomial": ("\\binom{", "}{", "}"),
    "C": ("\\binom{", "}{", "}"),
}
"""By the name of a call: what stands before, between and behind its arguments."""
_CALL_OR_BRACKET = re.compile(
    r"(?:(?:(?:\\|(?<![A-Za-z\\]))"
    rf"({'|'.join(sorted(_ARGUMENTS.keys() - {'^'}, reverse=True))})|(\^))\s*+)?\("
    r"|[),]"
)
_LOG = re.compile(r"(?<![A-Za-z\\])log(?=\()")


def _program(gold: str, answer: str) -> tuple[str, str]:
    if "ln" in gold and "log" not in gold:
        answer = _LOG.sub("ln", answer)  # which in most programs is the natural one
    return _without_program_marks(gold), _without_program_marks(answer)


def _without_program_marks(text: str) -> str:
    text = _ARC.sub(r"\\arc\1", _MODULE.sub("", text))
    text = _EXPONENT.sub(r"^{\1}", _SIGN.sub(lambda sign: _SIGNS[sign[0]], text))
    text = _NAME_ALONE.sub(
        lambda name: f"\\{_SAME_AS.get(name[1], name[1])} " if name[1] else name[0], text
    )
    text = _COMMON_LOG.sub(r"\\log_{10}", _TIMES.sub(r"\\times ", text))
    text = re.sub(r"(\\(?:[A-Za-z]++)) (?=[({^])", r"\1", text)
    return re.sub(r"(?<=\\sqrt)\s++(?=\{)", "", _with_arguments(text))


def _with_arguments(text: str) -> str:
    """Calls as LaTeX has them: e^(2x), sqrt(2), abs(x), log(3, 2)."""
    opened, kept, end = list[tuple[str, list[int]]](), list[str](), 0
    for token in _CALL_OR_BRACKET.finditer(text):
        kept += text[end : token.start()], token[0]
        end = token.end()
        if token[0].endswith("("):
            opened.append((token[1] or token[2] or "", [len(kept) - 1]))
        elif opened:
            opened[-1][1].append(len(kept) - 1)
            if token[0] == ")":
                name, places = opened.pop()
                written = _ARGUMENTS.get(name, ())
                for place, sign in zip(places, written, strict=False):
                    kept[place] = sign if len(places) == len(written) else kept[place]
    return text if opened else "".join([*kept, text[end:]])


# Lists.

_TEXT = re.compile(r"(?<!\s)(?:\s|\\[ ,;:!~])*+\\(?:text(?:rm|bf)?|mathrm|mbox)\s*+\{([^{}]*+)\}")
_JOINING = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")


def _without_units(gold: str, answer: str) -> tuple[str, str]:
    if parts(gold) < 2:
        return gold, answer
    return _drop_units(gold), _drop_units(answer)


def _drop_units(text: str) -> str:
    def separator(match: re.Match[str]) -> str:
        if denies(match[1].replace(" or ", " ")) or any(map(str.isdigit, match[1])):
            return match[0]
        return ", " if _JOINING.search(match[1]) else ""

    return _TEXT.sub(separator, text)


# Conditions.

_SPACE = r"(?:[\s,;~]|\\[,;:! ]|\\q?quad(?![A-Za-z]))"
_SETS = r"\\(?:mathbb|mathbf|mathrm)\s*+\{?\s*+[A-Z]\s*+\}?(?:\s*+[_^]\s*+[\w+*-])?+"
_SAYS = (
    r"(?:for|where|with|when|at which|attained|achieved|reached|as|equality)(?![A-Za-z])"
    r"(?!\s(?:respect|least|most))"
)
_APART = r"(?:(?<=[,;])|(?<=[,;]\s)|(?<=quad)|(?<=quad\s)|\()"
_COMPARES = r"(?:[<>]=?|\\[lg]eq?(?:slant)?(?![A-Za-z]))"
_BOUNDS = rf"(?:{_COMPARES}|\\neq?(?![A-Za-z]))"
_BOUND = re.compile(
    rf"{_SPACE}*+\(?\s*+([A-Za-z])\s*+({_BOUNDS})\s*+-?[0-9]{{1,9}}\s*+\)?\s*+"
    r"|[^=]*+=\s?-?[0-9]{1,9},\s?[0-9]{1,9},\s?(?:[0-9]{1,9},\s?)?\\mathcal\{D\}\s*+\)?\s*+"
)
"""Bounds of a letter by a number, or `n = 1, 2, ...`."""
_CONDITION = re.compile(
    rf"(?<![\s~]){_SPACE}*+(?:"
    rf"\(?\s*+\\text\s*+\{{{_SPACE}*+\(?\s*+{_SAYS}[^{{}}]*+\}}.*"
    r"|\(?\s*+\\forall(?![A-Za-z]).*"
    rf"|(?:(?<=[,;\s])|\()\s*+[A-Za-z]\s*+\\in\s*+{_SETS}\s*+\)?\s*+"
    rf"|{_APART}\s*+[A-Za-z]\s*+{_BOUNDS}\s*+-?[0-9]{{1,9}}\s*+\)?\s*+"
    rf"|{_APART}\s*+[A-Za-z]\s?=\s?-?[0-9]{{1,9}},\s?[0-9]{{1,9}},[^a-zA-Z]{{0,20}}"
    r"\\mathcal\{D\}\s*+\)?\s*+"
    r"|(?<=[\w)}\s])\s(?:for (?:all|any|every|each|some)|where)\s.*"
    r")\Z",
    re.DOTALL,
)
_ONLY = re.compile(r"\A\\text\s*+\{\s*+only\s*+\}\s*+|(?<!\s)\s*+\\text\s*+\{\s*+only\s*+\}\Z")
_PLAIN = re.compile(
    r"\\(?:text|mathbb|left|right|quad|qquad)(?![A-Za-z])|(?<=\\[lgn]e)q(?![A-Za-z])"
    r"|(?<![A-Za-z\\])(?:for|where|with|when|all|any|every)(?![A-Za-z])|[^A-Za-z0-9<>=\\]"
)
"""What says nothing in a condition."""
_RELATION = re.compile(rf"{_COMPARES}|\\in(?![A-Za-z])")


_VARIABLE = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_COMMAND = re.compile(r"\\[A-Za-z]++")
_OTHERWISE = re.compile(
    r"(?<![A-Za-z])(?:if|else|otherwise|wrong|odd|even|possible)(?![A-Za-z])"
    r"|(?<![A-Za-z])for(?![A-Za-z]).*(?<![A-Za-z])for(?![A-Za-z])",
    re.DOTALL,
)
_INDICES = frozenset("ijklmn")
"""Letters that stand for whole numbers."""
_SETS_EQUAL = re.compile(r"(?<![A-Za-z\\])([A-Za-z])(?:\([A-Za-z]\))?\s*+(?:=|\\neq?(?![A-Za-z]))")


def _changes(bare: str, condition: str) -> bool:
    """Whether a condition says more than the problem: another case, that it is wrong, or what a
    letter of the answer is."""
    if _OTHERWISE.search(condition) or denies(condition):
        return True
    if bound := _BOUND.fullmatch(condition):  # of what cannot be divided by, where it is not 0
        return "n" in (bound[2] or "") and not ("frac" in bare or "/" in bare)
    letters = _COMMAND.sub("", bare)
    return any(named[1] in letters for named in _SETS_EQUAL.finditer(condition))


def _without_conditions(gold: str, answer: str) -> tuple[str, str]:
    """Without the condition that one of the two has behind it, or that both have alike."""
    gold, answer = _ONLY.sub("", gold), _ONLY.sub("", answer)
    gold_condition, answer_condition = _CONDITION.search(gold), _CONDITION.search(answer)
    bare_gold = gold[: gold_condition.start()] if gold_condition else gold
    bare_answer = answer[: answer_condition.start()] if answer_condition else answer
    if not bare_gold.strip() or not bare_answer.strip():
        return gold, answer
    if (
        gold_condition
        and answer_condition
        and _PLAIN.sub("", gold_condition[0]) != _PLAIN.sub("", answer_condition[0])
    ):
        return gold, answer
    if answer_condition and not gold_condition and _changes(bare_answer, answer_condition[0]):
        return gold, answer
    bound = _BOUND.fullmatch(gold_condition[0]) if gold_condition and not answer_condition else None
    if bound and bound[1] and bound[1] not in _INDICES:
        return gold, answer  # a part of a curve or of a domain
    for bare, condition in ((bare_gold, gold_condition), (bare_answer, answer_condition)):
        # whole numbers between two bounds are not what lies between them
        lies_between = _RELATION.search(bare) or (bare.strip()[0] in "([" and "," in bare)
        if condition and lies_between and not re.search(r"R|\\forall|text", condition[0]):
            return gold, answer
    return bare_gold, bare_answer


# Sets and lists.


def _without_prose(gold: str, answer: str) -> tuple[str, str]:
    return set_notation(gold) or gold, set_notation(answer) or answer


_BRACKETED = re.compile(r"\s*+(?:\\left\s?)?\[([^\[\]]+?)(?:\\right\s?)?\]\s*+")


def _without_brackets(gold: str, answer: str) -> tuple[str, str]:
    """`[3, 5]` as `3, 5` where the gold is a list in no brackets."""
    bracketed = _BRACKETED.fullmatch(answer)
    if bracketed is None or parts(gold) < 2 or is_list(gold):
        return gold, answer
    return gold, bracketed[1]


_NAMED_SET = re.compile(
    r"\A\s*+(?P<name>(?:[A-Za-z'\s_^{}|]|\\(?:cap|cup|complement|overline|setminus|text|mathrm|bar)"
    r"(?![A-Za-z])){1,60}?)\s*+(?:=|\\in(?![A-Za-z]))\s*+"
    r"(?P<set>(?:\\left\s*+)?(?:[(\[]|\\\{|\\mathbb|\\emptyset|\\varnothing).*)\Z",
    re.DOTALL,
)


def _without_names(gold: str, answer: str) -> tuple[str, str]:
    """`x \\in [0, 1)` and `A \\cup B = [0, 1)` as the set alone, unless the other one names another
    set or bounds another variable."""
    gold_set, answer_set = _NAMED_SET.match(gold), _NAMED_SET.match(answer)
    names = ["".join(named["name"].split()) for named in (gold_set, answer_set) if named]
    if not names or len(set(names)) > 1:
        return gold, answer
    other = answer if gold_set else gold
    if len(names) == 1 and _bounds_another(other, names[0]):
        return gold, answer
    return (gold_set["set"] if gold_set else gold), (answer_set["set"] if answer_set else answer)


def _bounds_another(text: str, name: str) -> bool:
    has_relation = re.search(_COMPARES, text) is not None
    return has_relation and len(name) == 1 and name not in _VARIABLE.findall(text)
