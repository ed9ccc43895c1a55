"""Figures of pass@k against k and along the axis that the sweep varies, of the differences over all
k (from which k on training loses to the base models), of problems retained, lost and gained, and of
training by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Band, CellRow, Estimate, FirstLoss
from fgrpo_bench.documents.colors import ALGORITHMS, BASE, MARKERS
from fgrpo_bench.documents.style import COLUMN, PAGE, SIZE, SMALL, in_math, label_ends, wrapped
from fgrpo_bench.report.cell_styles import CellStyle, algorithms, cell_styles, lines, linestyle
from fgrpo_bench.specs import method_name
from fgrpo_bench.specs.cell import Line
from fgrpo_bench.stages.watch import METRICS

ABREAST = 4
"""Panels beside each other, an algorithm each."""
AXES = {"group_size": "group size N", "focal_gamma": "focal exponent gamma"}


def with_bands(analysis: Analysis, column: str) -> set[str]:
    """The cells whose intervals the curves show: those that a declared comparison compares."""
    rows = analysis.in_question if analysis.has_family else ()
    return {cell for row in rows if row.column == column for cell in (row.new, row.old)}


def curves(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """pass@k against k, a panel an algorithm, with bands `with_bands`; labels at the lines where
    there is one panel."""
    cells, ks = list(analysis.by_cell.values()), analysis.ks
    names, styles, bands = algorithms(cells), cell_styles(cells), with_bands(analysis, column)
    n_rows, n_columns = rows_and_columns(len(names), width)
    height = 0.4 + 0.5 * width if len(names) == 1 else 0.8 + 1.5 * n_rows
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    for axes, algorithm in zip(panels.flat, names, strict=False):
        labels = []
        several_lines = len(lines(cells, algorithm)) > 1
        for cell in (c for c in cells if c.is_base or c.algorithm == algorithm):
            mean, low, high = _percents(analysis.over_k(column, cell))
            if np.isnan(mean).all():
                continue
            style, short = styles[cell], cell.label if several_lines else cell.short
            if cell.cell in bands:
                axes.fill_between(ks, low, high, color=style.color, alpha=0.16, lw=0)
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
    """What stands in any of the panels, each name once, as many abreast as fit."""
    handles = {
        name: handle
        for axes in panels
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    for abreast in range(min(names_abreast(width), len(handles)), 0, -1):
        legend = figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=abreast
        )
        if abreast == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def names_abreast(width: float) -> int:
    """The most names beside each other in a legend below; width: of the figure in inches."""
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
    by_line: dict[tuple[Line, float], list[CellRow]] = {}
    for cell in trained:
        other = cell.focal_gamma if axis == "group_size" else cell.group_size
        line = str(cell.algorithm), cell.learning_rate_factor, cell.prompts_per_step
        by_line.setdefault((line, other or 0), []).append(cell)
    height = (2.1 if width > COLUMN else 1.8) + 0.15 * (len(by_line) // names_abreast(width))
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, len(analysis.ends), squeeze=False)[0]
    ticks = sorted({_at(cell, axis) for cell in trained})
    centre = 0 if axis == "group_size" else (len(by_line) - 1) / 2  # the first line is gamma = 0
    for axes, k in zip(panels, analysis.ends, strict=True):
        for rank, (key, cells) in enumerate(by_line.items()):
            cells = sorted(cells, key=lambda cell: _at(cell, axis))
            style = _line_style(trained, key, axis)
            x = np.array([ticks.index(_at(cell, axis)) for cell in cells])
            offset = min(0.12, 0.6 / len(by_line)) * (rank - centre)
            mean, low, high = _percents(analysis.estimate(column, cell, k) for cell in cells)
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


def _line_style(cells: Sequence[CellRow], key: tuple[Line, float], axis: str) -> CellStyle:
    """key: the line, and gamma along N, where gamma is a colour and the algorithm a marker; N along
    gamma, where the algorithm is both."""
    line, other = key
    number = algorithms(cells).index(line[0])
    if axis == "focal_gamma":
        color = ALGORITHMS[number % len(ALGORITHMS)]
    elif not other:
        color = "#16598f"
    else:
        styles = cell_styles(cells)
        color = next(styles[cell].color for cell in cells if cell.focal_gamma == other)
    marker = MARKERS[number % len(MARKERS)]
    return CellStyle(color=color, marker=marker, linestyle=linestyle(cells, line))


def _line_name(cells: Sequence[CellRow], key: tuple[Line, float], axis: str) -> str:
    """key: as of `_line_style`. Learning rate and prompts are named where the algorithm has several
    of them."""
    (algorithm, factor, prompts), other = key
    if len(lines(cells, algorithm)) == 1:
        factor, prompts = 1.0, None
    if axis == "group_size":
        gamma = f" gamma={other:g}" if other else ""
        return f"{method_name(algorithm, other, factor, prompts)}{gamma}"
    return f"{method_name(algorithm, 0.0, factor, prompts)} N={other:g}"


def _at(cell: CellRow, axis: str) -> float:
    return float((cell.group_size if axis == "group_size" else cell.focal_gamma) or 0)


def _percents(estimates: Iterable[Estimate]) -> tuple[NDArray[np.float64], ...]:
    """Mean, low and high in percent, float64 [estimates] each, nan where there is none."""
    rows = [(row.mean, row.low, row.high) for row in estimates]
    columns = zip(*rows, strict=True)
    return tuple(np.multiply(100, np.array(column, dtype=np.float64)) for column in columns)


COLORS = {"retained": "#9fb4c7", "lost": "#b2182b", "gained": "#2166ac"}
"""As the bars are stacked; red and blue stay apart for colour-blind readers."""


def bars(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A bar a cell: problems retained and lost of those the base model reaches, and gained."""
    cells, k = analysis.by_cell.values(), analysis.ks[-1]
    rows = {}
    for cell in cells:
        coverage = analysis.covered(column, cell, k)
        if coverage is not None:
            rows[cell] = coverage
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


