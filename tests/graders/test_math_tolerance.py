"""The tolerance grader by its case table, and its numbers by properties."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders.math_notation import normalise, stored_gold
from fgrpo_bench.graders.math_tolerance import grade_with, number
from tests.support import benchmarks

CASES = json.loads(
    (Path(__file__).parents[1] / "cases/math-tolerance.json").read_text(encoding="utf-8")
)


def outcome(judge, gold, response):
    problem = Problem(benchmark="any", problem_id="1", prompt="", target=gold, grader="any")
    return grade_with(judge, problem, response).outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"].replace(" ", "-"))
def test_the_grader_judges_as_the_case_table_says(judge, case):
    assert outcome(judge, case["gold"], case["response"]) == case["outcome"]


def test_the_grader_reads_natural_variants_as_math_does(judge):
    for case in benchmarks.cases():
        if case["why"] not in TOLERANT:
            assert outcome(judge, case["gold"], case["response"]) == case["outcome"], case


TOLERANT = {"a small decimal to six places"}
"""Where the two differ: this one tolerates a share of the gold, `math` six decimals."""


def test_at_least_half_of_the_cases_must_fail():
    assert 2 * sum(case["outcome"] != "correct" for case in CASES) >= len(CASES)


NUMBERS = st.decimals(
    allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9
)


@given(NUMBERS, st.integers(-60, 60))
def test_every_way_to_write_a_number_has_its_value(mantissa, exponent):
    value = mantissa.scaleb(exponent)
    assert number(f"{mantissa} \\times 10^{{{exponent}}}") == value
    assert number(normalise(f"{mantissa}e{exponent}")) == value
    assert number(f"{mantissa:f}") == mantissa


@given(st.text(max_size=60))
def test_what_is_no_number_is_none_and_never_an_error(text):
    found = number(text)
    assert found is None or isinstance(found, Decimal)


@pytest.mark.parametrize(
    "text", ["2x", "\\pi", "1/0", "\\frac{1}{0}", "5 cm", "1,32", "e", "", "1e5", "٣"]
)
def test_these_are_no_plain_numbers(text):
    assert number(text) is None


def test_a_stored_gold_is_normalised_once_and_whole_numbers_lose_their_zero():
    assert [stored_gold(gold) for gold in ("27.0", "$-3.00$", "0.50", "4.5e33", "x.0")] == [
        "27",
        "-3",
        "0.50",
        "4.5 \\times 10^{33}",
        "x.0",
    ]
    assert stored_gold(stored_gold("27.0")) == "27"
