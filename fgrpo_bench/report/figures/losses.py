"""The figure of differences over all k: from which k on training loses to the base models."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Band, FirstLoss
from fgrpo_bench.documents.style import PAGE, SIZE, SMALL, in_math
from fgrpo_bench.report.cell_styles import cell_styles

ABREAST = 3
"""Panels beside each other."""
HIGHEST = 8.2
"""Inches that all panels have together, so that they fit a page."""
LOSS = "#b2182b"


def against_base(analysis: Analysis, column: str) -> dict[str, tuple[Band, ...]]:
    """Band of every trained cell against the base models, by name of the cell; those that have
    none are left out."""
    bases = [cell for cell in analysis.by_cell.values() if cell.is_base]
    return {
        cell: band
        for cell in analysis.by_cell
        for base in bases
        if (band := analysis.band(column, cell, base))
    }


def losses(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A panel a trained cell: the difference with its band, and where the first loss is."""
    bands, cells = against_base(analysis, column), list(analysis.by_cell.values())
    n_rows, styles = -(-len(bands) // ABREAST), cell_styles(cells)
    figure = Figure(figsize=(width, 0.4 + min(1.3 * n_rows, HIGHEST)), layout="constrained")
    panels = figure.subplots(n_rows, ABREAST, sharex=True, sharey=True, squeeze=False)
    _log_k(panels[0, 0], analysis.ks)  # which all panels share
    for axes in panels.flat[len(bands) :]:
        axes.set_axis_off()
    for i, (axes, (name, band)) in enumerate(zip(panels.flat, bands.items(), strict=False)):
        cell = analysis.by_cell[name]
        _curve(axes, band, styles[cell].color)
        _crossing(axes, analysis.first_loss_of(column, name, band[0].old), band[-1].k)
        axes.set_title(in_math(cell.label), pad=12)
        axes.minorticks_off()
        axes.tick_params(labelbottom=i + ABREAST >= len(bands))
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
    axes.text(0, 1.03, _words(loss), color=LOSS, fontsize=SMALL, va="bottom",
              transform=axes.transAxes)  # fmt: skip
    if loss.low is None:
        return
    end, marker = (last, ">") if loss.high is None else (loss.high, "|")
    axes.plot([loss.low, end], [0, 0], color=LOSS, lw=3, solid_capstyle="butt", zorder=3)
    axes.plot([end], [0], color=LOSS, marker=marker, ms=6, mew=1.5, clip_on=False, zorder=4)


def _words(loss: FirstLoss) -> str:
    if loss.low is None:
        return "no loss"
    if loss.high is None:
        return f"first loss: k ≥ {loss.low}, or none"
    between = f" to {loss.high}" if loss.high > loss.low else ""
    return f"first loss: k = {loss.low}{between}"
