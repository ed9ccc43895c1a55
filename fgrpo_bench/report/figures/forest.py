"""The figure of the question's differences: a row a pair, with its interval and its seeds."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.analysis import INCONCLUSIVE, ROBUST, Analysis
from fgrpo_bench.analysis.rows import Comparison
from fgrpo_bench.documents.style import PAGE, SMALL, wrapped

COLORS = {1: "#0072b2", -1: "#d55e00", 0: "#666666"}
"""Of a difference that is robust or suggestive, up and down, and of an inconclusive one."""


def in_question(analysis: Analysis, column: str) -> list[Comparison]:
    """The differences on a benchmark or average that the question is about, with an interval."""
    rows = analysis.in_question
    return [row for row in rows if row.column == column and row.low is not None]


def forest(analysis: Analysis, column: str, width: float = PAGE) -> Figure:
    """A panel a k with a row a pair: the difference with its 95% interval, filled where it is
    robust, and a dot a seed."""
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
    sign = 0 if row.verdict == INCONCLUSIVE else 1 if row.difference > 0 else -1
    color, mean = COLORS[sign], 100 * row.difference
    axes.plot([100 * row.low, 100 * row.high], [y, y], color=color, lw=1.2, zorder=2)
    axes.plot([100 * seed for seed in row.by_seed], [y - 0.22] * len(row.by_seed), ".",
              color=color, ms=3, alpha=0.6, zorder=2)  # fmt: skip
    axes.plot([mean], [y], "o", ms=4.5, color=color, zorder=3,
              mfc=color if row.verdict == ROBUST else "white")  # fmt: skip
