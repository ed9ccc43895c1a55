"""How a cell is drawn in figures and dashboards; nothing draws here, so nothing heavy is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.colors import BASE, FOCAL, MARKERS, METHODS, PLAIN, shade
from fgrpo_bench.specs.cell import Line

LINESTYLES = ("-", ":", "-.")
"""By rank of the learning rate and the prompts per step; base models are dashed."""


@dataclass(frozen=True, kw_only=True)
class CellStyle:
    """How one cell is drawn wherever it appears."""

    color: str
    marker: str
    linestyle: str


def cell_styles(cells: Sequence[CellRow]) -> dict[CellRow, CellStyle]:
    """Colour by gamma (where it is 0 by N, or at a single N by algorithm), marker by N or, where a
    sweep varies these, by prompts per step, line by learning rate and prompts, base models grey and
    dashed; colour and marker of what no sweep trained by its place."""
    brought = [cell for cell in cells if cell.setting is None and not cell.is_base]
    sizes = sorted({cell.group_size for cell in cells if cell.group_size is not None})
    prompts = sorted({cell.prompts_per_step or 0 for cell in cells if not cell.is_base})
    gammas = sorted({cell.focal_gamma for cell in cells if cell.focal_gamma})
    plain = algorithms(cell for cell in cells if cell.setting is not None and not cell.focal_gamma)
    by_algorithm = len(sizes) == 1 and 1 < len(plain) <= len(METHODS)
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
        if cell.group_size is None or cell.setting is None:
            style_by_cell[cell] = CellStyle(color=BASE, marker="", linestyle="--")
            continue
        rank = sizes.index(cell.group_size)
        if cell.focal_gamma:
            color = shade(FOCAL, gammas.index(cell.focal_gamma), len(gammas))
        elif by_algorithm and cell.algorithm is not None:
            color = METHODS[plain.index(cell.algorithm)]
        else:
            color = shade(PLAIN, rank, len(sizes))
        style_by_cell[cell] = CellStyle(
            color=color,
            marker=MARKERS[
                (prompts.index(cell.prompts_per_step or 0) if len(prompts) > 1 else rank)
                % len(MARKERS)
            ],
            linestyle=linestyle(cells, cell.setting.line),
        )
    return style_by_cell


def linestyle(cells: Iterable[CellRow], line: Line) -> str:
    """Of a learning rate and prompts per step, by their rank among those of the algorithm."""
    return LINESTYLES[lines(cells, line[0]).index(line) % len(LINESTYLES)]


def lines(cells: Iterable[CellRow], algorithm: str | None) -> list[Line]:
    """An algorithm's learning rates and prompts per step: the experiment's own first, then
    rising."""
    settings = [cell.setting for cell in cells if cell.algorithm == algorithm]
    distinct = {setting.line for setting in settings if setting is not None}
    return sorted(distinct, key=lambda line: (line[1] != 1, line[1], line[2] or 0))


def algorithms(cells: Iterable[CellRow]) -> list[str]:
    """Names in their order, without the base models."""
    return list(dict.fromkeys(cell.algorithm for cell in cells if cell.algorithm is not None))
