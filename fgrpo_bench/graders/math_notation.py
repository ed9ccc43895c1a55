"""Answers rewritten so that math-verify reads what their author meant; golds and answers alike.

In: a gold as it is published, or what stands in a box. Out: `normalise`, what `math` compares, and
`stored_gold`, what a dataset keeps. `normalise` takes off what stands around an answer (dollars,
brackets, a box, full stops) and rewrites notations that a reader takes for one another to one that
math-verify reads (`rewritten`): characters first, then commands that change only how something
looks, then RULES in their order. Many published golds are not LaTeX: `4.5e33` is read as 4.5 times
Euler's number times 33, `5.` and `-1./3` are not read at all.

Each rule has its rows in tests/cases/math.json or math-variants.json, and each takes time linear in
the length of the text.
"""
# ruff: noqa: RUF001 (signs that look like others are what is rewritten here)

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from unicodedata import decomposition

from fgrpo_bench.graders.math_reading import denies

LONGEST = 4_000
"""Characters of an answer that is rewritten; golds of benchmarks have some hundreds at most."""
ROUNDS = 20
"""Most rewritings of an answer, each of which takes time linear in its length."""

_NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)"
_E_NOTATION = re.compile(rf"(?<![\w.\\])({_NUMBER})[eE]([+-]?[0-9]{{1,4}})(?![\w.])")
_BARE_DOT = re.compile(r"(?<=[0-9])\.(?=\s*+(?:[/,;)}\]]|$))")
_KEPT_DOTS = ("..", "\\.", "\\right.")
_NUMPY = re.compile(r"\bnp\.(arc)?(sin|cos|tan|sqrt|exp|log)\b")
_WHOLE = re.compile(r"(-?[0-9]++)\.0++")
_WRAPPED = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))

UNREADABLE = {
    r"m_{\max }=n^{2}-n-1": "n^{2}-n-1",
    "t(0,4]": "(0,4]",
}
"""Golds that no rule makes readable, by their text without dollars: what they say."""


def normalise(answer: str) -> str:
    """An answer as it is judged and stored; idempotent. One of more than LONGEST characters stays
    as it is, and so does one that is wrapped more than ROUNDS times.

    >>> normalise("$4.5e33$"), normalise("-1./3"), normalise(r"\\boxed{7.}")
    ('4.5 \\\\times 10^{33}', '-1/3', '7')
    """
    return answer if len(answer) > LONGEST else _normalised(answer)


@lru_cache(maxsize=65_536)
def _normalised(answer: str) -> str:
    # one rule may make room for another, so all are applied until nothing changes
    current = answer
    for _ in range(ROUNDS):
        previous, current = current, _rewrite(current)
        if previous == current:
            return current
    return answer


def stored_gold(answer: str) -> str:
    """A gold as it is stored for grading: normalised, and a whole number without `.0`.

    >>> stored_gold("27.0"), stored_gold("$0.50$")
    ('27', '0.50')
    """
    gold = normalise(answer)
    integer = _WHOLE.fullmatch(gold)
    return integer[1] if integer else gold


def _rewrite(answer: str) -> str:
    """One round. The order matters: numbers in E notation come last, as a bare dot ends some."""
    answer = _unwrap(rewritten(answer))
    answer = UNREADABLE.get(answer, answer)
    answer = answer.replace("\\varnothing", "\\emptyset")
    answer = _NUMPY.sub(
        lambda call: f"\\{call[1] or ''}{'ln' if call[2] == 'log' else call[2]}", answer
    )
    answer = _BARE_DOT.sub("", answer)
    answer = _without_last_dots(answer)
    return _E_NOTATION.sub(lambda number: f"{number[1]} \\times 10^{{{int(number[2])}}}", answer)


def _without_last_dots(answer: str) -> str:
    """Without full stops at the end, also with spaces between; dots that stand together stay."""
    end = len(answer)
    while answer.endswith(".", 0, end) and not answer.endswith(_KEPT_DOTS, 0, end):
        end -= 1
        while end and answer[end - 1].isspace():
            end -= 1
    return answer[:end]


