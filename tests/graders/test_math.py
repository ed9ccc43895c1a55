"""The math graders on hostile text and beside plain math-verify, and how they read by properties.

Their case tables are in test_cases.py.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import BY_PLACE, Grade, Problem
from fgrpo_bench.graders import judge_worker
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.judge_worker import by_math_verify
from fgrpo_bench.graders.math import (
    LONGEST,
    grade_with,
    last_box,
    leniencies,
    scan_boxes,
    stated_answer,
)
from fgrpo_bench.graders.math_notation import CHARACTERS, normalise, stored_gold
from fgrpo_bench.graders.math_tolerance import number
from tests.support import benchmarks

CASES = benchmarks.cases()


def problem(gold: str) -> Problem:
    return Problem(benchmark="any", problem_id="1", prompt="", target=gold, grader="math")


def grade(judge: Judge, gold: str, response: str) -> Grade:
    return grade_with(judge, problem(gold), response)


PATIENCE = 120
"""Seconds that math-verify may take for a text: its own 5 can pass on a busy machine."""


# Of use when math-verify is pinned anew, whose version is a part of a grader's; that ours judges
# these cases as the table says is in test_cases.py.
@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.parametrize("differs", [True, False])
def test_plain_math_verify_differs_just_where_the_case_table_gives_a_reason_and_can_be_told(
    judge, differs
):
    judge_worker.mend_parser()  # and nothing of what makes ours faster
    from math_verify import parse, verify

    for case in (case for case in CASES if (case["deviation"] is not None) == differs):
        gold, response = (
            parse(text, parsing_timeout=PATIENCE)
            for text in (f"\\boxed{{{case['gold']}}}", case["response"])
        )
        plain = verify(gold, response, timeout_seconds=PATIENCE)
        assert (("correct" if plain else "incorrect") != case["outcome"]) == differs, case
        ours = judge.verdict(case["gold"], case["response"], boxed=False)
        assert (by_math_verify(ours.outcome, ours.reason) == "correct") == plain, case


REASONS = {
    "a tiny bound": "equal by math-verify alone: different numbers that are both tiny",
    "another word of the same letters": "letters of a word in another order",
    "words that deny at the end": "says 'not' and the gold does not",
    "another product": "not equal by math-verify",
    "a pair for a set of two": "a pair for a set, or the reverse",
    "a residue with another modulus than the gold's": "another modulus",
}
"""Ends of the reasons of incorrect cases."""
EQUAL = [
    ("\\frac{1}{3}", "0.333333", "equal by math-verify to 6 decimals"),
    ("\\frac{1}{3}", "33.3333333\\%", "equal by math-verify, which passes over a percent sign"),
    ("\\frac{1}{3}", "\\frac{2}{6}", "equal by math-verify"),
    ("25", "25\\%", "equal by math-verify, which passes over a percent sign"),
    ("25", "25 \\text{ percent}", "equal by math-verify, which passes over a percent sign"),
    ("(1, 3]", "1 < x \\le 3", "equal, though not by math-verify alone: an interval and an "),
]


@pytest.mark.slow
def test_the_reason_says_what_a_reader_sees_and_math_verify_does_not(judge):
    cases = {case["why"]: case for case in CASES if case["outcome"] == "incorrect"}
    for why, reason in REASONS.items():
        found = grade(judge, cases[why]["gold"], cases[why]["response"]).reason
        assert found.endswith(reason), why
    for gold, answer, reason in EQUAL:
        assert grade(judge, gold, f"\\boxed{{{answer}}}").reason.startswith(reason), answer
    percent = grade(judge, "25", "\\boxed{25 \\text{ percent}}")
    assert leniencies("25", percent.extracted or "", percent.reason) == ["a percent sign"]


STATED = [
    ("\\boxed{18}", "the gold answer to the letter"),
    ("<answer>18", "the gold answer to the letter, in a tag"),
    ("The answer is 18.", "the gold answer to the letter, as the answer"),
    ("#### 18", "the gold answer to the letter, as the answer"),
    ("We count.\nThere are 18.", "equal by math-verify, by its place alone"),
    ("So \\boxed{18", None),
    ("The answer is (18", None),
    ("<think>The answer is 18.", None),
]
"""Responses to a gold of 18, and the reason of its grade; None where it is incorrect."""


def test_the_reason_says_where_the_answer_stands_and_the_strict_grader_takes_a_stated_one(judge):
    for response, reason in STATED:
        plain = grade(judge, "18", response)
        strict = grade_with(judge, problem("18"), response, strict=True)
        if reason is not None:
            assert plain.reason == reason, response
        if reason is not None and not reason.endswith(BY_PLACE):
            assert strict == plain, response
        else:
            assert strict.outcome == "incorrect", response
            assert strict.reason == "no box, no tag and no answer sentence", response


HOSTILE = {
    "open brackets": "[" * 2**20,
    "open braces": "{" * 2**20,
    "open boxes": "\\boxed{" * 150_000,
    "backslashes": "\\" * 2**20,
    "boxes of spaces": "\\boxed" + " " * 2**20,
    "open displays": "\\[ " * 2**16,
    "256 kB of text": "Let us think about $x^2+1$ and go on. " * 7_000,
    "NUL bytes": "\0" * 2**18,
    "lone surrogates": "\ud83d" * 1_000,
    "HTML": "<img src=x onerror=alert(1)></div>\\boxed{<b>1</b>}",
    "Python": "```python\n__import__('os').system('exit 1')\n```",
    "a bomb in an earlier box": "\\boxed{10^{10^{10}}}",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE])
def test_a_correct_final_answer_is_found_after_hostile_text(judge, text):
    grade_of = grade(judge, "\\frac{1}{2}", text + " and so \\boxed{0.5}")
    assert (grade_of.outcome, grade_of.extracted) == ("correct", "0.5")
    assert grade(judge, "\\frac{1}{2}", text + " and so \\boxed{0.6}").outcome == "incorrect"


BUSY = ["10^{10^{10}}", "2^{2^{40}}", "20000000!", "(x+1)^{5000}", "\\prod_{i=1}^{10^7} i"]
BUSY += ["(" * 5000]


@pytest.mark.slow
def test_an_answer_that_keeps_math_verify_busy_is_unscored_and_not_wrong():
    with Judge(seconds=0.5) as judge:
        for text in [*(f"\\boxed{{{answer}}}" for answer in BUSY), HOSTILE["open displays"]]:
            hung = grade(judge, "\\sqrt{3}", text)
            assert hung.outcome == "unscored", text[:60]
            assert hung.reason == "took more than 0.5 s of processor time", text[:60]
        assert grade(judge, "\\sqrt{3}", "\\boxed{3^{1/2}}").outcome == "correct"


def test_what_a_grade_keeps_can_be_stored_and_is_short(judge):
    kept = grade(judge, "42", "\\boxed{" + "\ud800\0x+" * 1_000 + "}").extracted
    assert kept is not None
    assert len(kept) == LONGEST
    assert kept.encode()


PIECES = st.sampled_from(
    ["\\boxed{", "\\boxed", "\\fbox {", "{", "}", "\\{", "\\}", "\\", "\\\\", "x", " ", "\n", "7"]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(0, 10**6))
def test_the_last_box_is_found_as_by_reading_the_text_once_and_always_at_the_end(text, value):
    assert last_box(text) == scan_boxes(text)
    assert last_box(f"{text} \\boxed{{{value}}}") == str(value)


SIGNS = st.sampled_from(
    [*map(chr, CHARACTERS), *"√²₁1.3 ,{}[]$=x\\", "\\overline{3}", "\\text{is }"]
)


@given(st.text(max_size=60) | st.lists(SIGNS, max_size=20).map("".join))
def test_extracting_and_reading_never_raise_and_normalising_twice_changes_nothing(text):
    last_box(text)
    for gold in ("(1, 2), (3, 4)", "yes"):
        for response in (text, f"The answer is {text}", f"<answer>{text}"):
            stated_answer(response, gold)
    found = number(text)
    assert found is None or isinstance(found, Decimal)
    assert normalise(normalise(text)) == normalise(text)


NUMBERS = st.decimals(
    allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9
)


@given(NUMBERS, st.integers(-60, 60))
def test_every_way_to_write_a_number_has_its_value(mantissa, exponent):
    value = mantissa.scaleb(exponent)
    assert number(f"{mantissa} \\times 10^{{{exponent}}}") == value
    assert number(normalise(f"{mantissa}e{exponent}")) == value
    assert number(f"{mantissa:f}") == mantissa


def test_what_is_no_plain_number_is_none():
    texts = ["2x", "\\pi", "1/0", "\\frac{1}{0}", "5 cm", "1,32", "e", "", "1e5", "٣"]
    assert [number(text) for text in texts] == [None] * len(texts)


def test_a_stored_gold_is_normalised_once_and_whole_numbers_lose_their_zero():
    golds = ["27.0", "$-3.00$", "0.50", "4.5e33", "x.0"]
    once = ["27", "-3", "0.50", "4.5 \\times 10^{33}", "x.0"]
    assert [stored_gold(gold) for gold in golds] == once == [stored_gold(gold) for gold in once]
