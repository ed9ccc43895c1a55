"""What of a column of answers is the gold, and which files have none."""

from __future__ import annotations

import pytest

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import golds
from fgrpo_bench.data.golds import AS_IT_IS, forms_summary, understood
from fgrpo_bench.graders import get_grader

SHORT = {  # published: gold of math, where it stood
    "She makes 9*2 = $<<9*2=18>>18.\n#### 18": ("18", "behind ####"),
    "It is <<50*1150=57500>>57,500.\n#### 57,500": ("57,500", "behind ####"),
    "2+3 = 5\n#### 5\nThe answer is: 5": ("5", "behind ####"),
    "#### Conclusion\nHence $x = \\boxed{4}$, as was to be shown.": ("4", "in the last box"),
    "Either $\\boxed{1}$ or $\\boxed{2}$.": ("1, 2", "in the last box"),
    "First \\boxed{3}. No, $\\boxed{\\frac{1}{2}}$.": ("\\frac{1}{2}", "in the last box"),
    "$10-4 n$": ("10-4 n", "in dollars"),
    "9 (apples)": ("9", "before a unit in parentheses"),
    "1,200 (pieces of drawing paper)": ("1,200", "before a unit in parentheses"),
    "350 (g)": ("350", "before a unit in parentheses"),
    '["24"]': ("24", "in a list of one"),
    "['\\frac{1}{2}']": ("\\frac{1}{2}", "in a list of one"),
    "[24]": ("24", "in a list of one"),
    '{"answer": 18, "unit": "m"}': ("18", "in an object"),
    "<answer>3</answer> or rather <answer> 7 </answer>": ("7", "in <answer>"),
    "We add them up.\nA: 18": ("18", 'behind "answer"'),
    "So 9*2 = 18. **The answer is: 18.**": ("18", 'behind "answer"'),
    "145.0": ("145", "as whole numbers"),
    # what looks like one of these and is none
    "2 (mod 5)": ("2 (mod 5)", AS_IT_IS),
    "10 (base two)": ("10 (base two)", AS_IT_IS),
    "5 (x)": ("5 (x)", AS_IT_IS),
    "(1, 2)": ("(1, 2)", AS_IT_IS),
    "[1, 2]": ("[1, 2]", AS_IT_IS),
    "\\{1, 2\\}": ("\\{1, 2\\}", AS_IT_IS),
    "$1$ and $2$": ("$1$ and $2$", AS_IT_IS),
    "$18": ("$18", AS_IT_IS),
    "##### 5": ("##### 5", AS_IT_IS),
    "Nobody can answer that": ("Nobody can answer that", AS_IT_IS),
    "1.50": ("1.50", AS_IT_IS),
}


@pytest.mark.parametrize("published", SHORT)
def test_the_short_answer_is_taken_for_mathematics_and_for_functions(published):
    (gold,) = understood([("What?", published)], "math")
    assert (gold.text, gold.form, gold.refused) == (*SHORT[published], None)
    (own,) = understood([("What?", published)], "mypkg.grade:grade")
    assert own.form == gold.form and (own.text == gold.text or gold.form == AS_IT_IS)


NO_GOLD = {
    "First we add 2 and 3 to get 5.\nThen we double it, which gives ten.": "a text of 13 words",
    "Therefore the total is 18 apples.": "a text of 5 words",
    "$$": "it is empty",
    "\\boxed{}": "it is empty",
    "So we add.\n####": "nothing stands behind its ####",
    '["3", "5"]': "a list of 2 answers",
    '{"a": 3, "b": 5}': "an object with 2 keys",
    "B. 5": "names an option by its letter",
}


@pytest.mark.parametrize("published", NO_GOLD)
def test_an_answer_without_a_short_one_is_refused_for_mathematics_alone(published):
    prompt = "Which is prime? (A) 4 (B) 5 (C) 6"
    (gold,) = understood([(prompt, published)], "math")
    assert NO_GOLD[published] in str(gold.refused)
    (own,) = understood([(prompt, published)], "mypkg.grade:grade")
    assert (own.text, own.refused) == (published, None)


@pytest.mark.parametrize("grader", ["ifeval", "synlogic", "countdown"])
def test_graders_that_expect_no_answer_get_it_as_it_is(grader):
    published = '{"answer": "a\\n#### 18"}'
    (gold,) = understood([("What?", published)], grader)
    assert (gold.text, gold.form, gold.refused) == (published, AS_IT_IS, None)


