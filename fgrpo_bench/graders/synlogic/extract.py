"""What the verifiers of all tasks read of a response: where its answer stands, and literals.

In: a response, or a part of one. Out: texts, lists, tuples, dictionaries, numbers and tokens of
arithmetic, or None where there is none; nothing here raises. `game` checks what the game's data
says and gives the verdict; `answers` and `grids` have the tasks.

Only the end of a response is read, WINDOW characters of it, and of these what stands in the last
answer tags where there are any; an answer stands at the end. Every function reads its text a fixed
number of times. Literals have parsers of our own in place of Python's, which would execute, nest or
multiply without bound: length, depth and magnitude are bounded, and what is beyond a bound is no
literal and no value.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fgrpo_bench.graders.math import after_thoughts, last_box

WINDOW = 16_384
"""Characters of a response that are read, from its end: four times the longest answer."""
SHORT = 400
"""Characters of an answer that is a word, a number or a list of them."""
MOST_BRACKETS = 1_000
"""Brackets that are looked at; 50 dominoes have 302."""
MOST_READ = 8_000
"""Characters of literals that are read, the failures among them."""
_TRIES = 4
"""Openings that are tried, from the end of the text."""

_CLOSERS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[()\[\]{}]")
_STYLE = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|textit|texttt)(?![A-Za-z])")
_PHRASE = re.compile(
    "(?i:answer[ ]is|answer[ ]?:|solution[ ]is)[ :=\uff1a]*+"
    "|(?:\u7b54\u6848\u662f|\u7b54\u6848\u4e3a|\u7b54\u6848)[ :\uff1a]*+"
)
"""`answer is`, `answer:`, `solution is`; in Chinese `the answer is`, `the answer`."""
_DECORATION = " \t\r\n*$`\"'\u201c\u201d\u2018\u2019.\u3002"


def final_text(response: str) -> str:
    """What is judged of a response: after the thoughts, its end, the last answer tags within it."""
    text = after_thoughts(response)[-WINDOW:]
    inside, closed, _ = text.rpartition("</answer>")
    if closed:
        _, opened, content = inside.rpartition("<answer>")
        if opened and content.strip():
            return content.strip()
    return text.strip()


def boxed(text: str) -> str | None:
    """Content of the last balanced box, without the commands that style it."""
    box = last_box(text)
    return None if box is None else unstyled(box)


def unstyled(text: str) -> str:
    r"""Without `\text` and its like, braces, dollar signs and escaped spaces.

    >>> unstyled(r"\text{ice\ cream}, $\textbf{hammer}$")
    'ice cream, hammer'
    """
    plain = _STYLE.sub("", text)
    for markup, instead in (("\\,", ""), ("\\ ", " "), ("{", ""), ("}", ""), ("$", ""), ("~", " ")):
        plain = plain.replace(markup, instead)
    return " ".join(plain.split())


def block(text: str, language: str = "python") -> str | None:
    """Content of the last closed fenced block of a language."""
    opening = f"```{language}"
    end = len(text)
    for _ in range(_TRIES):
        end = text.rfind(opening, 0, end)
        if end < 0:
            return None
        begin = end + len(opening)
        close = text.find("```", begin)
        if close >= 0:
            return text[begin:close].strip()
    return None


def spans(text: str) -> list[tuple[int, int]]:
    """Balanced bracketed stretches in the order in which they close, so that the one around others
    comes after them; brackets that do not match are text. Of the last MOST_BRACKETS brackets.

    >>> [text[i:j] for text in ["f(x) = [1, (2, 3)] :)"] for i, j in spans(text)]
    ['(x)', '(2, 3)', '[1, (2, 3)]']
    """
    stretches: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []
    waiting = dict.fromkeys("([{", 0)
    for match in deque(_BRACKET.finditer(text), maxlen=MOST_BRACKETS):
        bracket, start = match[0], match.start()
        if bracket in waiting:
            opened.append((bracket, start))
            waiting[bracket] += 1
        elif waiting[_CLOSERS[bracket]]:
            opener = ""
            while opener != _CLOSERS[bracket]:
                opener, start = opened.pop()
                waiting[opener] -= 1
            stretches.append((start, match.end()))
    return stretches


def literal(text: str, accept: Callable[[Any], bool], *, in_block: str | None = None) -> Any:
    """The last bracketed list, tuple or dictionary that is accepted; None without one.

    in_block: the language of a fenced block for which the prompt asks; a literal in the last such
    block comes before any elsewhere.

    What stands around others is tried first; what is read but not accepted is not taken apart. At
    most MOST_READ characters are read.

    >>> literal("Not [[1]], but \\\\boxed{[[2]]} (see [3]).", lambda value: value[0] != 3)
    [[2]]
    """
    inside = block(text, in_block) if in_block else None
    left = MOST_READ
    for part in (text,) if inside is None else (inside, text):
        before = len(part)
        for start, end in reversed(spans(part)):
            if end > before or end - start > min(left, LONGEST_LITERAL):
                continue
            left -= end - start
            value = parse_literal(part[start:end])
            if value is None:
                continue
            if accept(value):
                return value
            before = start
    return None


def double_bracketed(text: str) -> str | None:
    """What stands between the last `[[` and the `]]` after it, as it is written; None without."""
    close = text.rfind("]]")
    if close < 0:
        return None
    start = text.rfind("[[", max(0, close - LONGEST_LITERAL), close)
    return None if start < 0 else text[start + 2 : close].strip()


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last of all matches from the start on."""
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None


