"""Answers rewritten so that math-verify reads what their author meant; golds and answers alike.

What readers take for one another is a rule of `math_notation`. Many published golds are not LaTeX:
`4.5e33` is read as 4.5 times Euler's number times 33, `5.` and `-1./3` are not read at all. Each
rule has its rows in tests/cases/math.json.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fgrpo_bench.graders.math_notation import rewritten

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
    rewritten = answer
    for _ in range(ROUNDS):
        previous, rewritten = rewritten, _rewrite(rewritten)
        if previous == rewritten:
            return rewritten
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


def _inside(answer: str, left: str) -> str:
    """Without the brace at the end and what stands for its other, where the two belong together;
    braces around a list stay, which may be meant as a set."""
    inner = answer[len(left) : -1]
    if left == "{" and "," in inner:
        return answer
    depth = 0
    for brace in re.findall(r"\\.|[{}]", inner, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return answer
    return inner.strip() if depth == 0 and inner.strip() else answer
