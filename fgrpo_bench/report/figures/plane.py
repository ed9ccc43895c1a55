"""The figure of pass@1 against pass@k at the largest k (sharpening to the right, diversity up), and
that of the question's differences: a row per pair, with its interval and its seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation
from matplotlib.typing import LegendLocType
from numpy.typing import NDArray

from fgrpo_bench.analysis import INCONCLUSIVE, SIGNIFICANT, Analysis
from fgrpo_bench.analysis.rows import CellRow, Comparison, Estimate
from fgrpo_bench.documents.style import COLUMN, PAGE, SMALL, in_math, wrapped
from fgrpo_bench.report.cell_styles import CellStyle, algorithms, cell_styles, lines, linestyle
from fgrpo_bench.report.figures.curves import (
    ABREAST,
    legend_below,
    names_abreast,
    rows_and_columns,
)
from fgrpo_bench.report.figures.labels import POINTS, Corners, Name, lay_out, name_points
from fgrpo_bench.specs import method_name

Floats = NDArray[np.float64]
JOINED = "#9ab6d3"
"""Of the line through group sizes."""
CIRCLE = 10.0
"""Points across, of a circle with a number."""
AROUND = np.array(
    [(0.0, 0.0)]
    + [
        (radius * np.cos(angle), radius * np.sin(angle))
        for radius in np.arange(CIRCLE + 1, 60, 4)
        for angle in np.arange(0, 2 * np.pi, np.pi / 8)
    ]
)
"""Places that a number may have, in points from its own, nearest first."""


def plane(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A point a cell with both 95% intervals and its name beside it, a panel an algorithm; cells
    that differ in N alone are joined in its order. Names that do not fit stand in a legend. More
    algorithms than ABREAST share a panel, where points are numbered. A cell that another dominates
    is drawn hollow."""
    names = algorithms(list(analysis.by_cell.values()))
    if len(names) > ABREAST:
        return _numbered(analysis, column, width)
    n_rows, _ = rows_and_columns(len(names), width)
    height = 0.5 + 1.9 * n_rows
    if len(names) == 1:
        height = 2.9 if width > COLUMN else 2.4
    figure, panels = _panels(analysis, column, (width, height))
    drawn = [axes for axes in panels.flat if axes.axison]
    if all(name_points(figure, axes, *_named(axes)) for axes in drawn):
        return figure
    below = 0.14 * (2 + len(analysis.by_cell) // names_abreast(width))
    figure, panels = _panels(analysis, column, (width, height + below))
    legend_below(figure, panels.flat, width)
    return figure


def _panels(
    analysis: Analysis, column: str, size: tuple[float, float]
) -> tuple[Figure, NDArray[Any]]:
    """Points and error bars, without names. size: of the figure, inches."""
    every, ks = list(analysis.by_cell.values()), analysis.ks
    names, styles = algorithms(every), cell_styles(every)
    n_rows, n_columns = rows_and_columns(len(names), size[0])
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    for i, (axes, algorithm) in enumerate(zip(panels.flat, names, strict=False)):
        cells = [cell for cell in every if cell.is_base or cell.algorithm == algorithm]
        ends = {cell: analysis.over_k(column, cell) for cell in cells}
        evaluated = [
            c for c in cells if ends[c][0].mean is not None and ends[c][-1].mean is not None
        ]
        of_algorithm = lines(every, algorithm)
        for line in of_algorithm:
            joined = sorted(
                (
                    c
                    for c in evaluated
                    if c.focal_gamma == 0 and c.setting and c.setting.line == line
                ),
                key=lambda c: c.group_size or 0,
            )
            at = np.array([[_percent(ends[c][0]), _percent(ends[c][-1])] for c in joined])
            if len(joined) > 1:
                axes.plot(at[:, 0], at[:, 1], color=JOINED, lw=1.1, zorder=1,
                          ls=linestyle(every, line))  # fmt: skip
        is_short = len(names) > 1 and len(of_algorithm) == 1
        for cell in evaluated:
            first, last = ends[cell][0], ends[cell][-1]
            style = styles[cell]
            axes.errorbar(
                [_percent(first)],
                [_percent(last)],
                xerr=_reach(first),
                yerr=_reach(last),
                color=style.color,
                elinewidth=0.8,
                capsize=2,
                **_marker(style, hollow=_is_dominated(analysis, column, cell)),
                label=in_math(cell.short if is_short else cell.label),
            )
        axes.set_xlabel(f"pass@{ks[0]} (%)")
        axes.tick_params(labelbottom=i + n_columns >= len(names))
        axes.margins(0.07, 0.09)
        if len(names) > 1:
            axes.set_title(method_name(algorithm))
    for axes in panels[:, 0]:
        axes.set_ylabel(wrapped(f"pass@{ks[-1]} on {column} (%)", size[1] / n_rows - 0.6))
    return figure, panels


def _named(axes: Axes) -> tuple[list[Name], list[Corners]]:
    """The points of a panel with their names, and the lines that no name may cover."""
    names, covered = list[Name](), list[Corners]()
    container: Any  # matplotlib has no type for that of error bars
    for container in axes.containers:
        mark, _, bars = container.lines
        (at,) = mark.get_xydata().tolist()
        names.append(Name(at=at, text=container.get_label(), color=mark.get_color()))
        covered += [bar.tolist() for of_axis in bars for bar in of_axis.get_segments()]
    line: Any
    for line in axes.lines:
        if line.get_color() == JOINED:
            covered.append(line.get_xydata().tolist())
    return names, covered


def _is_dominated(analysis: Analysis, column: str, cell: CellRow | str) -> bool:
    """Whether another cell of the question dominates this one in the plane."""
    place = analysis.on_front(column, cell)
    return place is not None and place.is_on_front is False


def _numbered(analysis: Analysis, column: str, width: float) -> Figure:
    """Every cell in one panel, each with a number that the legend explains; by rising gamma from
    blue to brown."""
    every, ends = list(analysis.by_cell.values()), analysis.ends
    ends_of = {cell: [analysis.estimate(column, cell, k) for k in ends] for cell in every}
    evaluated = [cell for cell in every if all(row.mean is not None for row in ends_of[cell])]
    styles = cell_styles(every)
    is_wide = width > COLUMN
    height = max(3.8, 0.2 + 0.15 * len(evaluated)) if is_wide else 2.9 + 0.075 * len(evaluated)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    for cell in evaluated:
        first, last = ends_of[cell]
        axes.errorbar([_percent(first)], [_percent(last)], xerr=_reach(first), yerr=_reach(last),
                      color=styles[cell].color, alpha=0.22, elinewidth=0.7, ls="none",
                      zorder=1)  # fmt: skip
    circles: list[dict[str, Any]] = [
        {"marker": "o", "ls": "none", "mew": 0.9, "mec": styles[cell].color}
        | {"mfc": "white" if _is_dominated(analysis, column, cell) else styles[cell].color}
        for cell in evaluated
    ]
    names = [in_math(f"{number}  {cell.label}") for number, cell in enumerate(evaluated)]
    place: LegendLocType = "outside right upper" if is_wide else "outside lower center"
    handles = [Line2D([], [], ms=5, **circle) for circle in circles]
    figure.legend(handles, names, loc=place, ncols=1 if is_wide else 2, handlelength=1)
    axes.set_xlabel(f"pass@{ends[0]} (%)")
    axes.set_ylabel(wrapped(f"pass@{ends[-1]} on {column} (%)", 2.4))
    points = np.array([[_percent(row) for row in ends_of[cell]] for cell in evaluated])
    for number, (point, offset) in enumerate(
        zip(points, _offsets(figure, axes, points), strict=True)
    ):
        _write_number(figure, axes, number, point, offset, circles[number])
    return figure


def _offsets(figure: Figure, axes: Axes, points: Floats) -> Floats:
    """How far from its point each number stands, in points of letters [points, 2]: not at all, or
    where others are there already in the nearest place within the axes that covers nothing."""
    scale = lay_out(figure)
    low, high = scale * axes.bbox.get_points() + [[CIRCLE / 2], [-CIRCLE / 2]]
    places = scale * axes.transData.transform(points)
    taken, offsets = np.empty((0, 2)), []
    for i, place in enumerate(places):
        around = place + AROUND
        is_free = _distance(around, taken) > CIRCLE
        is_free[1:] &= _distance(around[1:], np.delete(places, i, axis=0)) > CIRCLE / 2
        is_free &= ((around > low) & (around < high)).all(axis=1)
        offsets.append(AROUND[is_free.argmax()])  # the first, on the point, where none is
        taken = np.vstack([taken, place + offsets[-1]])
    return np.array(offsets)


def _distance(places: Floats, others: Floats) -> Floats:
    """Of each place to the nearest of others, [places]; infinite where there are none."""
    nearest: Floats = np.linalg.norm(places[:, None] - others, axis=2).min(axis=1, initial=np.inf)
    return nearest


def _write_number(
    figure: Figure, axes: Axes, number: int, point: Floats, offset: Floats, circle: dict[str, Any]
) -> None:
    """In a circle, with a line to its point where it does not stand on it."""
    color, text = circle["mec"], circle["mec"] if circle["mfc"] == "white" else "white"
    (x, y), (right, up) = point, offset
    if right or up:
        axes.plot([x], [y], marker="o", ms=2, color=color, ls="none", zorder=2)
    moved = ScaledTranslation(right / POINTS, up / POINTS, figure.dpi_scale_trans)
    axes.add_artist(
        Line2D([x], [y], ms=CIRCLE, transform=axes.transData + moved, zorder=3, **circle)
    )
    axes.annotate(
        str(number), (x, y), (right, up), textcoords="offset points", ha="center",
        va="center_baseline", fontsize=SMALL, color=text, zorder=4,
        arrowprops={"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip


def _marker(style: CellStyle, *, hollow: bool) -> dict[str, object]:
    if not style.marker:  # the base models
        return {"marker": "X", "ms": 5.5, "ls": "none"}
    edge = {"mfc": "white", "mec": style.color} if hollow else {"mec": "white"}
    return {"marker": style.marker, "ms": 5, "ls": "none", "mew": 0.6} | edge


def plane_legend(analysis: Analysis, column: str) -> str:
    """What lines, numbers and hollow points of the figure mean."""
    cells = list(analysis.by_cell.values())
    text = "the line joins group sizes without focal weight"
    if len(algorithms(cells)) > ABREAST:
        text = "numbers stand for the cells of the legend, on their point or joined to it"
    if any(_is_dominated(analysis, column, cell) for cell in cells):
        text += "; hollow: dominated by another"
    return text


def _percent(estimate: Estimate) -> float:
    return np.nan if estimate.mean is None else 100 * estimate.mean


def _reach(estimate: Estimate) -> Sequence[Sequence[float]] | None:
    """How far the interval reaches below and above the mean, as error bars want it."""
    mean, low, high = estimate.mean, estimate.low, estimate.high
    if mean is None or low is None or high is None:
        return None
    # an end may pass a skewed mean
    return [[max(100 * (mean - low), 0)], [max(100 * (high - mean), 0)]]


COLORS = {1: "#0072b2", -1: "#d55e00", 0: "#666666"}
"""Of a difference that is significant or suggestive, up and down, and of an inconclusive one."""


def in_question(analysis: Analysis, column: str) -> list[Comparison]:
    """The differences on a benchmark or average that the question is about, with an interval."""
    rows = analysis.in_question
    return [row for row in rows if row.column == column and row.low is not None]


def forest(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A panel a k with a row a pair: the difference with its 95% interval, filled where it is
    significant, and a dot a seed."""
    rows = in_question(analysis, column)
    ks = sorted({row.k for row in rows})
    pairs = list(dict.fromkeys((row.group, row.name) for row in rows))
    several = len({group for group, _ in pairs}) > 1
    words = [f"{group}: {name}" if several else str(name) for group, name in pairs]
    names = [wrapped(text, 0.32 * width, SMALL) for text in words]
    n_lines = sum(max(name.count("\n") + 1, 1.7) for name in names)
    figure = Figure(figsize=(width, 0.6 + 0.14 * n_lines), layout="constrained")
    panels = figure.subplots(1, len(ks), sharey=True, squeeze=False)[0]
    places = {pair: -i for i, pair in enumerate(pairs)}
    for axes, k in zip(panels, ks, strict=True):
        axes.axvline(0, color="#222222", lw=0.9, zorder=1)
        for row in rows:
            if row.k == k:
                _row(axes, row, places[row.group, row.name])
        axes.set_title(f"pass@{k}")
        axes.set_xlabel("points")
        axes.grid(axis="y", visible=False)
    panels[0].set_yticks(list(places.values()), names)
    panels[0].set_ylim(0.6 - len(pairs), 0.6)
    return figure


def _row(axes: Axes, row: Comparison, y: int) -> None:
    assert row.low is not None and row.high is not None
    sign = 0
    if row.verdict != INCONCLUSIVE:
        sign = 1 if row.difference > 0 else -1
    color, mean = COLORS[sign], 100 * row.difference
    axes.plot([100 * row.low, 100 * row.high], [y, y], color=color, lw=1.2, zorder=2)
    axes.plot([100 * seed for seed in row.by_seed], [y - 0.22] * len(row.by_seed), ".",
              color=color, ms=3, alpha=0.6, zorder=2)  # fmt: skip
    axes.plot([mean], [y], "o", ms=4.5, color=color, zorder=3,
              mfc=color if row.verdict == SIGNIFICANT else "white")  # fmt: skip