LOSSES_ABREAST = 3
"""Panels beside each other."""
HIGHEST = 8.2
"""Inches that all panels have together, so that they fit a page."""
LOSS = "#b2182b"


def against_base(analysis: Analysis, column: str) -> dict[str, tuple[Band, ...]]:
    """Band of every trained cell against the base models, by name of the cell; those that have
    none are left out."""
    bases = [cell for cell in analysis.by_cell.values() if cell.is_base]
    bands = {}
    for cell in analysis.by_cell:
        for base in bases:
            band = analysis.band(column, cell, base)
            if band:
                bands[cell] = band
    return bands


def losses(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A panel a trained cell: the difference with its band, and where the first loss is."""
    bands, cells = against_base(analysis, column), list(analysis.by_cell.values())
    n_rows, styles = -(-len(bands) // LOSSES_ABREAST), cell_styles(cells)
    figure = Figure(figsize=(width, 0.4 + min(1.3 * n_rows, HIGHEST)), layout="constrained")
    panels = figure.subplots(n_rows, LOSSES_ABREAST, sharex=True, sharey=True, squeeze=False)
    _log_k(panels[0, 0], analysis.ks)  # which all panels share
    for axes in panels.flat[len(bands) :]:
        axes.set_axis_off()
    for i, (axes, (name, band)) in enumerate(zip(panels.flat, bands.items(), strict=False)):
        cell = analysis.by_cell[name]
        _curve(axes, band, styles[cell].color)
        _crossing(axes, analysis.first_loss_of(column, name, band[0].old), band[-1].k)
        axes.set_title(in_math(cell.label), pad=12)
        axes.minorticks_off()
        axes.tick_params(labelbottom=i + LOSSES_ABREAST >= len(bands))
    figure.supxlabel("k", fontsize=SIZE)
    figure.supylabel(f"pass@k on {column} less Base (points)", fontsize=SIZE)
    return figure


def _log_k(axes: Axes, ks: tuple[int, ...]) -> None:
    every = 1 if len(ks) < 5 else 2
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) if i % every == 0 else "" for i, k in enumerate(ks)])
    axes.set_xlim(1, ks[-1])


def _curve(axes: Axes, band: tuple[Band, ...], color: str) -> None:
    ks = [row.k for row in band]
    low, mean, high = (
        100 * np.array([getattr(row, name) for row in band])
        for name in ("low", "difference", "high")
    )
    axes.axhline(0, color="#555555", lw=0.9)
    axes.fill_between(ks, low, high, color=color, alpha=0.2, lw=0)
    axes.plot(ks, mean, color=color)


def _crossing(axes: Axes, loss: FirstLoss | None, last: int) -> None:
    """A bar on the zero line over the k at which the first loss may be, and these in words above
    the panel."""
    if loss is None:
        return
    axes.text(0, 1.03, _first_loss_text(loss), color=LOSS, fontsize=SMALL, va="bottom",
              transform=axes.transAxes)  # fmt: skip
    if loss.low is None:
        return
    end, marker = (last, ">") if loss.high is None else (loss.high, "|")
    axes.plot([loss.low, end], [0, 0], color=LOSS, lw=3, solid_capstyle="butt", zorder=3)
    axes.plot([end], [0], color=LOSS, marker=marker, ms=6, mew=1.5, clip_on=False, zorder=4)


def _first_loss_text(loss: FirstLoss) -> str:
    if loss.low is None:
        return "no loss"
    if loss.high is None:
        return f"first loss: k ≥ {loss.low}, or none"
    between = f" to {loss.high}" if loss.high > loss.low else ""
    return f"first loss: k = {loss.low}{between}"


PANELS = ("success_rate", "active_fraction", "entropy", "focal_weight")
SMOOTHED = 30
"""Training curves are averaged over 1 / SMOOTHED of their steps."""
MOST_POINTS = 120
"""Points of a training curve at most: more are no finer on paper and make large files."""


def training_caption(analysis: Analysis, algorithm: str) -> str:
    """What the figure of training shows."""
    window = _window(analysis)
    smoothed = f", moving average over {window} steps" if window > 1 else ""
    name = method_name(algorithm)
    return f"{name} by step: mean over seeds, band from the lowest to the highest seed{smoothed}"


def has_metrics(analysis: Analysis, algorithm: str) -> bool:
    """Whether some run of an algorithm is finished."""
    sweep = analysis.results.sweep
    return sweep is not None and any(
        p.is_trained for p in sweep.points if p.cell is not None and p.cell.algorithm == algorithm
    )


def training(analysis: Analysis, algorithm: str, width: float = PAGE) -> Figure:
    """Reward, active groups, entropy and focal weight by step, a line a cell."""
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    panels, window = figure.subplots(2, 2, sharex=True), _window(analysis)
    cells = list(analysis.by_cell.values())
    styles = cell_styles(cells)
    for cell in cells:
        runs = _runs(analysis, cell) if cell.algorithm == algorithm else []
        if not runs:
            continue
        steps = min((frame["step"].to_numpy() for frame in runs), key=len)
        shown = np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).round().astype(int)
        color = styles[cell].color
        for axes, column in zip(panels.flat, PANELS, strict=True):
            heads = [frame[column].head(len(steps)).to_numpy().astype(float) for frame in runs]
            values = np.stack([_smooth(head, window) for head in heads])[:, shown]
            low, high = values.min(axis=0), values.max(axis=0)
            axes.fill_between(steps[shown], low, high, color=color, alpha=0.11, lw=0)
            axes.plot(steps[shown], values.mean(axis=0), color=color, lw=1.1,
                      label=in_math(cell.label))  # fmt: skip
    for axes, column in zip(panels.flat, PANELS, strict=True):
        axes.set_title(wrapped(METRICS[column].label, width / 2 - 0.4))
    for axes in panels[1]:
        axes.set_xlabel("step")
    legend_below(figure, panels[:1, 0], width)
    return figure


def _runs(analysis: Analysis, cell: CellRow) -> list[pl.DataFrame]:
    """Metrics of the finished runs of a cell by step, one a seed."""
    points = [
        point for point in analysis.results.require_sweep().points if point.label == cell.cell
    ]
    frames = [point.metrics().sort("step") for point in points if point.is_trained]
    return [frame for frame in frames if len(frame)]


def _window(analysis: Analysis) -> int:
    return max(1, int(analysis.results.require_sweep().train["steps"]) // SMOOTHED)


def _smooth(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Centred moving average that leaves nan out; shorter windows at the ends."""
    has_value = ~np.isnan(values)
    kernel = np.ones(window)
    totals = np.convolve(np.where(has_value, values, 0.0), kernel, "same")
    counts = np.convolve(has_value.astype(float), kernel, "same")
    means: NDArray[np.float64] = np.full(len(values), np.nan)
    np.divide(totals, counts, out=means, where=counts > 0.5)
    return means
