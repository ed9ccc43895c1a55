"""Untrusted text as markup: everything shown, nothing alive, mathematics set."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.text import LONGEST_TEXT, formula, rendered, shortened, visible
from tests.support.dashboard import HOSTILE, Reader, assert_inert


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_letter_by_letter_and_makes_no_element_of_its_own(text):
    page = str(rendered(text))
    assert_inert(page)
    tags = {tag for tag, _ in Reader(page).elements}
    assert tags <= {"span", "math", "mrow", "mi", "mo", "mn", "mtext", "mspace"}
    if "math" not in tags:
        assert Reader(page).text == visible(text)


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_any_text_whatever_its_characters_is_inert_and_can_be_encoded(text):
    page = str(rendered(text))
    assert_inert(page)
    page.encode("utf-8", "replace")


@given(st.text(alphabet="\\{}$^_&<>abfrctexhlsymoj:()[]\"' 1", max_size=80))
def test_any_formula_gives_known_elements_or_stays_text(source):
    assert_inert(str(rendered(f"${source}$ and \\[{source}\\]")))


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("so $\\frac{1}{2}$ it is", "mfrac"),
        ("\\[ \\sqrt{2} \\]", "msqrt"),
        ("\\( x^2 \\)", "msup"),
        ("$$\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}$$", "mtable"),
        ("the answer is $\\boxed{5}$", "menclose"),
    ],
)
def test_mathematics_becomes_mathml_whatever_its_delimiters(text, element):
    assert element in {tag for tag, _ in Reader(str(rendered(text))).elements}


@pytest.mark.parametrize(
    "source",
    [
        "\\href{javascript:alert(1)}{x}",
        "\\style{color:red}{x}",
        "\\class{a}{x}",
    ],
)
def test_links_styles_and_classes_of_a_formula_are_dropped(source):
    made = formula(source, block=False) or ""
    inside = made.partition("<math")[2]
    assert inside
    for word in ("href", "style=", "class="):
        assert word not in inside


def test_tags_that_the_converter_lets_through_leave_the_formula_as_text():
    assert formula("\\text{<script>alert(1)</script>}", block=False) is None
    assert formula("\\text{<b>bold</b>}", block=False) is None


def test_prices_and_shell_variables_are_no_formulas():
    assert "<math" not in str(rendered("it costs $5 and then $7"))
    assert "<math" not in str(rendered("a\\$b\\$c"))


@pytest.mark.parametrize(
    "piece", ["{", "\\frac", "\\left(", "^", "\\sqrt{", "$", "\\[", "\\(", "\\begin{matrix}"]
)
def test_text_made_to_be_slow_is_rendered_in_a_moment(piece):
    begun = time.process_time()
    rendered(piece * 100_000)
    rendered("$" + piece * 100_000 + "$")
    rendered(("$" + piece * 20 + "x$ ") * 3_000)
    assert time.process_time() - begun < 2


def test_what_is_too_long_is_cut_and_says_so():
    page = Reader(str(rendered("a" * (LONGEST_TEXT + 1_234)))).text
    assert page.endswith("[1,234 more characters are not shown]")


def test_characters_that_hide_or_reorder_are_spelled_out():
    assert visible("a\u202eb\x1b[0m\u200b\n\t") == "a\\u202eb\\x1b[0m\\u200b\n\t"
    assert visible("\udc80") == "\\udc80"
    assert shortened("two\n lines", 6) == "two l…"
