"""The figure of problems retained, lost and gained."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.style import WIDTH

COLORS = {"retained": "#9fb4c7", "lost": "#b2182b", "gained": "#2166ac"}
"""As the bars are stacked; red and blue stay apart for colour-blind readers."""


def bars(analysis: Analysis, column: str) -> Figure:
    """A bar a cell: problems retained and lost of those the base model reaches, and gained."""
    cells, k = analysis.by_cell.values(), analysis.ks[-1]
    rows = {cell: own for cell in cells if (own := analysis.covered(column, cell, k)) is not None}
    figure = Figure(figsize=(WIDTH, 1.3 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = [float(place) for place in range(len(rows))]
    left = np.zeros(len(rows))
    for name, color in COLORS.items():
        counts = np.array([getattr(row, name) for row in rows.values()])
        axes.barh(places, counts, left=left, color=color, height=0.66, label=name)
        for place, start, count in zip(places, left, counts, strict=True):
            if count >= 0.03 * (left + counts).max():
                shade = "black" if name == "retained" else "white"
                axes.text(
                    float(start + count / 2), place, f"{count:.0f}", ha="center", va="center",
                    color=shade, fontsize=8,
                )  # fmt: skip
        left = left + counts
    axes.set_yticks(places, [cell.label for cell in rows])
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"problems of {column} within reach at k = {k}")
    figure.legend(loc="outside upper center", ncols=len(COLORS))
    return figure
