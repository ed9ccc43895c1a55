"""The figure of training: what the metrics of finished runs say by step."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.style import PAGE, in_math, wrapped
from fgrpo_bench.report.cell_styles import cell_styles
from fgrpo_bench.specs import method_name
from fgrpo_bench.stages.watch import METRICS

PANELS = ("success_rate", "active_fraction", "entropy", "focal_weight")
SMOOTHED = 30
"""Training curves are averaged over 1 / SMOOTHED of their steps."""
DRAWN = 120
"""Points of a training curve at most: more are no finer on paper and make large files."""


def caption(analysis: Analysis, algorithm: str) -> str:
    """What the figure shows."""
    window = _window(analysis)
    smoothed = f", moving average over {window} steps" if window > 1 else ""
    name = method_name(algorithm)
    return f"{name}: mean over seeds, band from the lowest to the highest seed{smoothed}"


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
        shown = np.linspace(0, len(steps) - 1, min(len(steps), DRAWN)).round().astype(int)
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
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def _runs(analysis: Analysis, cell: CellRow) -> list[pl.DataFrame]:
    """Metrics of the finished runs of a cell by step, one a seed."""
    points = [point for point in analysis.results.of_sweep().points if point.label == cell.cell]
    frames = [point.metrics().sort("step") for point in points if point.is_trained]
    return [frame for frame in frames if len(frame)]


def _window(analysis: Analysis) -> int:
    return max(1, int(analysis.results.of_sweep().train["steps"]) // SMOOTHED)


def _smooth(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Centred moving average that leaves nan out; shorter windows at the ends."""
    known = ~np.isnan(values)
    kernel = np.ones(window)
    totals = np.convolve(np.where(known, values, 0.0), kernel, "same")
    counts = np.convolve(known.astype(float), kernel, "same")
    means: NDArray[np.float64] = np.full(len(values), np.nan)
    np.divide(totals, counts, out=means, where=counts > 0.5)
    return means
