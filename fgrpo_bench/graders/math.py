"""Mathematics: is the final answer of a response equal to the gold answer?

In: a problem whose target is the gold, and a response. Out: a grade. The final answer stands, in
what is said (`spoken`), in the last balanced, non-empty `\\boxed{...}`, for a gold of several
parts with those that are joined to it (`math_reading.parts`); else in the last `<answer>`; else
behind the last "answer is" (`math_answer`); else it is whatever math-verify finds by its place,
which the strict grader does not take. Gold and answer are normalised alike (`math_notation`).
Whether they are equal is math-verify's to say, with its mistakes mended (`judge_worker`), in a
process that can be killed (`judge`): a judgement that runs out of time or memory is unscored, never
wrong.

Where verdicts differ from plain math-verify's on purpose, tests/cases/math*.json say so, with the
reason; what stays as math-verify has it stands in docs/reference/grading.md and is counted by
`leniencies`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from fgrpo_bench.core.problems import BY_PLACE, Grade, Problem
from fgrpo_bench.graders.judge import Judge, default_judge
from fgrpo_bench.graders.judge_worker import TO_SIX_DECIMALS
from fgrpo_bench.graders.math_answer import sentence, stated, tagged
from fgrpo_bench.graders.math_notation import normalise
from fgrpo_bench.graders.math_reading import is_list, is_several_lists, joins, parts

LONGEST_ALONE = 60
"""Characters of a text that is nothing but an answer."""
LONGEST = 500
"""Characters of an answer that a grade keeps."""

_BOX = re.compile(r"\\{1,4}+(?:boxed|fbox)\s*+\{|\\.|[{}]", re.DOTALL)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_NEAR = 4
"""Boxes tried one by one from the end before the whole text is scanned once: nearly every response
is done with the first, and a text full of unclosed boxes must not take quadratic time."""


def grade(problem: Problem, response: str) -> Grade:
    """Judge a response by the judge of this process; see the top of the module.

    problem.target: the gold answer, e.g. "\\frac{1}{2}". Blocks until it is judged: call it in a
    thread from asyncio. Raises RuntimeError where math-verify is missing or of another version.
    """
    return grade_with(default_judge(), problem, response)


def grade_strict(problem: Problem, response: str) -> Grade:
    """As `grade`, but an answer counts only where a box, a tag or an answer sentence states it."""
    return grade_with(default_judge(), problem, response, strict=True)


def grade_with(judge: Judge, problem: Problem, response: str, *, strict: bool = False) -> Grade:
    """As `grade` or `grade_strict`, by a given judge."""
    text = spoken(response)
    gold = normalise(problem.target)
    final = stated_answer(text, gold)
    if not gold:
        answer = None if final is None else final.answer
        return _kept(Grade(outcome="unscored", extracted=answer, reason="the gold answer is empty"))
    if final is None and strict:
        return _UNSTATED
    alone = _alone(text, gold) if final is None else None
    verdict = None if alone is None else _compared(judge, gold, alone)
    if verdict is None or verdict.outcome != "correct":
        verdict = _compared(judge, gold, final or Stated(text, BY_PLACE, "text"))
    if verdict.outcome == "correct" and _repeats(problem.prompt, gold, verdict.extracted or ""):
        return replace(verdict, outcome="incorrect", reason=REPEATED)
    return verdict


def _compared(judge: Judge, gold: str, final: Stated) -> Grade:
    """The grade of an answer that was found."""
    if final.form == "text":
        return _kept(judge.verdict(gold, final.answer, boxed=False), final.where)
    answer = normalise(final.answer)
    verdict = shortcut(gold, answer)
    if verdict is None and final.form == "whole":
        verdict = Grade(outcome="incorrect", extracted=answer, reason=MORE)
    return _kept(verdict or judge.verdict(gold, answer), final.where)


REPEATED = "a calculation of the problem, repeated and not worked out"
_NUMBER = re.compile(
    r"[+-]?(?:[0-9][0-9,]*+(?:\.[0-9]*+)?|\.[0-9]++)?"
    r"(?:/[0-9]++|\\[dt]?frac\{[0-9]++\}\{[0-9]++\})?(?:\*10\^\{?-?[0-9]++\}?)?"
    r"(?:\\?%|\^\{?\\circ\}?)?"
)
"""What is worked out, `_squeezed`: a number, a fraction of integers, percent, degrees."""
_CALCULATION = re.compile(
    r"[+*]|(?<=[0-9)}])(?:[-/](?=[0-9(\\])|\^(?!\{?\\circ)|!)"
    r"|\\(?:sqrt|binom|lfloor|lceil|log)(?![A-Za-z])"
)
"""What is left to do in what is not; a slash or a power of a unit (m/s, cm^2) is nothing to do."""
_CALCULATIONS = re.compile(r"[0-9(][-0-9.+*/^!()]++")
_TERM = re.compile(r"[0-9.]++|[-+*/^!()]")
"""Of a calculation: a number or a sign."""


def _repeats(prompt: str, gold: str, answer: str) -> bool:
    """Whether an answer that is to be a number is a calculation as the problem has it, in any
    order: of `52 + 56` math-verify says that it is 108, and a policy would learn to repeat its
    prompt."""
    sides = [_squeezed(side) for side in answer.split("=") if side.strip(" ?")]
    if not sides or not _NUMBER.fullmatch(_squeezed(gold)):
        return False
    if _NUMBER.fullmatch(sides[-1]) or not _CALCULATION.search(sides[-1]):
        return False
    question = _squeezed(prompt)
    calculations = [sorted(_TERM.findall(text)) for text in _CALCULATIONS.findall(question)]
    return all(side in question or sorted(_TERM.findall(side)) in calculations for side in sides)


def _squeezed(text: str) -> str:
    """Without spaces and dollars, and with one sign for times and one for a division."""
    text = re.sub(r"\\times(?![A-Za-z])|\\cdot(?![A-Za-z])|[\u00d7\u00b7\u2217\u22c5]", "*", text)
    text = re.sub(r"\s++|\$|\\[,;!]", "", re.sub(r"\\div(?![A-Za-z])|\u00f7", "/", text))
    text = text.rstrip(".")
    return text[1:-1] if re.fullmatch(r"\([^()]*+\)", text) else text


def shortcut(gold: str, answer: str) -> Grade | None:
    """The verdict on normalised answers where it needs no judge, else None.

    Integers of up to 15 digits are equal or not, and equal strings are equal; the judge says the
    same of both, unless it cannot read the gold.
    """
    if gold == answer:
        return Grade(outcome="correct", extracted=answer, reason="the gold answer to the letter")
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):
        same = int(gold) == int(answer)
        return Grade(
            outcome="correct" if same else "incorrect",
            extracted=answer,
            reason="equal as integers" if same else "not equal as integers",
        )
    return None


def after_thoughts(response: str) -> str:
    """What follows the last `</think>`; the whole response where there is none."""
    return response.rpartition("</think>")[2]


def spoken(response: str) -> str:
    """What a response says: no thought, of one that never ends what is before it, and nothing of a
    next question that a model without an end of its own goes on with, where no box answers.

    >>> spoken("<think>7?</think>It is 8. <think>Or 9"), spoken("The answer is 8.\\nQ: And 9?")
    ('It is 8. ', 'The answer is 8.\\n')
    """
    text = after_thoughts(response).partition("<think>")[0]
    answer = _ANSWERED.search(text)
    # one that asks itself on the way to its answer has asked before
    if answer is None or _NEXT_QUESTION.search(text, 0, answer.start()):
        return text
    following = _NEXT_QUESTION.search(text, answer.end())
    # of boxes the last counts, as everywhere, also that of a next question
    if following is None or last_box(text[: following.start()]) is not None:
        return text
    return text[: following.start()]


_ANSWERED = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])|</answer>|^####[ \t]|\b[Aa]nswer(?: is\b|:|\*{2}:|:\*{2})"
    r"|\A\s*+\$?-?[0-9][0-9.,/]*+\$?[ \t]*+$",
    re.MULTILINE,
)
_NEXT_QUESTION = re.compile(
    r"^[ \t]*+(?:[#>*_]++[ \t]*+)?(?:Q|Question|Problem|Exercise|Human|User|Instruction)\*{0,2}:"
    r"|<\|(?:im_start|start_header_id)\|>\s*+user\b|<start_of_turn>\s*+user\b|\[INST\]",
    re.MULTILINE,
)
"""How the turn of another begins, or a further problem in the form of the prompt."""


IN_TAG, IN_SENTENCE = ", in a tag", ", as the answer"
"""How the reason of a grade ends whose answer stands in no box."""


class Stated(NamedTuple):
    """An answer that a response states."""

    answer: str
    where: str
    """IN_TAG or IN_SENTENCE; empty for a box."""
    form: Literal["expression", "whole", "text"] = "expression"
    """Whether it is compared as an expression, or to the letter, or has yet to be found in what
    is stated."""


MORE = "words make another value of its numbers"
_UNSTATED = Grade(
    outcome="incorrect", extracted=None, reason="no box, no tag and no answer sentence"
)


def stated_answer(text: str, gold: str) -> Stated | None:
    """The answer in the boxes of a text, else in its last tag, else in its last answer sentence;
    None where there is none of them. Linear in the length of the text.

    gold: normalised.
    """
    if (box := final_answer(text, gold)) is not None:
        return Stated(box, where="")
    if (tag := tagged(text)) is not None:
        statement = sentence(tag, gold) or stated(tag, gold)
        if statement is None or re.search(r"\d", statement.rest):  # more than a statement
            return Stated(tag, IN_TAG, "text")
        return Stated(statement.answer, IN_TAG, "whole" if statement.whole else "expression")
    if (statement := sentence(text, gold)) is not None:
        return Stated(statement.answer, IN_SENTENCE, "whole" if statement.whole else "expression")
    return None


def _alone(text: str, gold: str) -> Stated | None:
    """An answer that is all of a text; None where there is more."""
    text = text.strip()
    if len(text) > LONGEST_ALONE or "\n" in text:
        return None
    statement = stated(text, gold)
    if statement is None or statement.whole or statement.rest.strip(" .!$*"):
        return None
    return Stated(statement.answer, BY_PLACE)


def final_answer(text: str, gold: str) -> str | None:
    """The answer in the boxes of a text; None without a box. Linear in the length of the text.

    gold: normalised; only where it has several parts may several boxes be one answer.

    >>> final_answer(r"They are \\boxed{1}, \\boxed{2} and $\\boxed{3}$.", "1, 2, 3")
    '1, 2, 3'
    >>> final_answer(r"They are \\boxed{1}, \\boxed{2} and $\\boxed{3}$.", "3")
    '3'
    """
    last = last_box(text)
    n_parts = parts(gold)
    if last is None or n_parts == 1 or (parts(last) >= n_parts and not is_several_lists(gold)):
        return last
    if is_several_lists(gold) and not is_list(last):
        return last
    joined = _joined_boxes(text, loosely=False)
    if len(joined) < (2 if is_several_lists(gold) else n_parts):
        joined = _joined_boxes(text, loosely=True)
    repeated = len(set(joined)) == 1 and len(joined) != n_parts
    return last if repeated else ", ".join(joined)


def _joined_boxes(text: str, *, loosely: bool) -> list[str]:
    """Contents of the last box and of those before it that are joined to it, in their order."""
    together: list[str] = []
    following = len(text)
    for start, begin, end in sorted(boxes(text), reverse=True):
        content = text[begin:end].strip()
        if not content:
            continue
        if together and not (end < following and joins(text[end + 1 : following], loosely=loosely)):
            break
        together.append(content)
        following = start
    return together[::-1]


def last_box(text: str) -> str | None:
    """Content of the last balanced, non-empty \\boxed{...} or \\fbox{...}; None without one.

    Escaped braces are text. Of nested boxes the innermost counts. Linear in the length of the text.

    >>> last_box(r"so \\boxed{3}; no, \\boxed{\\frac{1}{2}}, that is \\boxed{}")
    '\\\\frac{1}{2}'
    """
    end = len(text)
    for _ in range(_NEAR):
        end = max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))
        if end < 0:
            return None
        content = _balanced(text, end)
        if content:
            return content
    return scan_boxes(text)


def _balanced(text: str, start: int) -> str:
    """Content of the box at `start`; empty where it is unclosed or none."""
    depth, begin = 0, 0
    for token in _BOX.finditer(text, start):
        if depth == 0 and (token.start() != start or not token[0].endswith("{")):
            return ""
        if token[0] == "}":
            depth -= 1
            if depth == 0:
                return text[begin : token.start()].strip()
        elif token[0] == "{" or (token[0].endswith("{") and len(token[0]) > 2):
            begin = begin or token.end()
            depth += 1
    return ""


def scan_boxes(text: str) -> str | None:
    """`last_box` in one pass over the text, for texts full of unclosed boxes."""
    last, content = -1, None
    for start, begin, end in boxes(text):
        if start > last and (stripped := text[begin:end].strip()):
            last, content = start, stripped
    return content


def boxes(text: str) -> Iterator[tuple[int, int, int]]:
    """(start of the box, start and end of its content) of every balanced box, as they close."""
    opened: list[tuple[int, int]] = []  # (start of a box or -1, start of its content)
    for token in _BOX.finditer(text):
        if token[0] == "{":
            opened.append((-1, 0))
        elif token[0] == "}":
            start, begin = opened.pop() if opened else (-1, 0)
            if start >= 0:
                yield start, begin, token.start()
        elif token[0].endswith("{") and len(token[0]) > 2:
            opened.append((token.start(), token.end()))


def _kept(verdict: Grade, where: str = "") -> Grade:
    """With the answer as a grade keeps it: text that a file can hold, and not too much of it.

    where: how a reason ends that says of an answer whether it is the gold.
    """
    if verdict.extracted is None:
        return verdict
    reason = verdict.reason + ("" if verdict.outcome == "unscored" else where)
    extracted = verdict.extracted.encode("utf-8", "replace").decode()
    extracted = extracted if len(extracted) <= LONGEST else extracted[: LONGEST - 1] + "…"
    return replace(verdict, extracted=extracted, reason=reason)


# What math-verify passes over and this grader with it, to be counted. A kind is a mark that stands
# in an answer and not in its gold, or the reverse, or another of its kind. Where such an answer is
# graded correct, the mark decided nothing.

LENIENCIES: dict[str, re.Pattern[str]] = {
    "a unit or text behind": re.compile(
        r"\\(?:text|textrm|textbf|mathrm|mbox|rm|operatorname)\s*+\{\s*+~?([A-Za-z][^{}]*+)\}"
        r"|(?<=[0-9])\s*+([A-Za-z]{2,})"
    ),
    "a degree sign": re.compile(r"\\circ(?![A-Za-z])|°|\\degree"),
    "a percent sign": re.compile(r"%"),
    "a currency sign": re.compile(r"\\\$|[€£¥₹]"),
    "the left side of an equation": re.compile(r"(?<![<>!:\\])="),
    "dots or a prime": re.compile(r"\\[lc]?dots(?![A-Za-z])|\.\.\.|'"),
}
"""By what a table calls it: the marks. Each expression is linear in the length of the text."""
DECIMALS_LENIENCY = "digits behind the sixth decimal"
"""A further kind, which the judge's reason tells."""


def leniencies(gold: str, answer: str, reason: str) -> list[str]:
    """The kinds in which an answer that was graded correct and its gold differ.

    gold, answer: as they are written. reason: of the grade.

    >>> leniencies("5", r"5 \\text{ cm}", "equal by math-verify")
    ['a unit or text behind']
    >>> leniencies(r"90^\\circ", "x = 90", "equal by math-verify")
    ['a degree sign', 'the left side of an equation']
    """
    gold = normalise(gold)  # as the answer of a grade is
    kinds = [
        kind
        for kind, marks in LENIENCIES.items()
        if _marked_answers(marks, gold) != _marked_answers(marks, answer)
    ]
    return [*kinds, DECIMALS_LENIENCY] if reason.startswith(TO_SIX_DECIMALS) else kinds


def _marked_answers(marks: re.Pattern[str], text: str) -> list[str]:
    return [mark[0] if mark.lastindex is None else _word(mark) for mark in marks.finditer(text)]


def _word(mark: re.Match[str]) -> str:
    return (mark[mark.lastindex or 0]).strip().lower()
