"""Notations that a reader takes for one another, rewritten to one that math-verify reads.

Applied alike to golds and answers (`math_golds.normalise`): characters first, then commands that
change only how something looks, then RULES in their order. Each has its rows in
tests/cases/math-variants.json, and each takes time linear in the length of the text.
"""
# ruff: noqa: RUF001 (signs that look like others are what is rewritten here)

from __future__ import annotations

import re
from collections.abc import Callable
from unicodedata import decomposition

from fgrpo_bench.graders.judge_words import denies

_COMMANDS = (
    "times ×  cdot ·⋅  div ÷  pm ±  infty ∞  sqrt √  angle ∠  triangle △  ldots …  le ≤⩽  "
    "ge ≥⩾  ne ≠  approx ≈  sim ∼  equiv ≡  cup ∪  cap ∩  in ∈  emptyset ∅  setminus ∖  "
    "langle ⟨  rangle ⟩  pi π  alpha α  beta β  gamma γ  delta δ  epsilon ε  theta θ  "
    "lambda λ  mu μ  rho ρ  sigma σ  tau τ  phi φ  omega ω  Delta Δ  Sigma Σ  Omega Ω  "
)
"""Commands, and the characters that mean the same."""
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(ord("!"), ord("~") + 1)}
_FRACTIONS = {
    sign: "\\frac{{{}}}{{{}}}".format(*(chr(int(code, 16)) for code in (up, down)))
    for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑"
    for _, up, _, down in [decomposition(sign).split()]
}
CHARACTERS = str.maketrans(
    {
        sign: f"\\{command} "
        for command, _, signs in (row.partition(" ") for row in _COMMANDS.split("  ") if row)
        for sign in signs
    }
    | _FULL_WIDTH
    | _FRACTIONS
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")  # without width
    | dict.fromkeys("\xa0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys("−–－", "-")
    | {"°": "^\\circ ", "ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}"}
)
"""What stands for a character that has a command or another character of the same meaning."""
_SCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉", "0123456789+-n0123456789")
_RAISED, _LOWERED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]++"), re.compile("[₀₁₂₃₄₅₆₇₈₉]++")
_ROOT = re.compile(r"√\s*+([0-9]++(?:\.[0-9]++)?+|[A-Za-z])")

_LOOKS = re.compile(
    r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|[lL]arge|LARGE|[hH]uge"
    r"|(?:display|text|script)style|bfseries|[bB]igg?[lr]?)(?![A-Za-z])"
    r"|\\color\s*+\{[^{}]*+\}(?!\s*+\{)"
)
"""Commands without an argument that is shown."""
_LOOKS_OF = re.compile(
    r"(?:\\(?:(?:text|page)?color(?:box)?\s*+\{[^{}]*+\}|boldsymbol|bm|pmb|uline|underline)"
    r"|(?<![\w}])(?<![\w}]\s)\\(?:math(?:bf|it|sf|tt|rm)|text(?:bf|it|sf|tt|rm)?)"
    r"(?=\s*+\{(?:[-+0-9.,/=%\s]++\}|\s*+[a-z]\s*+=)))\s*+\{"
)
"""Commands whose last argument is shown: of letters in another font only where they are a number
or an equation, since a vector in bold is another thing than its letter, and not behind a number."""
_BRACE = re.compile(rf"({_LOOKS_OF.pattern})|\\.|[{{}}]", re.DOTALL)

_SPACE = r"(?:\s|~|\\[ ,;:!])"
_TEXT = r"\\(?:text(?:bf|it|rm)?|mathrm|mbox)"
_SIGN = r"[<>]|\\(?:leq?|geq?)(?![A-Za-z])"
_MIRRORED = str.maketrans(">g", "<l")
_DIGITS = 40
"""Most digits of a repeating decimal, on either side of where its period begins."""


