"""Where in a response the answer stands: what the verifiers of all tasks share.

Only the end of a response is read, WINDOW characters of it, and of these what stands in the last
answer tags where there are any; an answer stands at the end. Every function reads its text a fixed
number of times, returns None where it finds nothing and never raises.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from fgrpo_bench.graders.math import after_thoughts, last_box
from fgrpo_bench.graders.synlogic.literals import LONGEST_LITERAL, parse_literal

WINDOW = 16_384
"""Characters of a response that are read, from its end: four times the longest answer."""
SHORT = 400
"""Characters of an answer that is a word, a number or a list of them."""
MOST_BRACKETS = 1_000
"""Brackets that are looked at; 50 dominoes have 302."""
MOST_READ = 8_000
"""Characters of literals that are read, the failures among them."""
_TRIES = 4

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
