"""The math grader by its case table, on hostile text, and its extractor by properties."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders import get_grader, grader_version, judge_worker
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.judge_worker import by_math_verify
from fgrpo_bench.graders.math import LONGEST, grade_with, last_box, leniencies, scan_boxes
from fgrpo_bench.graders.math_notation import CHARACTERS, normalise
from tests.support import benchmarks

CASES = benchmarks.cases()


def problem(gold: str) -> Problem:
    return Problem(benchmark="any", problem_id="1", prompt="", target=gold, grader="math")


def grade(judge: Judge, gold: str, response: str) -> Grade:
    return grade_with(judge, problem(gold), response)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"].replace(" ", "-"))
def test_the_grader_judges_as_the_case_table_says(judge, case):
    assert grade(judge, case["gold"], case["response"]).outcome == case["outcome"]


def test_at_least_half_of_the_cases_must_fail():
    failing = [case for case in CASES if case["outcome"] != "correct"]
    assert 2 * len(failing) >= len(CASES)


@pytest.mark.slow
def test_the_grader_differs_from_plain_math_verify_just_where_the_case_table_gives_a_reason():
    judge_worker.mend_parser()  # and nothing of what makes ours faster
    from math_verify import parse, verify

    for case in CASES:
        plain = verify(parse(f"\\boxed{{{case['gold']}}}"), parse(case["response"]))
        differs = ("correct" if plain else "incorrect") != case["outcome"]
        assert differs == (case["deviation"] is not None), case


@pytest.mark.slow
def test_math_verifys_own_verdict_can_be_told_from_ours_on_a_whole_text(judge):
    judge_worker.mend_parser()
    from math_verify import parse, verify

    for case in CASES:
        plain = verify(parse(f"\\boxed{{{case['gold']}}}"), parse(case["response"]))
        ours = judge.verdict(case["gold"], case["response"], boxed=False)
        assert (by_math_verify(ours.outcome, ours.reason) == "correct") == plain, case


def test_the_reason_says_what_a_reader_sees_and_math_verify_does_not(judge):
    told = {
        case["why"]: grade(judge, case["gold"], case["response"]).reason
        for case in CASES
        if case["outcome"] == "incorrect"
    }
    assert (
        told["a tiny bound"] == "equal by math-verify alone: different numbers that are both tiny"
    )
    assert told["another word of the same letters"].endswith("letters of a word in another order")
    assert told["words that deny at the end"].endswith("says 'not' and the gold does not")
    assert told["another product"] == "not equal by math-verify"
    assert told["a pair for a set of two"].endswith("a pair for a set, or the reverse")
    assert told["a residue with another modulus than the gold's"].endswith("another modulus")
    equal = {
        "0.333333": "equal by math-verify to 6 decimals",
        "33.3333333\\%": "equal by math-verify, which passes over a percent sign",
        "\\frac{2}{6}": "equal by math-verify",
    }
    for answer, reason in equal.items():
        assert grade(judge, "\\frac{1}{3}", f"\\boxed{{{answer}}}").reason == reason
    for answer in ("25\\%", "25 \\text{ percent}"):
        percent = grade(judge, "25", f"\\boxed{{{answer}}}")
        assert percent.reason == "equal by math-verify, which passes over a percent sign"
        assert leniencies("25", percent.extracted or "", percent.reason) == ["a percent sign"]
    interval = grade(judge, "(1, 3]", "\\boxed{1 < x \\le 3}").reason
    assert interval.startswith("equal, though not by math-verify alone: an interval and an ")


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


@pytest.mark.parametrize("text", HOSTILE.values(), ids=[name.replace(" ", "-") for name in HOSTILE])
def test_a_correct_final_answer_is_found_after_hostile_text(judge, text):
    grade_of = grade(judge, "\\frac{1}{2}", text + " and so \\boxed{0.5}")
    assert (grade_of.outcome, grade_of.extracted) == ("correct", "0.5")
    assert grade(judge, "\\frac{1}{2}", text + " and so \\boxed{0.6}").outcome == "incorrect"


@pytest.mark.parametrize(
    "answer",
    [
        "10^{10^{10}}",
        "2^{2^{40}}",
        "20000000!",
        "(x+1)^{5000}",
        "\\prod_{i=1}^{10^7} i",
        "(" * 5000,
    ],
)
@pytest.mark.slow
def test_an_answer_that_keeps_math_verify_busy_is_unscored_and_not_wrong(answer):
    with Judge(seconds=0.5) as judge:
        hung = grade(judge, "\\sqrt{3}", f"\\boxed{{{answer}}}")
        assert (hung.outcome, hung.reason) == (
            "unscored",
            "took more than 0.5 s of processor time",
        )
        assert grade(judge, "\\sqrt{3}", "\\boxed{3^{1/2}}").outcome == "correct"


def test_a_text_without_a_box_that_keeps_math_verify_busy_is_unscored():
    with Judge(seconds=0.5) as judge:
        assert grade(judge, "42", HOSTILE["open displays"]).outcome == "unscored"


def test_what_a_grade_keeps_can_be_stored_and_is_short(judge):
    kept = grade(judge, "42", "\\boxed{" + "\ud800\0x+" * 1_000 + "}").extracted
    assert kept is not None
    assert len(kept) == LONGEST
    assert kept.encode()


@pytest.mark.slow
def test_the_grader_is_among_the_graders_and_works_from_asyncio():
    async def grades() -> list[Grade]:
        asked = [
            asyncio.to_thread(get_grader("math"), problem("\\frac{1}{2}"), f"\\boxed{{{i}/8}}")
            for i in range(8)
        ]
        return await asyncio.gather(*asked)

    correct = [i for i, each in enumerate(asyncio.run(grades())) if each.outcome == "correct"]
    assert correct == [4]
    assert grader_version("math") == "math-3"


PIECES = st.sampled_from(
    ["\\boxed{", "\\boxed", "\\fbox {", "{", "}", "\\{", "\\}", "\\", "\\\\", "x", " ", "\n", "7"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_the_quick_extractor_agrees_with_the_one_that_reads_the_text_once(text):
    assert last_box(text) == scan_boxes(text)


@given(st.lists(PIECES, max_size=20).map("".join), st.integers(0, 10**6))
def test_a_box_at_the_end_is_always_found(text, value):
    assert last_box(f"{text} \\boxed{{{value}}}") == str(value)


SIGNS = st.sampled_from(
    [*map(chr, CHARACTERS), *"√²₁1.3 ,{}[]$=x\\", "\\overline{3}", "\\text{is }"]
)


@given(st.text(max_size=60) | st.lists(SIGNS, max_size=20).map("".join))
def test_extracting_and_normalising_never_raise_and_normalising_twice_changes_nothing(text):
    last_box(text)
    assert normalise(normalise(text)) == normalise(text)
