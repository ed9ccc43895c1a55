"""The ifeval grader on hostile text, and that a text has one verdict; its cases: test_cases.py."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import ifeval, ifeval_worker, punkt
from fgrpo_bench.graders.ifeval import grade, judge_instructions

CASES = json.loads((Path(__file__).parents[1] / "cases/ifeval.json").read_text(encoding="utf-8"))


def problem(*instructions: tuple[str, dict[str, object]]) -> Problem:
    target = {
        "instruction_id_list": [name for name, _ in instructions],
        "kwargs": [arguments for _, arguments in instructions],
    }
    return Problem(
        benchmark="ifeval",
        problem_id="1",
        prompt="Say it again.",
        target=json.dumps(target),
        grader="ifeval",
    )


def every_type() -> Problem:
    """One instruction of each type, with arguments of the case table."""
    kinds = {case["instruction"]: case["kwargs"] for case in CASES if case["outcome"] == "correct"}
    return problem(*kinds.items())


def test_the_case_table_has_all_25_types():
    assert len(json.loads(every_type().target)["kwargs"]) == 25


@pytest.mark.slow
def test_a_prompt_is_followed_where_all_its_instructions_are():
    asked = problem(("punctuation:no_comma", {}), ("detectable_format:title", {}))
    grades = [grade(asked, text) for text in ("<<A>> b", "<<A>> b, c", "*<<A>>*")]
    assert [each.outcome for each in grades] == ["correct", "incorrect", "correct"]
    assert grades[1].reason == "1 of 2 strict, 1 loose"
    assert judge_instructions(asked, "x, y\n<<A>> b").strict == (False, True)
    assert judge_instructions(asked, "x, y\n<<A>> b").loose == (True, True)


def restart() -> None:
    """End the processes that check; others start when they are needed."""
    ifeval._checkers().close()
    ifeval._checkers._forget()


@pytest.mark.slow
@settings(max_examples=15)
@given(st.text(max_size=200))
def test_no_text_of_a_model_makes_the_grader_raise(text):
    assert grade(every_type(), text).outcome in ("incorrect", "unscored")


PIECES = st.sampled_from(
    ["[", "]", "\n", " ", "\t", "\x85", "*", "-", "<", "<<", ">", ">>", "p.", "P.S.", "P.P.S", "x"]
)
ARGUMENTS = {
    "detectable_content:number_placeholders": {"num_placeholders": 2},
    "detectable_content:postscript": {"postscript_marker": "P.S."},
    "detectable_format:number_bullet_lists": {"num_bullets": 1},
    "detectable_format:title": {},
}


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(["P.S.", "P.P.S", "x p."]))
def test_the_linear_checkers_say_what_lm_evals_say(text, marker):
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

    assert ARGUMENTS.keys() == ifeval_worker.LINEAR.keys()
    for name, arguments in ARGUMENTS.items():
        given_here = arguments | ({"postscript_marker": marker} if "postscript" in name else {})
        theirs = INSTRUCTION_DICT[name](name)
        theirs.build_description(**given_here)
        assert ifeval_worker.LINEAR[name](text, **given_here) == theirs.check_following(text), name


HOSTILE = {
    "full stops": ". " * 2**16,
    "lone surrogates": "\ud83d\0" * 1_000,
    "nested JSON": '{"a":' * 13_000,
}
REASONS = ("took more than 0.5 s of processor time", "failed with RecursionError")


@pytest.mark.slow
@pytest.mark.rare
def test_hostile_text_is_judged_or_unscored_and_a_text_has_one_verdict_in_every_process(
    monkeypatch,
):
    asked, text = every_type(), "Ja! Ok ok. 42 ###\n* one, two *three* [four]"
    first = judge_instructions(asked, text)
    kinds = problem(("detectable_content:number_placeholders", {"num_placeholders": 1}))
    with monkeypatch.context() as impatient:
        impatient.setattr(ifeval, "SECONDS", 0.5)
        restart()
        for hostile in HOSTILE.values():
            found = grade(asked, hostile)
            assert found.outcome == "incorrect" or found.reason.endswith(REASONS)
            assert grade(kinds, "Dear [name]").outcome == "correct"
    restart()
    random.seed(1)
    assert [judge_instructions(asked, text) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize("target", ["", "[]", "{}", '{"kwargs": []}', "3"])
def test_a_gold_that_is_no_list_of_instructions_is_unscored(target):
    asked = Problem(benchmark="b", problem_id="1", prompt="", target=target, grader="ifeval")
    found = grade(asked, "text")
    assert (found.outcome, found.reason) == ("unscored", "the gold is no list of instructions")


def test_other_punkt_data_is_refused_with_the_command_that_mends_it(tmp_path):
    with pytest.raises(RuntimeError, match=r"-m fgrpo_bench\.graders\.punkt"):
        punkt.check(tmp_path)
    assert list(punkt.wrong(tmp_path)) == list(punkt.FILES)
