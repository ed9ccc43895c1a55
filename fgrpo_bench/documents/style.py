"""How figures look: one style, fonts, and saving; colours are in documents.colors.

A figure is drawn for the width that it has on paper, so that its letters have their size there, on
its own canvas, without pyplot and its global state; the same data give the same bytes (no date,
fixed ids). Importing this loads matplotlib: whoever draws only sometimes imports it there.

A PDF holds the glyphs that it uses, and to cut these out of a font takes as long as to draw a small
figure. So all of them hold COMMON, and what else each uses: most share one part, and what a file
holds does not depend on those that were drawn before it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends import _backend_pdf_ps
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font

from fgrpo_bench.documents.latex import with_symbols
from fgrpo_bench.files.whole import write_whole

COMMON = [*range(0x20, 0x7F), *map(ord, "\N{MINUS SIGN}\ufb00\ufb01\ufb02\ufb03\ufb04")]
"""Characters that all files hold: those of ASCII, the minus of axes, and ff, fi, fl, ffi and ffl as
one glyph."""
_backend: Any = _backend_pdf_ps  # not public, so without types that hold
_backend_subset: Callable[..., Any] = _backend.get_glyphs_subset


@contextmanager
def _shared_fonts() -> Iterator[None]:
    """Within this, matplotlib takes parts of fonts from `_part`."""
    _backend.get_glyphs_subset = _subset
    try:
        yield
    finally:
        _backend.get_glyphs_subset = _backend_subset


@dataclass(frozen=True)
class _SharedFont:
    """As matplotlib's SubsetResults, of which it saves the font and looks into the map."""

    content: bytes
    glyph_index_map: Mapping[int, int]
    """From a glyph's index in the whole font to that in this part."""

    @property
    def font(self) -> _SharedFont:
        return self

    def save(self, file: BinaryIO, **_: object) -> None:
        """As fontTools' TTFont."""
        file.write(self.content)


@contextmanager
def _subset(path: Any, glyphs: Iterable[int]) -> Iterator[_SharedFont]:
    """In the place of matplotlib's get_glyphs_subset."""
    yield _part(path, frozenset(glyphs) | _common(path))


@lru_cache
def _common(path: Any) -> frozenset[int]:
    font = get_font(path)
    return frozenset(map(font.get_char_index, COMMON))


@lru_cache
def _part(path: Any, glyphs: frozenset[int]) -> _SharedFont:
    with _backend_subset(path, set(glyphs)) as subset:
        return _SharedFont(_backend.font_as_file(subset.font).getvalue(), subset.glyph_index_map)


PAGE = 5.5
"""Inches; the text of a paper in one column."""
COLUMN = 3.25
"""Inches; one column of a paper in two."""
SIZE, SMALL = 8.0, 7.0
"""Points of letters, and of those that are secondary."""
RC: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.labelsize": SIZE,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.titlepad": 4.0,
    "axes.titlesize": SIZE,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": SIZE,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "legend.borderaxespad": 0.3,
    "legend.columnspacing": 1.4,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
    "svg.hashsalt": "fgrpo-bench",
    "xtick.color": "#555555",
    "xtick.labelcolor": "black",
    "xtick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.color": "#555555",
    "ytick.labelcolor": "black",
    "ytick.labelsize": SMALL,
    "ytick.major.width": 0.6,
}
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""What is left out of each kind of file, so that the same data give the same bytes."""
KINDS = tuple(METADATA)


def wrapped(text: str, inches: float, size: float = SIZE) -> str:
    """A text in lines that fit a width, by the mean width of a letter, with its symbols as math."""
    letters = max(8, int(inches * 72 / (0.56 * size)))
    lines = textwrap.wrap(text, letters, break_on_hyphens=False, break_long_words=False)
    return in_math("\n".join(lines))


def in_math(text: str) -> str:
    """The focal exponent and the group size as math, and every other letter as it stands."""
    return with_symbols(text.replace("$", r"\$"))


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]], *, height: float) -> None:
    """Write labels to the right of the axes, moved apart vertically where they would overlap.

    labels: (y in data, text, colour); height: of the axes in inches, about.
    """
    gap = 1.2 * SMALL / (72 * height)
    low, high = axes.get_ylim()
    placed = sorted(((y - low) / (high - low), text, color) for y, text, color in labels)
    apart = _apart([y for y, _, _ in placed], gap)
    for y, (end, text, color) in zip(apart, placed, strict=True):
        axes.plot(
            [1.005, 1.035],
            [end, y],
            color=color,
            lw=0.6,
            transform=axes.transAxes,
            clip_on=False,
        )
        axes.text(
            1.045, y, in_math(text), color=color, fontsize=SMALL, va="center",
            transform=axes.transAxes,
        )  # fmt: skip


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Rising heights at least `gap` apart and at most 1: clashing neighbours share their place."""
    blocks: list[tuple[float, int]] = []  # centre and number of labels
    for height in heights:
        blocks.append((height, 1))
        while len(blocks) > 1:
            (below, n), (above, m) = blocks[-2:]
            if above - below >= gap * (n + m) / 2:
                break
            blocks[-2:] = [((below * n + above * m) / (n + m), n + m)]
    placed = [centre + gap * (i - (n - 1) / 2) for centre, n in blocks for i in range(n)]
    room = [1 - gap * i for i in reversed(range(len(placed)))]
    return [min(pair) for pair in zip(placed, room, strict=True)]


def drawings(draw: Callable[[], Figure], kinds: Sequence[str] = KINDS) -> dict[str, bytes]:
    """A figure drawn in this style, as the bytes of each kind of file.

    It is laid out once for all of them; the same data give the same bytes.
    """
    files = {}
    with matplotlib.rc_context(RC), _shared_fonts():
        figure = draw()
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)  # "none" would have every kind drawn twice
        for kind in kinds:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=METADATA[kind])
            files[kind] = buffer.getvalue()
    return files


def styled(draw: Callable[[], Figure]) -> Figure:
    """A figure drawn in this style, to be changed or saved by its owner. A notebook shows it as it
    is, without pyplot, which would keep every figure."""
    with matplotlib.rc_context(RC):
        figure = draw()
    vars(figure)["_repr_svg_"] = lambda: drawings(lambda: figure, ["svg"])["svg"].decode()
    return figure


def save(draw: Callable[[], Figure], path: Path) -> list[Path]:
    """Draw in this style and write SVG and PDF; path is without a suffix."""
    return write_drawings(drawings(draw), path)


def write_drawings(drawings_by_kind: Mapping[str, bytes], path: Path) -> list[Path]:
    """Write what `drawings` made, each file whole; path is without a suffix."""
    files = []
    for kind, content in drawings_by_kind.items():
        files.append(path.with_name(f"{path.name}.{kind}"))
        write_whole(files[-1], partial(_write, content=content))
    return files


def _write(aside: Path, *, content: bytes) -> None:
    aside.write_bytes(content)
