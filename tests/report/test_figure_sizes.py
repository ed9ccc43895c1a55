"""Figures have the width that they have on paper, and letters that can be read there."""

from __future__ import annotations

import re
from itertools import combinations

import matplotlib
import pytest
from matplotlib.text import Text

from fgrpo_bench.documents.style import COLUMN, PAGE, RC, SIZE, SMALL, drawings, in_math, wrapped
from fgrpo_bench.documents.table import in_column
from fgrpo_bench.report.figures import pictures

POINTS = 72
"""An inch."""


@pytest.mark.parametrize("width", [PAGE, COLUMN])
def test_files_are_as_wide_as_the_paper_wants_and_their_letters_have_seven_or_eight_points(
    analysis, width
):
    name = "differences-countdown" if width == PAGE else in_column("differences-countdown")
    (draw,) = [p.versions[name] for p in pictures(analysis) if name in p.versions]
    drawn = drawings(draw)
    svg, pdf = drawn["svg"].decode(), drawn["pdf"].decode("latin-1")
    assert re.search(r'<svg [^>]*?\bwidth="([\d.]+)pt"', svg)[1] == f"{POINTS * width:g}"
    assert re.search(r"/MediaBox \[ 0 0 ([\d.]+) ", pdf)[1] == f"{POINTS * width:g}"
    letters = {round(100 * float(scale), 3) for scale in re.findall(r"scale\(([\d.]+) -", svg)}
    assert letters == {SIZE, SMALL}
    assert r"$\gamma$" in svg and "gamma=" not in svg


def test_every_figure_keeps_its_words_apart_on_the_page_and_in_a_column(analysis):
    names = []
    for picture in pictures(analysis):
        for name, draw in picture.versions.items():
            names.append(name)
            with matplotlib.rc_context(RC):
                figure = draw()
                figure.draw_without_rendering()
            assert figure.get_figwidth() == (COLUMN if name == in_column(picture.name) else PAGE)
            words = shown(figure)
            assert {text.get_fontsize() for text in words} <= {SIZE, SMALL}
            boxes = [(text.get_text(), text.get_window_extent()) for text in words]
            page = figure.bbox.padded(1)
            assert not [text for text, box in boxes if not page.containsx(box.x1)], name
            assert not [text for text, box in boxes if not page.contains(box.x0, box.y0)], name
            for (text, box), (other, beside) in combinations(boxes, 2):
                assert not box.padded(-1).overlaps(beside.padded(-1)), (name, text, other)
    assert len(names) == 12


def shown(figure):
    """What is written in a figure: no tick outside its axis, and none of an empty panel."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden |= {t.label1 for t in ticks if not low <= t.get_loc() <= high}
        hidden |= {t.label2 for t in ticks}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text() and text not in hidden
        if text.axes is None or text.axes.axison
    ]


def test_symbols_are_math_and_nothing_else_is():
    assert in_math("F-GRPO N=8 gamma=1") == r"F-GRPO $N$=8 $\gamma$=1"
    assert in_math("cost in $") == r"cost in \$"
    assert wrapped("pass@256 on a benchmark with a long name (%)", 1.2).count("\n") >= 1
