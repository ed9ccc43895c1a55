"""The rules on rows, and what a dataset spec refuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.data.prepare import describe, describe_faults, find_faults, select
from fgrpo_bench.kinds.fetch import dataset_identity
from fgrpo_bench.specs import DatasetSpec, from_dict, to_dict
from fgrpo_bench.specs.fingerprint import dataset_fields
from fgrpo_bench.stages.tables import PROBLEMS
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask

SPEC = DatasetSpec(
    name="any",
    source="file",
    repository=None,
    revision=None,
    path="any.jsonl",
    sha256=None,
    layout="plain",
    prompt_key="prompt",
    answer_key="answer",
    max_tokens=None,
    tokenizer=None,
    token_field=None,
    deduplicate=True,
    limit=None,
    expected_rows=None,
    exact_rows=False,
    grader="math",
)

PAIRS = st.lists(st.tuples(st.sampled_from("abcd "), st.sampled_from(["1", "1.", "2", ""])))


def rows(pairs: list[tuple[str, str]]) -> pl.DataFrame:
    columns = {
        "row": list(range(len(pairs))),
        "prompt": [prompt for prompt, _ in pairs],
        "answer": [answer for _, answer in pairs],
    }
    return pl.DataFrame(columns, {"row": pl.Int64, "prompt": pl.String, "answer": pl.String})


@pytest.mark.slow
@given(PAIRS)
def test_what_is_left_is_the_first_copy_of_every_problem_whose_answers_agree(pairs):
    table, rules, _ = select(rows(pairs), SPEC, None)
    filled = [(prompt, answer) for prompt, answer in pairs if prompt != " " and answer]
    values = {p: {answer.rstrip(".") for q, answer in filled if q == p} for p, _ in filled}
    expected = [p for p in dict.fromkeys(p for p, _ in filled) if len(values[p]) == 1]
    assert table["prompt"].to_list() == expected
    assert table.schema == PROBLEMS
    assert rules[-1].rows_after == len(table)
    before_after = [(rule.rows_before, rule.rows_after) for rule in rules]
    assert all(after == before for (_, after), (before, _) in pairwise(before_after))


def test_copies_stay_where_nothing_is_deduplicated():
    table, *_ = select(rows([("a", "1"), ("a", "2")]), replace(SPEC, deduplicate=False), None)
    assert table.rows() == [
        ("any-000000", "a", "1", "1", None),
        ("any-000001", "a", "2", "2", None),
    ]


def test_rows_at_the_length_limit_stay_and_longer_ones_go():
    spec = replace(SPEC, max_tokens=3, tokenizer="letters", token_field="prompt")
    table, rules, _ = select(
        rows([("abc", "1"), ("abcd", "1")]), spec, lambda texts: [len(text) for text in texts]
    )
    assert table["prompt"].to_list() == ["abc"]
    assert rules[1].rule == "at most 3 tokens of letters in prompt"


def test_the_expected_count_needs_no_remark():
    assert describe(replace(SPEC, expected_rows=5), 5) == "any: 5 rows"


def test_the_identity_follows_the_rules_and_not_what_is_only_reported():
    assert dataset_identity(replace(SPEC, expected_rows=7)) == dataset_identity(SPEC)
    assert dataset_identity(replace(SPEC, limit=7)) != dataset_identity(SPEC)
    assert dataset_identity(replace(SPEC, sha256="0" * 64)) != dataset_identity(SPEC)
    assert "cluster" not in dataset_identity(SPEC)
    assert dataset_identity(replace(SPEC, cluster="a")) == dataset_identity(SPEC) | {"cluster": "a"}
    assert dataset_fields(replace(SPEC, cluster="a")) == dataset_fields(SPEC), "training has none"
    assert from_dict(DatasetSpec, to_dict(SPEC)) == SPEC


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "huggingface"}, "huggingface takes a repository"),
        ({"repository": "a/b"}, "file takes none"),
        ({"revision": "main"}, "a file has no revision"),
        ({"max_tokens": 9}, "a length limit needs all three"),
        ({"tokenizer": "a/b", "token_field": "prompt"}, "without one all three are null"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SPEC, **changes)


@pytest.mark.parametrize("deduplicate", [True, False])
def test_mazes_that_are_no_trees_are_refused_with_their_row(deduplicate):
    task = MazeTask(MazeSpec(name="maze", seed=4, size=9, n_train=9, n_heldout=1))
    mazes = [(problem.prompt, problem.target) for problem in task.problems(range(3))]
    spec = replace(SPEC, grader="maze", deduplicate=deduplicate)
    table, *_ = select(rows(mazes), spec, None)
    assert table["gold_used"].to_list() == [maze for _, maze in mazes]
    prompt, maze = mazes[1]
    wrong = [mazes[0], (prompt, maze[:-13] + "#" + maze[-12:]), mazes[2]]  # the goal is a wall
    table, _, taken = select(rows(wrong), spec, None)
    faults = find_faults(table, spec, taken["_refused"], lambda done, of: None)
    assert str(describe_faults(faults, spec)).startswith(
        "row 1 of dataset any, column answer: a maze has G at no"
    )
