"""The SynLogic grader by its case tables, on hostile text and on games that are not what they
must be."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.graders.synlogic import TASKS, grade
from tests import synlogic_upstream
from tests.graders.synlogic_answers import hostile
from tests.graders.synlogic_games import GAMES, problem

CASES = synlogic_upstream.rows("synlogic")
DIFFERENCES = synlogic_upstream.rows("synlogic-differences")


def judged(case: dict[str, Any]) -> str:
    game = case["game"] if "game" in case else GAMES[case["task"]][0]
    return grade(problem(case["task"], game), case["response"]).outcome


def named(case: dict[str, Any]) -> str:
    return f"{case['task']}-{case['why']}".replace(" ", "-")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_grader_judges_as_the_case_table_says(case):
    assert judged(case) == case["outcome"]


@pytest.mark.parametrize("case", DIFFERENCES, ids=named)
def test_the_grader_differs_from_upstream_as_listed(case):
    assert judged(case) == case["outcome"] != case["upstream"]


def test_verdicts_are_those_of_the_table_and_each_difference_from_upstream_has_a_reason():
    table = synlogic_upstream.table()
    listed = {(case["task"], case["upstream"], case["outcome"]) for case in DIFFERENCES}
    agree = 0
    for each in synlogic_upstream.inputs():
        row = table[synlogic_upstream.digest(each)]
        assert row["ours"] == synlogic_upstream.ours(each), each
        agree += row["upstream"] == row["ours"]
        if row["upstream"] != row["ours"] != "unscored":
            assert (row["task"], row["upstream"], row["ours"]) in listed, each
    for case in DIFFERENCES:
        each = (case["task"], case.get("game") or GAMES[case["task"]][0], case["response"])
        assert table[synlogic_upstream.digest(each)]["upstream"] == case["upstream"], case["why"]
    assert agree > 0.8 * len(table)


def test_at_least_half_of_the_cases_must_fail_and_every_task_has_one_that_does():
    failing = [case["task"] for case in CASES if case["outcome"] != "correct"]
    assert 2 * len(failing) >= len(CASES)
    assert TASKS.keys() - {"mathador", "arc_agi_2"} <= set(failing)


def test_what_has_no_verifier_is_unscored_with_the_reason():
    judgement = grade(problem("gpqa_diamond", {}), "anything")
    assert (judgement.outcome, judgement.reason) == (
        "unscored",
        "no verifier for task 'gpqa_diamond'",
    )
    for target in (
        "",
        "[]",
        "7",
        '{"task": "sudoku"}',
        "[" * 100_000,
        '{"task": [], "game_data": 1}',
    ):
        gold = Problem(benchmark="", problem_id="", prompt="", target=target, grader="synlogic")
        assert grade(gold, "anything").outcome == "unscored"


def spoilt(value: Any) -> Iterator[Any]:
    """A value with one part of it gone or something else."""
    yield from (None, "?", -(10**20), [[]], {"?": [1.5]}, True)
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
            yield from (value | {key: other} for other in spoilt(value[key]))
    elif isinstance(value, list) and value:
        yield value[1:]
        yield from ([other, *value[1:]] for other in spoilt(value[0]))


@pytest.mark.parametrize("task", TASKS)
def test_a_game_that_is_not_what_it_must_be_raises_nothing(task):
    game, response = GAMES[task]
    outcomes = {
        grade(problem(task, other), response).outcome for other in spoilt(copy.deepcopy(game))
    }
    assert "unscored" in outcomes
    judgement = grade(problem(task, {}), response)
    assert judgement.outcome == "unscored" and "the game lacks" in judgement.reason


@pytest.mark.parametrize("task", TASKS)
def test_hostile_texts_are_judged_in_time_that_does_not_run_away(task):
    game, response = GAMES[task]
    begun = time.process_time()
    for text in hostile():
        assert grade(problem(task, game), text).outcome == "incorrect"
        assert grade(problem(task, game), text + response).outcome != "unscored"
    assert time.process_time() - begun < 5


PIECES = st.sampled_from(
    ["[", "]", "(", ")", "{", "}", "'", '"', ",", "1", "2", "X", "A", "T", "C", "yes", "no", "=",
     "+", "*", "\n", " ", "```python\n", "```", "\\boxed{", "<answer>", "</answer>", "</think>",
     "0.50", "answer is ", "\u2192", "\\frac", "/", ":"]
)  # fmt: skip


@given(
    st.sampled_from(sorted(TASKS)),
    st.text(max_size=60) | st.lists(PIECES, max_size=40).map("".join),
)
def test_no_text_makes_a_sound_game_unscored_or_raises(task, text):
    game, response = GAMES[task]
    assert grade(problem(task, game), text).outcome != "unscored"
    shown = grade(problem(task, game), f"{text}\n<answer>{response}</answer>")
    assert shown.extracted is None or len(shown.extracted) <= 500
    assert shown.outcome == "correct"


def test_the_grader_is_among_the_graders():
    assert get_grader("synlogic") is grade
    assert grader_version("synlogic") == "synlogic-1"
