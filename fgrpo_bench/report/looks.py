"""Colours that colour-blind readers can tell apart: how a cell looks in figures and dashboards.

Nothing here draws, so nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fgrpo_bench.report.summary import Cell

PLAIN = ("#6baed6", "#4292c6", "#2171b5", "#0d5299", "#08306b")
"""Light to dark blue: gamma = 0, by rank of N."""
FOCAL = ("#e6891e", "#c6480a", "#7f2704")
"""Orange to brown: gamma > 0, by rank of gamma."""
ALGORITHMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Okabe and Ito's colours, by rank of the algorithm, where a line is an algorithm."""
MARKERS = ("o", "s", "D", "^", "v")
BASE = "#666666"


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one cell is drawn wherever it appears."""

    color: str
    marker: str
    linestyle: str


def looks(cells: Sequence[Cell]) -> dict[Cell, Look]:
    """Colour by gamma (and by N where gamma is 0), marker by N, base models grey and dashed."""
    sizes = sorted({cell.group_size for cell in cells if cell.group_size is not None})
    gammas = sorted({cell.focal_gamma for cell in cells if cell.focal_gamma})
    made = {}
    for cell in cells:
        if cell.group_size is None:
            made[cell] = Look(color=BASE, marker="", linestyle="--")
            continue
        rank = sizes.index(cell.group_size)
        if cell.focal_gamma:
            color = _shade(FOCAL, gammas.index(cell.focal_gamma), len(gammas))
        else:
            color = _shade(PLAIN, rank, len(sizes))
        made[cell] = Look(color=color, marker=MARKERS[rank % len(MARKERS)], linestyle="-")
    return made


def _shade(colors: Sequence[str], rank: int, count: int) -> str:
    """Spread ranks over the shades; a single one takes the middle."""
    if count == 1:
        return colors[len(colors) // 2]
    return colors[round(rank * (len(colors) - 1) / (count - 1))]
