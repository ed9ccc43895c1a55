"""The figure of problems retained, lost and gained."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.style import PAGE, SMALL, in_math, wrapped

COLORS = {"retained": "#9fb4c7", "lost": "#b2182b", "gained": "#2166ac"}
"""As the bars are stacked; red and blue stay apart for colour-blind readers."""


def bars(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A bar a cell: problems retained and lost of those the base model reaches, and gained."""
    cells, k = analysis.by_cell.values(), analysis.ks[-1]
    rows = {cell: own for cell in cells if (own := analysis.covered(column, cell, k)) is not None}
    figure = Figure(figsize=(width, 0.8 + 0.2 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = [float(place) for place in range(len(rows))]
    left = np.zeros(len(rows))
    longest = max(sum(getattr(row, name) for name in COLORS) for row in rows.values())
    narrowest = 0.22 / (width - 1.4) * longest  # that holds three digits
    for name, color in COLORS.items():
        counts = np.array([getattr(row, name) for row in rows.values()])
        axes.barh(places, counts, left=left, color=color, height=0.66, label=name)
        for place, start, count in zip(places, left, counts, strict=True):
            if count >= narrowest:
                shade = "black" if name == "retained" else "white"
                axes.text(
                    float(start + count / 2), place, f"{count:.0f}", ha="center", va="center",
                    color=shade, fontsize=SMALL,
                )  # fmt: skip
        left = left + counts
    axes.set_yticks(places, [in_math(cell.label) for cell in rows])
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(4 if width < PAGE else 8, integer=True))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(wrapped(f"problems of {column} within reach at k = {k}", width - 1.2))
    figure.legend(loc="outside upper center", ncols=len(COLORS))
    return figure
