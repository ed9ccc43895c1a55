"""The forest plot of Compare: differences with their intervals and each seed's own, around zero."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.pages.compare_rows import QUESTION
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Comparison, to_frame
from fgrpo_bench.documents.numbers import difference, points

ZERO = {"rangemode": "tozero", "zeroline": True, "zerolinecolor": "#888888", "zerolinewidth": 2}
SEED = "#6f7479"
ROW = 44
"""Pixels of a comparison."""


def forest(analysis: Analysis, column: str, rows: Sequence[Comparison], against: str) -> Chart:
    """rows: at least one. against: QUESTION, or the cell that all others are compared with."""
    data, call = _data(analysis, column, rows, against)
    mean, low, high = percent(data, "difference")
    looks, places = charts.look_of(analysis.by_cell), list(range(len(rows)))
    olds, ks = list(dict.fromkeys(row.old for row in rows)), {row.k for row in rows}
    names = [_name(analysis, row, with_old=len(olds) > 1, with_k=len(ks) > 1) for row in rows]
    said = [difference(row.difference, row.low, row.high) for row in rows]
    seeds = [(place, value) for place, row in enumerate(rows) for value in row.by_seed]
    rings = {
        "type": "scatter",
        "mode": "markers",
        "x": charts.percent([value for _, value in seeds]),
        "y": [place for place, _ in seeds],
        "marker": {"color": SEED, "size": 6, "symbol": "circle-open"},
        "showlegend": False,
        **charts.hover([f"a seed: {points(value)}" for _, value in seeds]),
    }
    means = {
        "type": "scatter",
        "mode": "markers",
        "x": mean,
        "y": places,
        "marker": {"color": [looks[row.new].color for row in rows], "size": 10},
        "error_x": charts.error(mean, low, high),
        "showlegend": False,
        **charts.hover(
            [
                f"{name}<br>{value}, {row.verdict}"
                for name, value, row in zip(names, said, rows, strict=True)
            ]
        ),
    }
    ticks = [
        f"<b>{name}</b><br>{points(row.difference)} {row.verdict}"
        for name, row in zip(names, rows, strict=True)
    ]
    what = "Difference in " + (f"pass@{rows[0].k}" if len(ks) == 1 else "pass@k")
    old = f" to {analysis.by_cell[olds[0]].label}" if len(olds) == 1 else ", new minus old"
    return Chart(
        name="differences",
        title=what + old,
        figure=charts.figure(
            [rings, means],
            x="percentage points",
            y="",
            xaxis=ZERO,
            yaxis={
                "tickvals": places,
                "ticktext": ticks,
                "showgrid": False,
                "range": [len(rows) - 0.4, -0.6],
            },
        ),
        data=data,
        call=call,
        note="Bars: 95% intervals. Rings: each seed.",
        height=62 + ROW * len(rows),
    )


def percent(rows: pl.DataFrame, middle: str = "mean") -> list[list[float | None]]:
    """A column of fractions with its interval, in percent."""
    return [charts.percent(rows[name].to_list()) for name in (middle, "low", "high")]


def _data(
    analysis: Analysis, column: str, rows: Sequence[Comparison], against: str
) -> tuple[pl.DataFrame, str]:
    if against == QUESTION:
        pairs = list(dict.fromkeys((row.new, row.old) for row in rows))
        ks = sorted({row.k for row in rows})
        call = calls.call(calls.PAIRS, analysis.results.paths, column=column, ks=ks, pairs=pairs)
    else:
        names = {"column": column, "k": rows[0].k, "old": against}
        call = calls.call(calls.DIFFERENCES, analysis.results.paths, **names)
    return to_frame(Comparison, rows).drop("seeds", "by_seed"), call


def _name(analysis: Analysis, row: Comparison, *, with_old: bool, with_k: bool) -> str:
    """Escaped."""
    old = f" against {analysis.by_cell[row.old].label}" if with_old else ""
    return charts.label(analysis.by_cell[row.new].label + old) + (f", pass@{row.k}" * with_k)