def after_phrase(text: str) -> str | None:
    """The rest of the line after the last `answer is`, `answer:` or their Chinese; None without."""
    last = last_match(_PHRASE, text)
    if last is None:
        return None
    line = text[last.end() : last.end() + SHORT].lstrip().partition("\n")[0]
    return line.strip() or None


def short_answer(text: str) -> str:
    """The answer where it is a word, a number or a list of them: the last box, else the whole text
    where it is one line, else what follows the last phrase, else the last line; undecorated.

    >>> short_answer("First this.\\nThe answer is **7**."), short_answer("Steps.\\n**12**")
    ('7', '12')
    """
    answer = boxed(text)
    if answer is None and "\n" in text:
        answer = after_phrase(text) or last_line(text)
    elif answer is None:
        answer = after_phrase(text[-SHORT:]) or text
    return undecorated(answer)


def last_line(text: str) -> str:
    """The last line that holds more than decoration, such as the end of a fence; or nothing."""
    for line in reversed(text[-SHORT:].splitlines()):
        if undecorated(line):
            return line
    return ""


def undecorated(text: str) -> str:
    """Without the quotes, stars, dollar signs, backticks and full stops around it."""
    return text.strip(_DECORATION)


# Literals, numbers and arithmetic.

LONGEST_LITERAL = 6_000
"""Characters of a literal; a grid of 20 x 20 quoted cells with a line each has fewer."""
DEEPEST = 6
"""Nested brackets of an expression."""
LONGEST_EXPRESSION = 200
"""Characters."""
LARGEST = 10**15
"""Magnitude of numerator and denominator of every value on the way."""

_TOKEN = re.compile(
    r"\s*+(?:#[^\n]*+\s*+)*+"
    r"(?:(?P<open>[\[({])|(?P<close>[\])}])|(?P<comma>[,\uff0c])|(?P<colon>:)"
    r"|'(?P<single>[^'\\\n]{0,200})'|\"(?P<double>[^\"\\\n]{0,200})\""
    r"|(?P<number>-?(?:0|[1-9][0-9]{0,14})(?![\w.])))"
)
_PAIRS = {"[": "]", "(": ")", "{": "}"}
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212]?)[ ]?(?:"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3}){1,6}|[0-9]{1,30})(?P<decimals>\.[0-9]{0,30})?"
    r"(?:[eE](?P<exponent>[-+]?[0-9]{1,2}))?(?:[ ]?/[ ]?(?P<below>[0-9]{1,30}))?"
    r"|\\[dt]?frac\{?(?P<top>-?[0-9]{1,30})\}?[ ]?\{?(?P<bottom>[0-9]{1,30})\}?)\.?"
)
_ARITHMETIC = re.compile(r"[0-9]{1,15}|\*\*|//|[-+*/%()]|(?P<other>[^ ])")


def parse_literal(text: str) -> Any:
    """A list, tuple or dictionary of strings, integers and such; None where it is none.

    Fewer than Python's literals: no names, no floats, no escapes in strings, keys are strings.
    A full-width comma and comments are read too.

    >>> parse_literal("[(1, 'a'), -2,]"), parse_literal("[1] * 10**9"), parse_literal("{'A': [1]}")
    ([(1, 'a'), -2], None, {'A': [1]})
    """
    if len(text) > LONGEST_LITERAL:
        return None
    stack: list[tuple[str, list[Any]]] = []
    due = True  # whether a value may come next
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at, kind = token.end(), token.lastgroup
        if kind == "open":
            if not due or len(stack) == DEEPEST:
                return None
            stack.append((token[kind], []))
            continue
        if not stack:
            return None
        bracket, items = stack[-1]
        if kind == "close":
            if token[kind] != _PAIRS[bracket]:
                return None
            stack.pop()
            value = _closed(bracket, items, commas=due and bool(items))
            if value is None:
                return None
            if not stack:
                return value if at >= end else None
            stack[-1][1].append(value)
            due = False
        elif kind == "comma":
            if due or (bracket == "{" and len(items) % 2):
                return None
            due = True
        elif kind == "colon":
            if bracket != "{" or due or len(items) % 2 == 0:
                return None
            due = True
        else:
            if not due or kind is None:
                return None
            items.append(int(token[kind]) if kind == "number" else token[kind])
            due = False
    return None