def _unwrap(answer: str) -> str:
    """Without one pair of dollars, math brackets, a box or braces around the whole."""
    for left, right in _WRAPPED:
        inner = answer[len(left) : -len(right)]
        has_content = len(answer) > len(left) + len(right)
        if has_content and answer.startswith(left) and answer.endswith(right) and left not in inner:
            return inner.strip() if not inner.endswith("\\") else answer
    for left in ("\\boxed{", "{"):
        if answer.startswith(left) and answer.endswith("}"):
            return _inside(answer, left)
    return answer


def _inside(answer: str, opening: str) -> str:
    """Without the brace at the end and what stands for its other, where the two belong together;
    braces around a list stay, which may be meant as a set."""
    inner = answer[len(opening) : -1]
    if opening == "{" and "," in inner:
        return answer
    depth = 0
    for brace in re.findall(r"\\.|[{}]", inner, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return answer
    return inner.strip() if depth == 0 and inner.strip() else answer


# Notations that readers take for one another.

_COMMANDS = (
    "times ×  cdot ·⋅  div ÷  pm ±  infty ∞  sqrt √  angle ∠  triangle △  ldots …  le ≤⩽  "
    "ge ≥⩾  ne ≠  approx ≈  sim ∼  equiv ≡  cup ∪  cap ∩  in ∈  emptyset ∅  setminus ∖  "
    "langle ⟨  rangle ⟩  pi π  alpha α  beta β  gamma γ  delta δ  epsilon ε  theta θ  "
    "lambda λ  mu μ  rho ρ  sigma σ  tau τ  phi φ  omega ω  Delta Δ  Sigma Σ  Omega Ω  "
)
"""Commands, and the characters that mean the same."""
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(ord("!"), ord("~") + 1)}


def _command_by_sign() -> Iterator[tuple[str, str]]:
    for row in filter(None, _COMMANDS.split("  ")):
        command, _, signs = row.partition(" ")
        for sign in signs:
            yield sign, f"\\{command} "


def _fraction(sign: str) -> str:
    """e.g. `\\frac{1}{2}` of ½: Unicode has it as a 1, a fraction slash and a 2."""
    _, up, _, down = decomposition(sign).split()
    return f"\\frac{{{chr(int(up, 16))}}}{{{chr(int(down, 16))}}}"


CHARACTERS = str.maketrans(
    dict(_command_by_sign())
    | _FULL_WIDTH
    | {sign: _fraction(sign) for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑"}
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
_STYLED = re.compile(
    r"(?:\\(?:(?:text|page)?color(?:box)?\s*+\{[^{}]*+\}|boldsymbol|bm|pmb|uline|underline)"
    r"|(?<![\w}])(?<![\w}]\s)\\(?:math(?:bf|it|sf|tt|rm)|text(?:bf|it|sf|tt|rm)?)"
    r"(?=\s*+\{(?:[-+0-9.,/=%\s]++\}|\s*+[a-z]\s*+=)))\s*+\{"
)
"""Commands whose last argument is shown: of letters in another font only where they are a number
or an equation, since a vector in bold is another thing than its letter, and not behind a number."""
_BRACE = re.compile(rf"({_STYLED.pattern})|\\.|[{{}}]", re.DOTALL)

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
    """Without commands of _STYLED and the braces of what they show."""
    if not _STYLED.search(text):
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
    tokens = named[1].split()
    names = named[2] or (tokens and (tokens[-1] in {"is", "are"} or tokens[-1].endswith(":")))
    return "" if names and not denies(named[1]) else named[0]


RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # \leq, \geqslant, \neq as ≤, ≥, ≠ are written above
    (re.compile(r"\\([lgn])eq(?:slant)?(?![A-Za-z])"), r"\\\1e"),
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
