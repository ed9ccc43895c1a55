"""The HTML page of a report: one file that needs nothing else."""

from __future__ import annotations

import pytest

from fgrpo_bench.report.build import render
from tests.support.html import Seen


@pytest.fixture(scope="module")
def page(analysis):
    return render(analysis, "html")


def test_the_page_holds_everything_and_asks_for_nothing(page):
    seen = Seen(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
    outside = [v for n, v in seen.attributes if n in ("src", "href", "xlink:href")]
    assert outside and all(value.startswith("#") for value in outside)
    assert seen.tags.count("svg") == 7 + 5  # and for narrow screens
    assert "viewport" in [value for name, value in seen.attributes if name == "name"]


def test_ids_are_unique_and_every_link_has_its_end(page):
    seen = Seen(page)
    assert len(set(seen.ids)) == len(seen.ids)
    ends = {value[1:] for name, value in seen.attributes if name.endswith("href")}
    assert ends <= set(seen.ids)


def test_marks_and_numbers_are_those_of_the_tables(page):
    assert "<strong>31.5</strong> / <strong>70.1</strong>" in page
    assert "Does a focal weight at N = 8" in page
