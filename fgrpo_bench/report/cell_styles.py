"""How a cell is drawn in figures and dashboards; nothing draws here, so nothing heavy is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.colors import BASE, FOCAL, MARKERS, PLAIN, shade

LINESTYLES = ("-", ":", "-.")
"""By rank of the learning rate; base models are dashed."""


@dataclass(frozen=True, kw_only=True)
class CellStyle:
    """How one cell is drawn wherever it appears."""

    color: str
    marker: str
    linestyle: str


def cell_styles(cells: Sequence[CellRow]) -> dict[CellRow, CellStyle]:
    """Colour by gamma (and by N where gamma is 0), marker by N, line by learning rate, base models
    grey and dashed; colour and marker of what no sweep trained by its place."""
    brought = [cell for cell in cells if cell.setting is None and not cell.is_base]
    sizes = sorted({cell.group_size for cell in cells if cell.group_size is not None})
    gammas = sorted({cell.focal_gamma for cell in cells if cell.focal_gamma})
    style_by_cell = {}
    for cell in cells:
        if cell in brought:
            place = brought.index(cell)
            style_by_cell[cell] = CellStyle(
                color=shade(FOCAL, place, len(brought)),
                marker=MARKERS[place % len(MARKERS)],
                linestyle="-",
            )
            continue
        if cell.group_size is None:
            style_by_cell[cell] = CellStyle(color=BASE, marker="", linestyle="--")
            continue
        rank = sizes.index(cell.group_size)
        if cell.focal_gamma:
            color = shade(FOCAL, gammas.index(cell.focal_gamma), len(gammas))
        else:
            color = shade(PLAIN, rank, len(sizes))
        style_by_cell[cell] = CellStyle(
            color=color,
            marker=MARKERS[rank % len(MARKERS)],
            linestyle=linestyle(cells, str(cell.algorithm), cell.learning_rate_factor),
        )
    return style_by_cell


def linestyle(cells: Iterable[CellRow], algorithm: str, factor: float) -> str:
    """Of a factor of the learning rate, by its rank among those of the algorithm."""
    return LINESTYLES[rates(cells, algorithm).index(factor) % len(LINESTYLES)]


def rates(cells: Iterable[CellRow], algorithm: str | None) -> list[float]:
    """The factors of an algorithm's learning rate: 1 first, then rising."""
    factors = {cell.learning_rate_factor for cell in cells if cell.algorithm == algorithm}
    return sorted(factors, key=lambda factor: (factor != 1, factor))


def algorithms(cells: Iterable[CellRow]) -> list[str]:
    """Names in their order, without the base models."""
    return list(dict.fromkeys(cell.algorithm for cell in cells if cell.algorithm is not None))
