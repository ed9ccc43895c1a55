"""Model output that tries to be markup is text: by itself, on every page and in every chart;
mathematics is set."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.page import VIEWS
from dashboards.text import LONGEST_TEXT, formula, rendered, shortened, visible
from fgrpo_bench.files.whole import read_json, write_json, write_text
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.tables import PASSK, read_table, write_table
from tests.dashboards.conftest import client_of
from tests.support.dashboard import HOSTILE, Reader, assert_inert, sweep_with_draws
from tests.support.watched import note

BASE = "/groupsize/countdown/v1"


@pytest.mark.slow
def test_pages_over_hostile_draws_run_nothing_and_show_the_text(hostile):
    client = client_of(hostile.paths.root)
    for view in VIEWS:
        page = client.get(f"{BASE}/{view}").text
        assert_inert(page)
        for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page):
            json.loads(block)
            assert "<" not in block, "it cannot end its script element"
    shown = Reader(client.get(f"{BASE}/draws").text).text
    for text in HOSTILE:
        if "$" not in text:
            assert visible(text) in shown, text
    group = Reader(client.get(f"{BASE}/rollouts", params={"run": "grpo-n8-g1-s12"}).text).text
    for text in HOSTILE[4:6]:
        assert visible(text) in group, text
    answer = client.get(f"{BASE}/draws", params={"answer": HOSTILE[0]})
    assert answer.status_code == 200
    assert_inert(answer.text)


@pytest.mark.slow
def test_hostile_names_in_the_stored_files_are_text_too(tmp_path):
    results = sweep_with_draws(tmp_path)
    name = HOSTILE[1]
    declared = read_json(results.paths.sweep_json)
    declared["declaration"]["sweep"]["question"] = name
    write_json(results.paths.sweep_json, with_checksum(declared))
    for point in results.points:
        path = point.evaluate.benchmark("countdown").passk()
        table = read_table(path, PASSK)
        table = table.with_columns(problem_id=table["problem_id"].replace("p000", name))
        write_table(path, table, PASSK)
        manifest = point.evaluate.benchmark("countdown").manifest
        write_json(manifest, read_json(manifest) | {"engines": [{name: name}]})
    failed = results.points[-1]
    failed.evaluate.done.unlink()
    failed.train.done.unlink()
    write_text(failed.train.log(1), f"{name}\n")
    note(failed.train, outcome="failed")
    client = client_of(tmp_path)
    for view in VIEWS:
        page = client.get(f"{BASE}/{view}").text
        assert_inert(page)
        if view in ("sweep", "audit", "forgetting"):
            assert name[:30] in Reader(page).text, view
    assert_inert(client.get(f"{BASE}/draws", params={"problem": name}).text)


@pytest.mark.parametrize("value", HOSTILE)
def test_an_error_shows_a_hostile_parameter_as_text(client, value):
    answer = client.get(f"{BASE}/compare", params={"k": value})
    assert answer.status_code == 404
    assert_inert(answer.text)
    assert "<script>window" not in answer.text
    assert unescape(answer.text).count("window.hacked") <= 2


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
    "source", ["\\href{javascript:alert(1)}{x}", "\\style{color:red}{x}", "\\class{a}{x}"]
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["{", "\\frac", "\\left(", "^", "\\sqrt{", "$", "\\[", "\\(", "\\begin{matrix}"]
)
def test_text_made_to_be_slow_is_rendered_in_a_moment(piece):
    begun = time.process_time()
    rendered(piece * 25_000)
    rendered("$" + piece * 25_000 + "$")
    rendered(("$" + piece * 20 + "x$ ") * 750)
    assert time.process_time() - begun < 2


def test_what_is_too_long_is_cut_and_says_so():
    page = Reader(str(rendered("a" * (LONGEST_TEXT + 1_234)))).text
    assert page.endswith("[1,234 more characters are not shown]")


def test_characters_that_hide_or_reorder_are_spelled_out():
    assert visible("a\u202eb\x1b[0m\u200b\n\t") == "a\\u202eb\\x1b[0m\\u200b\n\t"
    assert visible("\udc80") == "\\udc80"
    assert shortened("two\n lines", 6) == "two l…"