def rewritten(text: str) -> str:
    """A gold or an answer with every notation rewritten once.

    >>> rewritten("3½"), rewritten(r"\\color{red}{x²}"), rewritten(r"\\Large 12\\,345")
    ('3\\\\frac{1}{2}', 'x^{2}', '12345')
    >>> rewritten(r"0.1\\overline{6}"), rewritten("]0, 1]"), rewritten(r"\\text{Area} = 12")
    ('\\\\frac{15}{90}', '(0, 1]', '12')
    """
    if not text.isascii():
        text = _RAISED.sub(lambda run: f"^{{{run[0].translate(_SCRIPTS)}}}", text)
        text = _LOWERED.sub(lambda run: f"_{{{run[0].translate(_SCRIPTS)}}}", text)
        text = _ROOT.sub(r"\\sqrt{\1}", text).translate(CHARACTERS)
    if "\\" in text:
        text = _shown(_LOOKS.sub(" ", text))
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


def _shown(text: str) -> str:
    """Without commands of _LOOKS_OF and the braces of what they show."""
    if not _LOOKS_OF.search(text):
        return text
    kept, opened, end = list[str](), list[bool](), 0
    for token in _BRACE.finditer(text):
        kept.append(text[end : token.start()])
        end = token.end()
        is_look = token[1] is not None
        if is_look or token[0] == "{":
            opened.append(is_look)
        elif token[0] == "}" and opened:
            is_look = opened.pop()
        if not is_look:
            kept.append(token[0])
    return text if any(opened) else "".join([*kept, text[end:]])


def _joined(number: re.Match[str]) -> str:
    return re.sub(r"[^0-9]", "", number[0])


def _repeating(decimal: re.Match[str]) -> str:
    """A fraction: all digits less those before the period, over as many nines as the period has
    digits with as many zeros behind as there are decimals before it."""
    whole = "0" + decimal["whole"]
    if decimal["dotted"]:
        before, period = decimal["first"], decimal["dotted"] + (decimal["rest"] or "")
        period += decimal["last"] or ""
    else:
        before, period = decimal["before"], decimal["bar"] or decimal["digit"] or decimal["times"]
    upper = int(whole + before + period) - int(whole + before)
    return f"\\frac{{{upper}}}{{{'9' * len(period)}{'0' * len(before)}}}"


def _mixed(number: re.Match[str]) -> str:
    proper = int(number[2]) < int(number[3])
    return f"{number[1]}\\frac{{{number[2]}}}{{{number[3]}}}" if proper else number[0]


def _between(bounds: re.Match[str]) -> str:
    """Two bounds of a variable from either side as one chain."""
    name, sign, bound, other_sign, other = bounds.groups()
    if (sign[0] == ">" or "g" in sign) == (other_sign[0] == ">" or "g" in other_sign):
        return bounds[0]
    if "<" in sign or "l" in sign:
        sign, bound, other_sign, other = other_sign, other, sign, bound
    return f"{bound} {sign.translate(_MIRRORED)} {name} {other_sign} {other}"


def _turned(interval: re.Match[str]) -> str:
    left = "(" if interval[1] == "]" else "["
    right = ")" if interval[3] == "[" else "]"
    return f"{left}{interval[2]}{right}"


def _unnamed(named: re.Match[str]) -> str:
    words = named[1].split()
    names = named[2] or (words and (words[-1] in {"is", "are"} or words[-1].endswith(":")))
    return "" if names and not denies(named[1]) else named[0]


RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # {:} as in 6{:}30; 2 to 3; 5 percent
    (re.compile(r"\{:\}"), ":"),
    (re.compile(rf"(?<=[0-9])\s*+(?:{_TEXT}\s*+\{{\s*+to\s*+\}}|to)\s*+(?=[0-9])"), ":"),
    (re.compile(rf"{_TEXT}\s*+\{{\s*+(?:per ?cent|\\?%)\s*+\}}|(?<=[0-9}}]) ?per ?cent\b"), r"\\%"),
    # 12\,345 and 1 234 567; all spaces of a number are alike
    (
        re.compile(
            r"(?<![0-9.,])(?<![0-9][ ,~])[0-9]{1,3}(\\[,;:! ]|~| )[0-9]{3}(?:\1[0-9]{3})*+"
            r"(?![0-9]|\s*+/)"
        ),
        _joined,
    ),
    # 0.1\overline{6}, 0.\dot{1}2\dot{3}, 0.333\ldots
    (
        re.compile(
            rf"(?<![\w.])(?P<whole>[0-9]{{0,{_DIGITS}}})\.(?:"
            rf"(?P<before>[0-9]{{0,{_DIGITS}}}?)(?:"
            rf"\\(?:overline|bar)\s*+(?:\{{(?P<bar>[0-9]{{1,{_DIGITS}}})\}}|(?P<digit>[0-9]))"
            r"|(?P<times>[0-9]{1,6}?)(?P=times){2,20}(?:\\[lc]?dots(?![A-Za-z])|\.\.\.))"
            rf"|(?P<first>[0-9]{{0,{_DIGITS}}}+)\\dot\s*+\{{(?P<dotted>[0-9])\}}"
            rf"(?:(?P<rest>[0-9]{{0,{_DIGITS}}}+)\\dot\s*+\{{(?P<last>[0-9])\}})?+)(?![0-9])"
        ),
        _repeating,
    ),
    # 3 1/2
    (
        re.compile(
            rf"(?<![\w.}}/])([0-9]{{1,9}}){_SPACE}++([0-9]{{1,9}})/([0-9]{{1,9}})(?![\w.,/])"
        ),
        _mixed,
    ),
    # \mathrm{i}, \log_e
    (re.compile(rf"(?:{_TEXT}|\\rm)\s*+\{{\s*+([ie])\s*+\}}"), r"\1"),
    (re.compile(r"\\imath(?![A-Za-z])"), "i"),
    (re.compile(r"\\log\s*+_\s*+(?:e|\{\s*+e\s*+\})(?![A-Za-z])"), r"\\ln"),
    # \sin 45^\circ
    (
        re.compile(
            r"\\(sin|cos|tan|cot|sec|csc)(\s*+\^\s*+(?:[0-9]|\{[0-9]\}))?+\s*+"
            r"(\(|\{|\\left\()?+\s*+([0-9]{1,9}(?:\.[0-9]{1,9})?+)\s*+"
            r"(?:\^\s*+(?:\\circ|\{\s*+\\circ\s*+\})|\\degree)\s*+(?(3)(?:\\right\)|[)}]))"
        ),
        r"\\\1\2(\\frac{\4\\pi}{180})",
    ),
    # \max = 25, \text{Area} = 25, \text{The answer is } 25, 25 = x
    (re.compile(r"^\s*+\\(?:max|min)(?![A-Za-z])[^=<>,;]*+=(?=[^=<>,;]++$)"), ""),
    (re.compile(rf"^\s*+{_TEXT}\s*+\{{([^{{}}]*+)\}}\s*+(=(?=[^=,;]++$)|(?=\S))"), _unnamed),
    (re.compile(r"^\s*+(?:[Tt]he )?(?:final )?[Aa]nswer is:?(?=\s)"), ""),
    (
        re.compile(
            r"^(?!\s*+[A-Za-z]\w*+\()(?=[^=]*[0-9])((?:[^\\=<>!,;_]|\\[A-Za-z]++)++)="
            r"\s*+([A-Za-z](?:_\w)?+)\s*+$"
        ),
        r"\2 = \1",
    ),
    # x > 1 and x < 3
    (
        re.compile(
            rf"^\s*+([a-z])\s*+({_SIGN})([^<>,;=]*?)"
            rf"(?:{_TEXT}\s*+\{{\s*+and\s*+\}}|\\(?:land|wedge)|(?<![A-Za-z])and)(?![A-Za-z])"
            rf"\s*+\1\s*+({_SIGN})([^<>,;=]*+)$"
        ),
        _between,
    ),
    # ]1, 3] and [1, 3[
    (
        re.compile(
            r"(?<![\w)\]}])(?:\\left\s*+)?([\[\]])([^][(){},;]++,[^][(){},;]+?)"
            r"(?:\\right\s*+)?([\[\]])(?![\w(])"
        ),
        _turned,
    ),
    # \{x \mid 1 < x \le 3\}
    (
        re.compile(
            r"^(?:\\left\s*+)?\\\{\s*+([a-z])\s*+(?:\\in\s*+\\(?:mathbb\s*+\{?R\}?|R(?:eals)?)\s*+)?"
            r"(?:\\(?:mid|vert)(?![A-Za-z])|:|\|)"
            r"(?=[^{}]*(?:[<>]|\\(?:leq?|geq?|neq?|in)(?![A-Za-z])))([^{}]*?)(?:\\right\s*+)?\\\}$"
        ),
        r"\2",
    ),
]
"""What is rewritten to what."""
