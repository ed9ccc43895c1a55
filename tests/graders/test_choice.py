"""The choice grader on any text, and the order of choices; its case table is in test_cases.py."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders.choice import grade, guessing_floor, permutation, read


def letter_of(response: str) -> str | None:
    statement = read(response)
    return None if statement is None else statement.letter


def problem(gold: str) -> Problem:
    return Problem(benchmark="gpqa", problem_id="1", prompt="", target=gold, grader="choice")


PIECES = st.sampled_from(
    ["\\boxed{", "}", "{", "(", ")", "A", "B", "E", "the answer is ", "Answer:", "</think>", "\n",
     "\\text", "*", "$", ".", " ", "\\", "\0", "\ud83d"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from("ABCD"))
def test_a_box_with_one_letter_at_the_end_always_counts(text, letter):
    assert letter_of(f"{text} So \\boxed{{{letter}}}") == letter
    assert grade(problem(letter), f"{text} So \\boxed{{{letter}}}").outcome == "correct"


@given(st.text(max_size=80) | st.lists(PIECES, max_size=30).map("".join))
def test_what_is_extracted_is_a_letter_of_the_text_or_nothing(text):
    letter = letter_of(text)
    assert letter is None or (letter in "ABCD" and letter in text.upper())


@given(
    st.lists(PIECES.filter(lambda piece: "boxed" not in piece), max_size=30).map("".join),
    st.sampled_from(["({})", "\\boxed{{{}}}"]),
    st.sampled_from([" or ", ", ", " and ", "/", " \\text{ or } "]),
    st.permutations("ABCD"),
)
def test_letters_that_are_joined_settle_nothing_after_any_text_without_a_box(
    text, form, joint, letters
):
    both = joint.join(form.format(letter) for letter in letters[:2])
    assert letter_of(f"{text}\nSo the answer is {both}.") is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (r"The answer is (A). \boxed{B}", "the right choice, in a box"),
        ("The answer is (A). <answer>B</answer>", "the right choice, in a tag"),
        ("It must be A. The answer is (B).", "the right choice, as the answer"),
        ("It must be C.", "another choice, in a conclusion"),
        ("The answer is (B) or (C).", "not settled, as the answer"),
        ("I do not know.", "no letter found"),
    ],
)
def test_the_strongest_kind_of_statement_decides_and_the_reason_names_it(response, reason):
    assert grade(problem("B"), response).reason == reason


def test_the_order_of_choices_follows_from_the_record_and_puts_the_right_one_everywhere_alike():
    assert permutation("record 1") == permutation("record 1")
    places = Counter(permutation(f"record {i}").index(0) for i in range(4_000))
    assert all(abs(places[place] - 1_000) < 100 for place in range(4))
    assert len({permutation(f"record {i}") for i in range(4_000)}) == 24
    orders = [[permutation(f"record {i}", seed) for i in range(9)] for seed in (0, 1)]
    assert orders[0] != orders[1]


def test_the_guessing_floor_is_the_chance_of_a_right_guess_among_k():
    assert guessing_floor(1) == 0.25
    assert guessing_floor(2) == 1 - 0.75**2
    assert 0.99 < guessing_floor(17) < guessing_floor(64) < 1
    assert guessing_floor(3, n_choices=2) == 0.875
    with pytest.raises(ValueError, match="must be at least 1"):
        guessing_floor(0)