def listed(*options: str) -> str:
    return "Which?\n" + "\n".join(f"{chr(65 + i)}. {text}" for i, text in enumerate(options))


FOUR = listed("red", "green", "blue", "white")
NUMBERS = listed("0", "1", "2", "3")
TEN = listed(*(f"option {i}" for i in range(10)))
CHOICES = [  # rows, golds or why they are none
    ([(FOUR, "b"), (FOUR, "(D)"), (FOUR, "C. blue")], ["B", "D", "C"]),
    ([(TEN, "J"), (TEN, "E")], ["J", "E"]),
    ([(FOUR, "0"), (FOUR, "3")], ["A", "D"]),
    ([(FOUR, "1"), (FOUR, "4")], ["A", "D"]),
    ([(TEN, "1"), (FOUR, "4")], ["A", "D"]),
    ([(FOUR, "1"), (FOUR, "3")], "may count the options from 0 or from 1"),
    ([(FOUR, "0"), (FOUR, "4")], "neither the place of an option nor its text"),
    ([(FOUR, "green"), (FOUR, "White")], ["B", "D"]),
    ([(listed("4", "5", "6"), "5")], ["B"]),
    ([(NUMBERS, "1"), (NUMBERS, "2")], "may be an option's text or its place"),
    ([(NUMBERS, "0"), (NUMBERS, "3")], ["A", "D"]),
    ([(FOUR, "E")], "none of the letters ABCD"),
    ([(FOUR, "A, C")], "none of the letters ABCD"),
    ([("Which?", "2")], "the problem lists no options"),
    ([("Which?", "G")], ["G"]),
    ([("Which?\n1. red\n2. blue", "2")], ["2"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "expected"), CHOICES)
def test_golds_of_choice_are_letters_places_or_texts_as_the_whole_file_has_them(rows, expected):
    taken = understood(rows, "choice")
    if isinstance(expected, str):
        assert all(expected in str(gold.refused) for gold in taken)
    else:
        assert [(gold.text, gold.refused) for gold in taken] == [(text, None) for text in expected]


def test_letters_of_listed_options_are_refused_for_mathematics():
    assert all(gold.refused for gold in understood([(FOUR, "A"), (FOUR, "B")], "math"))
    assert not any(gold.refused for gold in understood([("x?", "A"), ("y?", "B")], "math"))


def test_a_line_counts_every_form():
    assert forms_summary([AS_IT_IS, AS_IT_IS]) is None
    assert forms_summary(["behind ####"] * 1500) == "answers: behind ####, 1,500 of 1,500"
    assert forms_summary(["in dollars", AS_IT_IS, AS_IT_IS]) == (
        "answers: as they stand, 2 of 3; in dollars, 1 of 3"
    )


def test_a_gold_is_tried_boxed_and_bare_and_as_the_number_that_it_is():
    assert list(golds.trials("57,500", "math")) == [
        *("\\boxed{57,500}", "\\boxed{57500}", "The answer is 57,500.")
    ]
    assert list(golds.trials("\\pi", "math")) == ["\\boxed{\\pi}", "The answer is $\\pi$."]
    assert list(golds.trials("B", "choice")) == ["\\boxed{B}", "The answer is B."]
    assert not list(golds.trials("16", "countdown"))


@pytest.mark.parametrize(
    ("gold", "near"),
    [
        *(("4:40 a.m", "4:41 a.m"), ("3 : 5 : 7", "3 : 5 : 8"), ("1 + 2004!", "1 + 2004")),
        *(("MR=SRMC", "MR=SRAC"), ("Mrs. Hilt", "Mrs. Hill"), ("8!", "8")),
        ("$f(x)=a x+b$, where $b$ is an integer", "$f(x)=a x+b$, where $a$ is an integer"),
    ],
)
def test_a_gold_of_any_form_is_read_without_a_box_and_what_is_near_it_is_not(gold, near):
    problem = Problem(benchmark="b", problem_id="p", prompt="?", target=gold, grader="math")
    verdicts = [get_grader("math")(problem, f"The answer is {said}.") for said in (gold, near)]
    assert [verdict.outcome for verdict in verdicts] == ["correct", "incorrect"]
