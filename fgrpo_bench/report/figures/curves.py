"""The figures of pass@k against k, and along the axis that the sweep varies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import CellRow, Estimate
from fgrpo_bench.documents.colors import ALGORITHMS, BASE, MARKERS
from fgrpo_bench.documents.style import COLUMN, PAGE, in_math, label_ends, wrapped
from fgrpo_bench.report.cell_styles import CellStyle, algorithms, cell_styles, linestyle, rates
from fgrpo_bench.specs import method_name

ABREAST = 4
"""Panels beside each other, an algorithm each."""
AXES = {"group_size": "group size N", "focal_gamma": "focal exponent gamma"}


def curves(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """pass@k against k, a panel an algorithm; labels at the lines where there is one panel."""
    cells, ks = list(analysis.by_cell.values()), analysis.ks
    names, styles = algorithms(cells), cell_styles(cells)
    n_rows, n_columns = rows_and_columns(len(names), width)
    height = 0.4 + 0.5 * width if len(names) == 1 else 0.8 + 1.5 * n_rows
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    for axes, algorithm in zip(panels.flat, names, strict=False):
        labels = []
        several_rates = len(rates(cells, algorithm)) > 1
        for cell in (c for c in cells if c.is_base or c.algorithm == algorithm):
            mean, low, high = percents(analysis.over_k(column, cell))
            if np.isnan(mean).all():
                continue
            style, short = styles[cell], cell.label if several_rates else cell.short
            axes.fill_between(ks, low, high, color=style.color, alpha=0.11, lw=0)
            axes.plot(
                ks,
                mean,
                color=style.color,
                ls=style.linestyle,
                marker=style.marker,
                ms=3,
                clip_on=False,
                label=in_math(short),
            )
            name = cell.label if width > COLUMN else short
            labels.append((float(mean[~np.isnan(mean)][-1]), name, style.color))
        axes.set_xscale("log", base=2)
        every = 1 if len(ks) < 7 or (len(names) == 1 and width > COLUMN) else 2
        axes.set_xticks(ks, [str(k) if i % every == 0 else "" for i, k in enumerate(ks)])
        axes.set_xlim(ks[0], ks[-1])
        axes.minorticks_off()
        axes.set_xlabel("k")
        axes.set_ylim(0, 100)
        if len(names) == 1:
            label_ends(axes, labels, height=height - 0.4)
        else:
            axes.set_title(method_name(algorithm))
    for axes in panels[:, 0]:
        axes.set_ylabel(wrapped(f"pass@k on {column} (%)", height / n_rows - 0.15))
    if len(names) > 1:
        legend_below(figure, panels.flat, width)
    return figure


def rows_and_columns(n_panels: int, width: float) -> tuple[int, int]:
    """How panels stand in a figure; width: in inches."""
    n_columns = min(n_panels, ABREAST if width > COLUMN else 2)
    return -(-n_panels // n_columns), n_columns


def legend_below(figure: Figure, panels: Iterable[Axes], width: float) -> None:
    """What stands in any of the panels, each name once."""
    handles = {
        name: handle
        for axes in panels
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=min(names_abreast(width), len(handles)),
    )


def names_abreast(width: float) -> int:
    """Names beside each other in a legend below; width: of the figure in inches."""
    return 4 if width > COLUMN else 2


def varied_axis(cells: Sequence[CellRow]) -> str:
    """What the second figure has along x: N where the sweep has several, else gamma."""
    sizes = {cell.group_size for cell in cells if not cell.is_base}
    return "group_size" if len(sizes) > 1 else "focal_gamma"


def by_axis(analysis: Analysis, column: str, axis: str, width: float = PAGE) -> Figure:
    """pass@k at the smallest and at the largest k along one axis of the grid, a line for what is
    alike but for that."""
    every = analysis.by_cell.values()
    trained = [cell for cell in every if not cell.is_base]
    lines: dict[tuple[str, float, float], list[CellRow]] = {}
    for cell in trained:
        other = cell.focal_gamma if axis == "group_size" else cell.group_size
        key = str(cell.algorithm), cell.learning_rate_factor, other or 0
        lines.setdefault(key, []).append(cell)
    height = (2.1 if width > COLUMN else 1.8) + 0.15 * (len(lines) // names_abreast(width))
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, len(analysis.ends), squeeze=False)[0]
    ticks = sorted({_at(cell, axis) for cell in trained})
    centre = 0 if axis == "group_size" else (len(lines) - 1) / 2  # the first line is gamma = 0
    for axes, k in zip(panels, analysis.ends, strict=True):
        for rank, (key, cells) in enumerate(lines.items()):
            cells = sorted(cells, key=lambda cell: _at(cell, axis))
            style = _line_style(trained, key, axis)
            x = np.array([ticks.index(_at(cell, axis)) for cell in cells])
            offset = min(0.12, 0.6 / len(lines)) * (rank - centre)
            mean, low, high = percents(analysis.estimate(column, cell, k) for cell in cells)
            axes.errorbar(
                x + offset,
                mean,
                yerr=np.maximum([mean - low, high - mean], 0),  # an end may pass a skewed mean
                color=style.color,
                marker=style.marker,
                ls=style.linestyle,
                capsize=2,
                elinewidth=0.9,
                ms=4,
                label=in_math(_line_name(trained, key, axis)),
            )
        for cell in every:
            if cell.is_base:
                _base_line(axes, analysis.estimate(column, cell, k))
        axes.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        axes.set_xlim(-0.5, len(ticks) - 0.5)
        axes.set_xlabel(in_math(AXES[axis]))
        axes.set_title(f"pass@{k}")
        axes.margins(y=0.12)
    panels[0].set_ylabel(wrapped(f"{column} (%)", 1.4))
    legend_below(figure, panels[:1], width)
    return figure


def _base_line(axes: Axes, base: Estimate) -> None:
    if base.mean is None:
        return
    axes.axhline(100 * base.mean, color=BASE, ls="--", lw=1.1, label="Base")
    if base.low is not None and base.high is not None:
        axes.axhspan(100 * base.low, 100 * base.high, color=BASE, alpha=0.1, lw=0)


def _line_style(cells: Sequence[CellRow], key: tuple[str, float, float], axis: str) -> CellStyle:
    """key: algorithm, factor of the learning rate, and gamma along N, where gamma is a colour and
    the algorithm a marker; N along gamma, where the algorithm is both."""
    algorithm, factor, other = key
    number = algorithms(cells).index(algorithm)
    if axis == "focal_gamma":
        color = ALGORITHMS[number % len(ALGORITHMS)]
    elif not other:
        color = "#16598f"
    else:
        styles = cell_styles(cells)
        color = next(styles[cell].color for cell in cells if cell.focal_gamma == other)
    marker = MARKERS[number % len(MARKERS)]
    return CellStyle(color=color, marker=marker, linestyle=linestyle(cells, algorithm, factor))


def _line_name(cells: Sequence[CellRow], key: tuple[str, float, float], axis: str) -> str:
    """key: as of `_line_style`. A learning rate is named where the algorithm has several."""
    algorithm, factor, other = key
    rate = factor if len(rates(cells, algorithm)) > 1 else 1.0
    if axis == "group_size":
        gamma = f" gamma={other:g}" if other else ""
        return f"{method_name(algorithm, other, rate)}{gamma}"
    return f"{method_name(algorithm, learning_rate_factor=rate)} N={other:g}"


def _at(cell: CellRow, axis: str) -> float:
    return float((cell.group_size if axis == "group_size" else cell.focal_gamma) or 0)


def percents(estimates: Iterable[Estimate]) -> tuple[NDArray[np.float64], ...]:
    """Mean, low and high in percent, float64 [estimates] each, nan where there is none."""
    rows = [(row.mean, row.low, row.high) for row in estimates]
    columns = zip(*rows, strict=True)
    return tuple(np.multiply(100, np.array(column, dtype=np.float64)) for column in columns)
