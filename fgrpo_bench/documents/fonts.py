"""The fonts within PDF files: what a figure needs of one, cut out of it once for many figures.

A PDF holds the glyphs that it uses, and to cut these out of a font takes as long as to draw a
small figure. So all of them hold COMMON, and what else each uses: most share one part, and what a
file holds does not depend on those that were drawn before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

from matplotlib.backends import _backend_pdf_ps
from matplotlib.font_manager import get_font

COMMON = [*range(0x20, 0x7F), *map(ord, "\N{MINUS SIGN}\ufb00\ufb01\ufb02\ufb03\ufb04")]
"""Characters that all files hold: those of ASCII, the minus of axes, and ff, fi, fl, ffi and ffl as
one glyph."""
_backend: Any = _backend_pdf_ps  # not public, so without types that hold
_own_subset: Callable[..., Any] = _backend.get_glyphs_subset


@contextmanager
def shared_fonts() -> Iterator[None]:
    """Within this, matplotlib takes parts of fonts from `_part`."""
    _backend.get_glyphs_subset = _subset
    try:
        yield
    finally:
        _backend.get_glyphs_subset = _own_subset


@dataclass(frozen=True)
class _Part:
    """As matplotlib's SubsetResults, of which it saves the font and looks into the map."""

    content: bytes
    glyph_index_map: Mapping[int, int]
    """From a glyph's index in the whole font to that in this part."""

    @property
    def font(self) -> _Part:
        return self

    def save(self, file: BinaryIO, **_: object) -> None:
        """As fontTools' TTFont."""
        file.write(self.content)


@contextmanager
def _subset(path: Any, glyphs: Iterable[int]) -> Iterator[_Part]:
    """In the place of matplotlib's get_glyphs_subset."""
    yield _part(path, frozenset(glyphs) | _common(path))


@lru_cache
def _common(path: Any) -> frozenset[int]:
    font = get_font(path)
    return frozenset(map(font.get_char_index, COMMON))


@lru_cache
def _part(path: Any, glyphs: frozenset[int]) -> _Part:
    with _own_subset(path, set(glyphs)) as made:
        return _Part(_backend.font_as_file(made.font).getvalue(), made.glyph_index_map)
