"""The math grader on the golds of six benchmarks and on graded outputs, where they are at hand."""

from __future__ import annotations

import re

from fgrpo_bench.graders.math import grade_with
from fgrpo_bench.graders.math_golds import normalise
from fgrpo_bench.records import Problem
from tests.support import benchmarks

NUMBER = re.compile(r"-?[0-9.]{1,9}|-?\\frac\{[0-9]+\}\{[0-9]+\}")


def test_every_gold_is_correct_by_the_judge_itself_and_in_a_box_of_its_own(judge):
    golds = benchmarks.golds()
    print(f"{len(golds)} golds of {benchmarks.folder() or benchmarks.CASES}")
    for gold in golds:
        judged = judge.verdict(normalise(gold), normalise(gold))
        assert judged.outcome == "correct", gold
        assert grade(judge, gold, f"Thus \\boxed{{{gold}}}.") == "correct", gold
        if NUMBER.fullmatch(normalise(gold)):
            assert grade(judge, gold, f"Thus \\boxed{{{normalise(gold)} + 1/7}}.") == "incorrect", (
                gold
            )


def test_graded_outputs_are_graded_alike_but_for_the_one_with_a_thousands_separator(judge):
    outputs = benchmarks.graded_outputs()
    print(f"{len(outputs)} outputs of {benchmarks.folder() or benchmarks.CASES}")
    differing = [
        (gold, theirs, grade(judge, gold, response))
        for gold, response, correct, theirs in outputs
        if (grade(judge, gold, response) == "correct") != correct
    ]
    known = [("10{,}000", "10000", "correct")] if benchmarks.folder() else []
    assert differing == known


def grade(judge, gold, response):
    problem = Problem(benchmark="any", problem_id="1", prompt="", target=gold, grader="math")
    return grade_with(judge, problem, response).outcome
