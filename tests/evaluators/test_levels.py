"""IFEval's four scores from stored grades."""

from __future__ import annotations

import json

import polars as pl
import pytest

from evaluators.stored import level_line, levels
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import get_grader
from fgrpo_bench.stages.tables import GRADES


def grades(*reasons):
    rows = [("p", i, "correct", None, reason, "ifeval-1") for i, reason in enumerate(reasons)]
    return pl.DataFrame(rows, schema=GRADES, orient="row")


def test_prompts_and_instructions_are_counted_strictly_and_loosely():
    found = levels(
        grades(
            "2 of 2 strict, 2 loose",
            "1 of 2 strict, 2 loose",
            "0 of 1 strict, 0 loose",
            "1 of 3 strict, 2 loose",
        )
    )
    assert found == {
        "prompt strict": 1 / 4,
        "prompt loose": 2 / 4,
        "instruction strict": 4 / 8,
        "instruction loose": 6 / 8,
    }
    assert level_line("ifeval", found) == (
        "ifeval, over all judged draws: prompt strict 25.00%, prompt loose 50.00%, "
        "instruction strict 50.00%, instruction loose 75.00%"
    )


def test_draws_that_were_not_judged_count_for_nothing():
    both = ("1 of 1 strict, 1 loose", "1 of 1 strict, 1 loose", "took more than 10 s")
    assert levels(grades(*both)) == levels(grades(*both[:2]))


@pytest.mark.parametrize("reasons", [(), ("equal by math-verify",), (None,)])
def test_grades_of_another_grader_have_no_levels(reasons):
    assert levels(grades(*reasons)) == {}


@pytest.mark.slow
def test_the_grader_writes_what_is_read_here():
    target = {"instruction_id_list": ["punctuation:no_comma"] * 2, "kwargs": [{}, {}]}
    problem = Problem(
        benchmark="b", problem_id="p", prompt="", target=json.dumps(target), grader="ifeval"
    )
    for response, share in (("none", 1.0), ("one, two", 0.0)):
        made = get_grader("ifeval")(problem, response)
        assert set(levels(grades(made.reason)).values()) == {share}
