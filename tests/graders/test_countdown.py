"""The countdown grader on right, wrong and hostile answers."""

from itertools import permutations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.graders.countdown import solution, value

PROBLEM = Problem(
    benchmark="countdown",
    problem_id="3256-24",
    prompt="3256=24:",
    target="3256-24",
    grader="countdown",
)
CASES = [
    ("5*2*3-6", "correct", "value is the target"),
    ("2*3*5-6", "correct", "value is the target"),
    (" 5*3*2-6\n", "correct", "value is the target"),
    ("6*3+5+2", "incorrect", "value is 25"),
    ("5*2*3-5", "incorrect", "digits are not those given"),
    ("4*6", "incorrect", "digits are not those given"),
    ("5*2*3-6*1", "incorrect", "digits are not those given"),
    ("", "incorrect", "no expression"),
    ("24", "incorrect", "no expression"),
    ("5*2*3-6=24", "incorrect", "no expression"),
    ("(5*2*3)-6", "incorrect", "no expression"),
    ("5*2**3-6", "incorrect", "no expression"),
    ("5*2*3-6<pad>", "incorrect", "no expression"),
    ("__import__('os').system('true')", "incorrect", "no expression"),
    ("\u0665*2*3-6", "incorrect", "no expression"),  # an Arabic-Indic five is no digit here
    ("5*2*3-6\x00", "incorrect", "no expression"),
    ("9*" * 100_000 + "9", "incorrect", "no expression"),
    ("\ud800", "incorrect", "no expression"),
]


@pytest.mark.parametrize(("response", "outcome", "reason"), CASES)
def test_cases(response, outcome, reason):
    grade = get_grader("countdown")(PROBLEM, response)
    assert (grade.outcome, grade.reason[: len(reason)]) == (outcome, reason)


def test_half_of_the_cases_fail_at_least():
    assert 2 * sum(outcome != "correct" for _, outcome, _ in CASES) >= len(CASES)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_values_follow_the_usual_precedence(digits, data):
    signs = data.draw(
        st.lists(st.sampled_from("+-*"), min_size=len(digits) - 1, max_size=len(digits) - 1)
    )
    text = str(digits[0]) + "".join(s + str(d) for s, d in zip(signs, digits[1:], strict=True))
    terms = text.replace("-", "+-").split("+")
    assert value(text) == sum(prod(map(int, term.split("*"))) for term in terms)


@given(st.text(max_size=40))
def test_no_text_raises(response):
    assert get_grader("countdown")(PROBLEM, response).outcome in ("correct", "incorrect")


def test_an_unknown_grader_is_refused_with_the_valid_ones():
    with pytest.raises(
        ValueError, match="unknown grader 'nope': valid ones are choice, choice-strict, "
    ):
        grader_version("nope")


@pytest.mark.parametrize(
    ("alike", "other"),
    [
        (("9*3-2*1", "9*3-1*2", "3*9-2*1", "9*1*3-2"), "9*3*1+2"),
        (("5*2*3-6", "3*5*2-6"), "5*3+2*6"),
        (("8-1-2", "8-2-1"), "8-1*2"),
        (("1*1+2", "2+1*1", "1+1*2"), "1*1*2"),
        (("2+2",), "2*2"),
    ],
)
def test_a_solution_is_an_expression_up_to_order_and_factors_of_1(
    alike: tuple[str, ...], other: str
) -> None:
    (one,) = {solution(text) for text in alike}
    assert solution(other) != one
    assert value(one) == value(alike[0])


def test_every_expression_has_the_value_of_its_solution() -> None:
    """All of four digits, also with equal ones and 1."""
    for digits, signs in product(("1193", "2225"), product("+-*", repeat=3)):
        for order in set(permutations(digits)):
            text = order[0] + "".join(map("".join, zip(signs, order[1:], strict=True)))
            one = solution(text)
            assert solution(one) == one
            assert value(text) == value(one)
