"""HTML: every text is text, and a drawing neither runs nor fetches anything."""

from __future__ import annotations

from fgrpo_bench.documents.html import html, inline_svg
from fgrpo_bench.documents.table import Figure, Heading, Notes, Outline, Paragraph, Table, Value
from tests.support.html import Seen

HOSTILE = "<script>alert(1)</script>\"' & \x1b[31m <b>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


def test_whatever_is_in_the_data_stays_text():
    blocks = [
        Heading(text=HOSTILE),
        Paragraph(text=HOSTILE, strong=True),
        Outline(sections=((HOSTILE, [(HOSTILE, HOSTILE)]),)),
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