def _closed(bracket: str, items: list[Any], *, commas: bool) -> Any:
    """The value of a bracket and its items; commas: whether a comma ended them."""
    if bracket == "[":
        return items
    if bracket == "(":
        return items[0] if len(items) == 1 and not commas else tuple(items)
    keys, values = items[::2], items[1::2]
    if len(keys) != len(values) or not all(isinstance(key, str) for key in keys):
        return None
    return dict(zip(keys, values, strict=True))


def read_number(text: str) -> Fraction | None:
    r"""An integer, decimal or fraction, exactly; None where the text is none.

    >>> [read_number(text) for text in ("-1,425", "0.5", r"\frac{11}{18}", "3 apples")]
    [Fraction(-1425, 1), Fraction(1, 2), Fraction(11, 18), None]
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    if match["top"] is not None:
        top, bottom = int(match["top"]), int(match["bottom"])
    else:
        decimals = (match["decimals"] or ".")[1:]
        top = int(match["whole"].replace(",", "") + decimals)
        bottom = 10 ** len(decimals) * int(match["below"] or 1)
        exponent = int(match["exponent"] or 0)
        top, bottom = top * 10 ** max(exponent, 0), bottom * 10 ** max(-exponent, 0)
    if bottom == 0:
        return None
    return Fraction(-top if match["sign"] in ("-", "\u2212") else top, bottom)


def arithmetic_tokens(expression: str) -> list[str] | None:
    """Numbers, operators and parentheses of an expression; None where it is too long or has else.

    >>> arithmetic_tokens("(5-1) * 6")
    ['(', '5', '-', '1', ')', '*', '6']
    """
    if len(expression) > LONGEST_EXPRESSION:
        return None
    tokens = []
    for match in _ARITHMETIC.finditer(" ".join(expression.split())):
        if match["other"]:
            return None
        tokens.append(match[0])
    return tokens


def arithmetic(tokens: list[str]) -> Fraction | None:
    """Exact value with Python's precedence of + - * / %; None where it is malformed, divides by
    zero or leaves the bounds. `**` and `//` are malformed.

    >>> arithmetic(["7", "%", "4", "*", "(", "5", "-", "1", ")"])
    Fraction(12, 1)
    """
    if len(tokens) > LONGEST_EXPRESSION:
        return None
    values: list[Fraction] = []
    pending: list[str] = []
    due = True  # whether a number, a sign or an opening parenthesis comes next
    for token in tokens:
        if token == "(":
            if not due:
                return None
            pending.append(token)
        elif token == ")":
            if due or not _apply(values, pending, lowest=0) or not pending:
                return None
            pending.pop()
        elif token[0].isdigit():
            if not due:
                return None
            values.append(Fraction(int(token)))
            due = False
        elif due:
            if token not in "+-":
                return None
            pending.append("negative" if token == "-" else "positive")
        else:
            if token not in _RANK or not _apply(values, pending, lowest=_RANK[token]):
                return None
            pending.append(token)
            due = True
    if due or not _apply(values, pending, lowest=0) or pending:
        return None
    return values[0]


_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "negative": 3, "positive": 3}


def _apply(values: list[Fraction], pending: list[str], *, lowest: int) -> bool:
    """Apply pending operators down to a rank or an opening parenthesis; False where one cannot."""
    while pending and pending[-1] != "(" and _RANK[pending[-1]] >= lowest:
        operator, right = pending.pop(), values.pop()
        if operator in ("negative", "positive"):
            values.append(-right if operator == "negative" else right)
            continue
        left = values.pop()
        if operator in "/%" and right == 0:
            return False
        values.append(_operated(left, operator, right))
        if max(abs(values[-1].numerator), values[-1].denominator) > LARGEST:
            return False
    return True


def _operated(left: Fraction, operator: str, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if operator == "/" else left % right
