"""Parts of fonts that PDF figures share."""

from __future__ import annotations

import pytest
from matplotlib.backends import _backend_pdf_ps
from matplotlib.figure import Figure

from fgrpo_bench.documents import style
from fgrpo_bench.documents.style import drawings


def figure_of(text: str) -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, text)
    return figure


@pytest.mark.slow
def test_figures_share_a_part_of_a_font_unless_they_have_further_characters() -> None:
    style._part.cache_clear()
    for text in ("pass@1", "first differences: \N{MINUS SIGN}0.5", "\N{GREEK SMALL LETTER GAMMA}"):
        drawings(lambda text=text: figure_of(text), ["pdf"])
    assert style._part.cache_info().misses == 2


@pytest.mark.slow
def test_a_file_has_the_same_bytes_after_others_and_truetype_outlines() -> None:
    alone = drawings(lambda: figure_of("pass@256"), ["pdf"])
    style._part.cache_clear()
    drawings(lambda: figure_of("other words: \N{GREEK SMALL LETTER GAMMA}"), ["pdf"])
    assert drawings(lambda: figure_of("pass@256"), ["pdf"]) == alone
    assert b"/FontFile2" in alone["pdf"] and b"/Type3" not in alone["pdf"]


def test_matplotlib_of_others_is_as_it_was() -> None:
    before = _backend_pdf_ps.get_glyphs_subset
    drawings(lambda: figure_of("pass@1"), ["pdf"])
    assert _backend_pdf_ps.get_glyphs_subset is before
