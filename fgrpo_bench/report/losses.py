"""The figure of differences over all k: from which k on training loses to the base models."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Band, FirstLoss
from fgrpo_bench.documents.style import WIDTH
from fgrpo_bench.report.looks import looks

ABREAST = 3
"""Panels beside each other."""
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


def losses(analysis: Analysis, column: str) -> Figure:
    """A panel a trained cell: the difference with its band, and where the first loss is."""
    bands, cells = against_base(analysis, column), list(analysis.by_cell.values())
    n_rows, look = -(-len(bands) // ABREAST), looks(cells)
    figure = Figure(figsize=(WIDTH, 0.9 + 1.75 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, ABREAST, sharex=True, sharey=True, squeeze=False)
    _log_k(panels[0, 0], analysis.ks)  # which all panels share
    for axes in panels.flat[len(bands) :]:
        axes.set_axis_off()
    for axes, (name, band) in zip(panels.flat, bands.items(), strict=False):
        cell = analysis.by_cell[name]
        _curve(axes, band, look[cell].color)
        _crossing(axes, analysis.first_loss_of(column, name, band[0].old), band[-1].k)
        axes.set_title(cell.label)
        axes.minorticks_off()
        axes.tick_params(labelbottom=True)
    figure.supxlabel("k", fontsize=10)
    figure.supylabel(f"pass@k on {column} less Base (points)", fontsize=10)
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
    """A bar on the zero line over the k at which the first loss may be, and these in words."""
    if loss is None:
        return
    axes.text(0.97, 0.93, _words(loss), color=LOSS, fontsize=8, ha="right", va="top",
              transform=axes.transAxes)  # fmt: skip
    if loss.low is None:
        return
    end, marker = (last, ">") if loss.high is None else (loss.high, "|")
    axes.plot([loss.low, end], [0, 0], color=LOSS, lw=4, solid_capstyle="butt", zorder=3)
    axes.plot([end], [0], color=LOSS, marker=marker, ms=9, mew=2, clip_on=False, zorder=4)


def _words(loss: FirstLoss) -> str:
    if loss.low is None:
        return "no loss"
    if loss.high is None:
        return f"first loss: k = {loss.low} or later, or none"
    between = f" to {loss.high}" if loss.high > loss.low else ""
    return f"first loss: k = {loss.low}{between}"
