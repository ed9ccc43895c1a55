"""The choice grader on any text, and the order of choices; its case table is in test_cases.py."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders.choice import (
    grade,
    grade_strict,
    guessing_floor,
    letter_in,
    options_in,
    permutation,
)
from fgrpo_bench.graders.choice_reading import read_choice


def read_letter(response: str) -> str | None:
    statement = read_choice(response)
    return None if statement is None else statement.letter


def problem(gold: str, prompt: str = "") -> Problem:
    return Problem(benchmark="gpqa", problem_id="1", prompt=prompt, target=gold, grader="choice")


PIECES = st.sampled_from(
    ["\\boxed{", "}", "{", "(", ")", "A", "B", "E", "the answer is ", "Answer:", "</think>", "\n",
     "\\text", "*", "$", ".", " ", "\\", "\0", "\ud83d"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from("ABCD"))
def test_a_box_with_one_letter_at_the_end_always_counts(text, letter):
    assert read_letter(f"{text} So \\boxed{{{letter}}}") == letter
    assert grade(problem(letter), f"{text} So \\boxed{{{letter}}}").outcome == "correct"


@pytest.mark.slow
@given(st.text(max_size=80) | st.lists(PIECES, max_size=30).map("".join))
def test_what_is_extracted_is_a_letter_of_the_text_or_nothing(text):
    letter = read_letter(text)
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
    assert read_letter(f"{text}\nSo the answer is {both}.") is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (r"The answer is (A). \boxed{B}", "the right choice, in a box"),
        ("The answer is (A). <answer>B</answer>", "the right choice, in a tag"),
        ("It must be A. The answer is (B).", "the right choice, as the answer"),
        ("It must be C.", "another choice, in a conclusion"),
        ("B", "the right choice, in a conclusion"),
        ("Twice the rate.\n\nB", "the right choice, by its place alone"),
        ("The answer is (B) or (C).", "not settled, as the answer"),
        ("I do not know.", "no letter found"),
    ],
)
def test_the_strongest_kind_of_statement_decides_and_the_reason_names_it(response, reason):
    assert grade(problem("B"), response).reason == reason


def test_a_strict_grader_takes_what_a_response_states_and_not_what_it_ends_in():
    for response in (r"\boxed{B}", "<answer>B</answer>", "The answer is B.", "B is the answer."):
        assert grade_strict(problem("B"), response).outcome == "correct"
    for response in ("B", "It must be B.", "Twice the rate.\n\nB", "The answer is C. Wait, so B."):
        assert grade(problem("B"), response).outcome == "correct"
        strict = grade_strict(problem("B"), response)
        assert strict.outcome == "incorrect" and strict.reason.startswith("not stated, the right")
    assert grade_strict(problem("none"), "It must be B.").outcome == "unscored"


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("Which?\n\nA. 4\nB. 5\n\nAnswer with a letter: A or B.", ["4", "5"]),
        ("Which? (A) 4 (B) 5 (C) 6", ["4", "5", "6"]),
        ("Answer Choices: A)36 B)15 C)17", ["36", "15", "17"]),
        (r"$\textbf{(A)}\ 1 \qquad\textbf{(B)}\ 2 \qquad\textbf{(C)}\ 3$", ["1", "2", "3$"]),
        ("- **A)** red\n- **B)** blue", ["red", "blue"]),
        ("a) red\nb) blue", ["red", "blue"]),
        ("A. x\nB. y\nC. z\nAnswer: C\n\nWhich?\nA. u\nB. v\nAnswer:", ["u", "v"]),
        ("A. (A) only\nB. (B) only\nC. both (A) and (B)", ["(A) only", "(B) only"]),
        ("Answer with (A), (B), (C) or (D).", []),
        ("A ball (A) hits another (B). How fast?", []),
        ("Vitamin A. B. Smith found it.", []),
        ("1. red\n2. blue", []),
    ],
)
def test_the_options_are_those_that_the_prompt_lists_last(prompt, texts):
    assert list(options_in(prompt).values())[: len(texts) or 1] == texts


@pytest.mark.parametrize(
    ("gold", "letter"),
    [
        ("B", "B"), ("b", "B"), ("(b)", "B"), ("$B$", "B"), (r"\boxed{B}", "B"), ("B) 5", "B"),
        ("option B", "B"), ("5", "B"), ("1", "B"), ("6 cm", "C"), ("6CM", "C"), ("2", "C"),
        ("B) 4", None), ("E", None), ("7", None), ("AB", None), ("A, B", None), ("", None),
        ("d", None),
    ],
)  # fmt: skip
def test_a_gold_means_one_letter_or_none(gold, letter):
    assert letter_in(gold, {"A": "4", "B": "5", "C": "6 cm", "D": "x", "F": "d"}) == letter


def test_the_order_of_choices_follows_from_the_record_and_puts_the_right_one_everywhere_alike():
    assert permutation("record 1") == permutation("record 1")
    places = Counter(permutation(f"record {i}").index(0) for i in range(4_000))
    assert all(abs(places[place] - 1_000) < 100 for place in range(4))
    assert len({permutation(f"record {i}") for i in range(4_000)}) == 24
    orders = [[permutation(f"record {i}", seed) for i in range(9)] for seed in (0, 1)]
    assert orders[0] != orders[1]


def test_the_guessing_floor_is_the_chance_of_a_right_guess_among_k():
    assert guessing_floor(1, [4]) == 0.25
    assert guessing_floor(2, [4, 4]) == 1 - 0.75**2
    assert 0.99 < guessing_floor(17, [4]) < guessing_floor(64, [4]) < 1
    assert guessing_floor(3, [2, 1]) == (0.875 + 1) / 2
    assert guessing_floor(1, []) is None and guessing_floor(1, [4, 0]) is None
    with pytest.raises(ValueError, match="must be at least 1"):
        guessing_floor(0, [4])
