"""The SynLogic grader on whole games, beside upstream, on any text and on damaged games."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders.synlogic import TASKS, grade
from tests import synlogic_upstream
from tests.graders.synlogic_games import GAMES, GARBAGE, ROWS, generated, problem

DIFFERENCES = synlogic_upstream.rows("synlogic-differences")


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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["task"])
def test_every_solution_of_a_game_is_right_and_every_near_miss_and_garbage_wrong(row):
    response = row["right"][0]
    wrapped = f"<think>\\boxed{{9}}</think>Thus\n<answer>{response}</answer>"
    unsaid = f"<think>{response}</think>"
    for outcome, texts in (
        ("correct", [*row["right"], wrapped]),
        ("incorrect", [*row["wrong"], *GARBAGE, unsaid]),
    ):
        for text in texts:
            judged = grade(problem(row["task"], row["game"]), text)
            assert judged.outcome == outcome, (text, judged)


@pytest.mark.slow
def test_stored_answers_of_generated_games_are_right_and_garbage_is_wrong():
    """The games are the generated ones where they are at hand, and our own."""
    games = generated()
    print(f"SynLogic on {len(games)} games")
    assert len(games) >= len(GAMES)
    for task, game, answer in games:
        judged = grade(problem(task, game), answer)
        assert judged.outcome == "correct", (task, answer, judged)
        for text in GARBAGE:
            judged = grade(problem(task, game), text)
            assert judged.outcome == "incorrect", (task, text, judged)


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


PIECES = st.sampled_from(
    ["[", "]", "(", ")", "{", "}", "'", '"', ",", "1", "2", "X", "A", "T", "C", "yes", "no", "=",
     "+", "*", "\n", " ", "```python\n", "```", "\\boxed{", "<answer>", "</answer>", "</think>",
     "0.50", "answer is ", "\u2192", "\\frac", "/", ":"]
)  # fmt: skip


@pytest.mark.slow
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
