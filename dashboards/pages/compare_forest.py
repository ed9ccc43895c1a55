"""The forest plot of Compare: differences with their intervals and each seed's own, around zero."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart, run_of
from dashboards.pages.compare_rows import QUESTION, telling
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Comparison, to_frame
from fgrpo_bench.documents.numbers import difference, points

ZERO = {"rangemode": "tozero", "zeroline": True, "zerolinecolor": "#888888", "zerolinewidth": 2}
SEED = "#6f7479"
ROW, LOW_ROW, FEW = 44, 36, 4
"""Pixels of a comparison, of one among more than FEW."""


def forest(analysis: Analysis, column: str, rows: Sequence[Comparison], against: str) -> Chart:
    """rows: at least one. against: QUESTION, or the cell that all others are compared with."""
    data, call = _data(analysis, column, rows, against)
    drawn = telling(rows)
    mean, low, high = percent(to_frame(Comparison, drawn), "difference")
    looks, places = charts.look_of(analysis.by_cell), list(range(len(drawn)))
    olds, ks = list(dict.fromkeys(row.old for row in drawn)), {row.k for row in drawn}
    names = [_name(analysis, row, with_k=len(ks) > 1) for row in drawn]
    against_old = [_against(analysis, row) if len(olds) > 1 else "" for row in drawn]
    values = [difference(row.difference, row.low, row.high) for row in drawn]
    seeds = [(place, value) for place, row in enumerate(drawn) for value in row.by_seed]
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
        "marker": {"color": [looks[row.new].color for row in drawn], "size": 10},
        "error_x": charts.error(mean, low, high),
        "showlegend": False,
        **charts.hover(
            [
                f"{name} {old}<br>{value}, {row.verdict}"
                for name, old, value, row in zip(names, against_old, values, drawn, strict=True)
            ]
        ),
    }
    ticks = [
        f"<b>{name}</b><br>{old}{points(row.difference)} {row.verdict}"
        for name, old, row in zip(names, against_old, drawn, strict=True)
    ]
    title = "Difference in " + (f"pass@{drawn[0].k}" if len(ks) == 1 else "pass@k")
    old = f" to {analysis.by_cell[olds[0]].label}" if len(olds) == 1 else ", new minus old"
    return Chart(
        name="differences",
        title=title + old,
        figure=charts.figure(
            [rings, means],
            x="percentage points",
            y="",
            xaxis=ZERO,
            yaxis={
                "tickvals": places,
                "ticktext": ticks,
                "showgrid": False,
                "range": [len(drawn) - 0.4, -0.6],
            },
        ),
        data=data,
        call=call,
        note="Bars: 95% intervals. Rings: seeds."
        + (
            ""
            if len(drawn) == len(rows)
            else f" The {len(drawn)} of {len(rows)} that say most; all in the table."
        ),
        height=62 + (ROW if len(drawn) <= FEW else LOW_ROW) * len(drawn),
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
        call = calls.call(calls.PAIRS, run_of(analysis.results), column=column, ks=ks, pairs=pairs)
    else:
        names = {"column": column, "k": rows[0].k, "old": against}
        call = calls.call(calls.DIFFERENCES, run_of(analysis.results), **names)
    return to_frame(Comparison, rows).drop("seeds", "by_seed"), call


def _name(analysis: Analysis, row: Comparison, *, with_k: bool) -> str:
    """Escaped."""
    return charts.label(analysis.by_cell[row.new].label) + (f", pass@{row.k}" * with_k)


def _against(analysis: Analysis, row: Comparison) -> str:
    """Escaped, for what follows."""
    return charts.label(f"against {analysis.by_cell[row.old].label}") + " "
