"""The figure of paths: how pass@1 and pass@k moved together in training, and what one cell keeps
more than another at equal pass@1.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.analysis import INCONCLUSIVE, Analysis
from fgrpo_bench.analysis.rows import EqualPassAt1
from fgrpo_bench.documents.style import COLUMN, PAGE, SMALL, in_math, wrapped
from fgrpo_bench.documents.table import difference
from fgrpo_bench.report.cell_styles import CellStyle, cell_styles
from fgrpo_bench.report.figures.curves import legend_below, names_abreast
from fgrpo_bench.report.figures.labels import along, lay_out

Checkpoints = tuple[list[int], list[float], list[float]]
"""Steps, pass@1 and pass@k in percent."""
APART = 17.0
"""Points between two checkpoints, from which on both steps are written."""
MOST = 4
"""Pairs that are drawn: of more those of the question, and of these the largest differences."""


def shown_pairs(analysis: Analysis, column: str) -> list[EqualPassAt1]:
    """The pairs that are drawn, at the largest k; none without pass@1 among the k."""
    pairs = {(row.new, row.old) for row in analysis.in_question}
    rows = [
        row
        for row in analysis.on_paths
        if row.column == column and row.k == analysis.ks[-1] and analysis.ks[0] == 1
    ]
    compared = [row for row in rows if (row.new, row.old) in pairs] or rows
    largest = sorted(compared, key=lambda row: -abs(row.difference))[:MOST]
    return [row for row in compared if row in largest]


def paths(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A panel a pair: both paths, and the gap between them."""
    rows, styles = shown_pairs(analysis, column), cell_styles(list(analysis.by_cell.values()))
    n_columns = min(len(rows), 2 if width > COLUMN else 1)
    n_rows = -(-len(rows) // n_columns)
    names = {cell for row in rows for cell in (row.new, row.old)}
    checkpoints = {name: analysis.checkpoints_of(column, name, analysis.ks[-1]) for name in names}
    below = 0.16 * (1 + len(names) // names_abreast(width))
    height = (2.4 if width > COLUMN else 2.1) * n_rows + below
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(rows) :]:
        axes.set_axis_off()
    for i, (axes, row) in enumerate(zip(panels.flat, rows, strict=False)):
        new, old = (analysis.by_cell[name] for name in (row.new, row.old))
        _gap(axes, analysis, row, styles[new])
        for cell in (old, new):
            _path(axes, checkpoints[cell.cell], cell.label, styles[cell])
        title = f"{new.label} against {old.label}"
        axes.set_title(wrapped(title, width / n_columns - 0.6))
        axes.set_xlabel("pass@1 (%)")
        axes.tick_params(labelbottom=i + n_columns >= len(rows))
        axes.margins(0.09, 0.14)
    for axes in panels[:, 0]:
        axes.set_ylabel(wrapped(f"pass@{analysis.ks[-1]} on {column} (%)", height / n_rows - 0.7))
    legend_below(figure, panels.flat, width)
    scale = lay_out(figure)
    for axes, row in zip(panels.flat, rows, strict=False):
        _numbers(axes, row, scale)
        for name in (row.old, row.new):
            path, color = checkpoints[name], styles[analysis.by_cell[name]].color
            _steps(axes, path, color, scale, is_above=name == row.new)
    return figure


def _path(axes: Axes, path: Checkpoints, label: str, style: CellStyle) -> None:
    """Means over seeds of all evaluated checkpoints, the base models first."""
    steps, x, y = path
    axes.plot(x, y, color=style.color, lw=1.3, ls=style.linestyle, marker=style.marker, ms=4,
              mec="white", mew=0.5, label=in_math(label), zorder=3)  # fmt: skip
    if steps[0] == 0:
        axes.plot(x[:1], y[:1], "X", color="#555555", ms=6, mec="white", mew=0.6,
                  zorder=4, label="Base")  # fmt: skip


def _steps(axes: Axes, path: Checkpoints, color: str, scale: float, *, is_above: bool) -> None:
    """Beside the checkpoints of a path, the last one first; one that would stand on another is left
    out. scale: points of a pixel."""
    steps, x, y = path
    at = np.column_stack([x, y])
    places = scale * axes.transData.transform(at)
    written: list[int] = []
    for i in reversed(range(len(steps))):
        if steps[i] and all(np.linalg.norm(places[i] - places[j]) > APART for j in written):
            written.append(i)
            axes.annotate(
                str(steps[i]), tuple(at[i]), (0, 5 if is_above else -5),
                textcoords="offset points", ha="center", va="bottom" if is_above else "top",
                fontsize=SMALL, color=color, zorder=4, in_layout=False,
            )  # fmt: skip


def _gap(axes: Axes, analysis: Analysis, row: EqualPassAt1, style: CellStyle) -> None:
    """Shaded, with a bar at the highest pass@1 that both reach."""
    curve = analysis.path_gap(row)
    if curve:
        x, new, gap = (
            100 * np.array([[at.pass_at_1, at.new_pass_at_k, at.difference] for at in curve]).T
        )
        axes.fill_between(x, new - gap, new, color=style.color, alpha=0.22, lw=0, zorder=1)
    x_end, top = 100 * row.pass_at_1, 100 * row.pass_at_k
    bottom = top - 100 * row.difference
    axes.plot([x_end, x_end], [bottom, top], color=_ink(row), lw=1.6, zorder=2)


def _ink(row: EqualPassAt1) -> str:
    return "#777777" if row.verdict == INCONCLUSIVE else "#222222"


def _numbers(axes: Axes, row: EqualPassAt1, scale: float) -> None:
    """The difference at equal pass@1 in the corner that lines leave free, or leave the most of.
    scale: points of a pixel."""
    lines = [scale * axes.transData.transform(line.get_xydata()) for line in axes.lines]
    places = np.concatenate([along(corners) for corners in lines if len(corners) > 1])
    low, high = scale * axes.bbox.get_points()
    at = (places - low) / (high - low)

    def covered(corner: tuple[int, int]) -> int:
        return int((np.abs(at - corner) < (0.45, 0.24)).all(axis=1).sum())

    right, up = min(((0, 0), (1, 1), (1, 0), (0, 1)), key=covered)
    words = (
        f"{difference(row.difference, row.low, row.high)}\nat pass@1 = {100 * row.pass_at_1:.1f}%"
    )
    axes.text(
        (0.03, 0.97)[right], (0.04, 0.96)[up], words, transform=axes.transAxes, fontsize=SMALL,
        color=_ink(row),
        ha=("left", "right")[right], va=("bottom", "top")[up], zorder=5, in_layout=False,
    )  # fmt: skip
