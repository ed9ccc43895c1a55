"""How figures look: one style, and saving; the colours are those of `colors`.

Figures are drawn on their own canvas, without pyplot and its global state, and the same data give
the same bytes (no date, fixed ids).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.documents.fonts import shared_fonts
from fgrpo_bench.stages.files import write_whole

RC: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "pdf.fonttype": 42,
    "svg.hashsalt": "fgrpo-bench",
    "xtick.color": "#555555",
    "xtick.labelcolor": "black",
    "ytick.color": "#555555",
    "ytick.labelcolor": "black",
}
WIDTH = 8.0
"""Inches; the width of a README at 100 pixels an inch."""
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""What is left out of each kind of file, so that the same data give the same bytes."""
KINDS = tuple(METADATA)


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]], *, gap: float) -> None:
    """Write labels to the right of the axes, moved apart vertically where they would overlap.

    labels: (y in data, text, colour); gap: least distance between two, as a share of the height.
    """
    low, high = axes.get_ylim()
    placed = sorted(((y - low) / (high - low), text, color) for y, text, color in labels)
    heights = _apart([y for y, _, _ in placed], gap)
    for height, (y, text, color) in zip(heights, placed, strict=True):
        axes.plot(
            [1.005, 1.035],
            [y, height],
            color=color,
            lw=0.8,
            transform=axes.transAxes,
            clip_on=False,
        )
        axes.text(
            1.045, height, text, color=color, fontsize=9, va="center", transform=axes.transAxes
        )


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
    made = {}
    with matplotlib.rc_context(RC), shared_fonts():
        figure = draw()
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)  # "none" would have every kind drawn twice
        for kind in kinds:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=METADATA[kind])
            made[kind] = buffer.getvalue()
    return made


def save(draw: Callable[[], Figure], path: Path) -> list[Path]:
    """Draw in this style and write SVG and PDF; path is without a suffix."""
    return write(drawings(draw), path)


def write(drawn: Mapping[str, bytes], path: Path) -> list[Path]:
    """Write what `drawings` made, each file whole; path is without a suffix."""
    files = []
    for kind, content in drawn.items():
        files.append(path.with_name(f"{path.name}.{kind}"))
        write_whole(files[-1], partial(_write, content=content))
    return files


def _write(aside: Path, *, content: bytes) -> None:
    aside.write_bytes(content)
