"""The HTML page: one file that needs nothing else, in which every text is text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from fgrpo_bench.report.build import render
from fgrpo_bench.report.content import Effects, Figure, Heading, Notes, Paragraph
from fgrpo_bench.report.page import html, inline_svg
from fgrpo_bench.report.shape import Table, Value

HOSTILE = "<script>alert(1)</script>\"' & \x1b[31m <b>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


class Seen(HTMLParser):
    """What a browser would take for elements, attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text = [], [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page(finished):
    return render(finished, "html")


def test_the_page_holds_everything_and_asks_for_nothing(page):
    seen = Seen(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
    outside = [v for n, v in seen.attributes if n in ("src", "href", "xlink:href")]
    assert outside and all(value.startswith("#") for value in outside)
    assert seen.tags.count("svg") == 5
    assert "viewport" in [value for name, value in seen.attributes if name == "name"]


def test_ids_are_unique_and_every_link_has_its_end(page):
    seen = Seen(page)
    assert len(set(seen.ids)) == len(seen.ids)
    ends = {value[1:] for name, value in seen.attributes if name.endswith("href")}
    assert ends <= set(seen.ids)


def test_marks_and_numbers_are_those_of_the_tables(page):
    assert "<strong>31.5</strong> / <strong>70.1</strong>" in page
    assert "Does a focal weight at N = 8" in page


def test_whatever_is_in_the_data_stays_text():
    blocks = [
        Heading(text=HOSTILE),
        Paragraph(text=HOSTILE, strong=True),
        Effects(sections=((HOSTILE, [(HOSTILE, HOSTILE)]),)),
        Notes(lines=(HOSTILE,)),
        Table(
            title=HOSTILE,
            header=(HOSTILE, HOSTILE),
            rows=((HOSTILE, (Value(text=HOSTILE, best=True, significant=True, incomplete=True),)),),
            notes=(HOSTILE,),
            legend=((Value(text=HOSTILE), HOSTILE),),
        ),
        Figure(name="a b", caption=HOSTILE),
    ]
    seen = Seen(html(HOSTILE, blocks, {"a b": f"{SVG}/>"}))
    assert "script" not in seen.tags and "b" not in seen.tags
    assert seen.text.count("<script>alert(1)</script>") > 10
    assert "\x1b" not in seen.text


def test_a_drawing_that_runs_or_fetches_something_is_disarmed():
    drawing = (
        f'{SVG}width="9pt" onload="x()"><metadata>m</metadata><script>y()</script><!-- c -->'
        '<defs><path id="p"/></defs><use xlink:href="#p" clip-path="url(#p)"/>'
        '<image xlink:href="http://example.org/x.png"/></svg>'
    )
    made = inline_svg(drawing, name="fig 1", label="two < three")
    for gone in ("onload", "script", "metadata", "<!--", "http://example.org", "9pt"):
        assert gone not in made
    assert 'id="fig-1-p"' in made and 'xlink:href="#fig-1-p"' in made
    assert "url(#fig-1-p)" in made and 'aria-label="two &lt; three"' in made
