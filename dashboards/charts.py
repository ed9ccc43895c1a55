"""Plotly figures as plain JSON: how lines, bands, points and heat maps look everywhere; and the
library call that gives a chart's numbers.

In: rows of frames. Out: parts of `page.Chart`. No Plotly code runs on the server. Plotly reads a
small markup in names and texts, so whatever comes from files goes through `label`. A call is text
to copy into a notebook, which defines `result`; the tests run them and compare. Next: pages/.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from dashboards.text import shortened
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.cell_styles import CellStyle, cell_styles

SYMBOLS = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down"}
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
LONGEST = 60
"""Characters of a name in a chart."""
RATES = (
    (0.0, "0", "#fdd9b5"),
    (0.01, "under 1%", "#eef4fb"),
    (0.03, "to 3%", "#cfe1f2"),
    (0.1, "to 10%", "#9ecae1"),
    (0.3, "to 30%", "#5fa6d1"),
    (0.6, "to 60%", "#2575b7"),
    (1.0, "to 100%", "#08306b"),
)
"""Success rates up to a value, in words, with its colour: none at all stands apart in another hue,
the rest is one blue from light to dark. style.css has the same colours."""


def rate_steps(rates: Any) -> Any:
    """The places in RATES of rates, of an array or a number; of nan the last."""
    places = np.searchsorted([top for top, *_ in RATES], rates)
    return np.minimum(places, len(RATES) - 1)


def rate_scale() -> list[list[Any]]:
    """RATES as a Plotly scale over their places, in steps."""
    n = len(RATES)
    return [[(place + end) / n, color] for place, (*_, color) in enumerate(RATES) for end in (0, 1)]


def label(text: str) -> str:
    """A name that Plotly shows as it is."""
    return escape(shortened(text, LONGEST), quote=False)


def styles_by_cell(cells: Mapping[str, CellRow]) -> dict[str, CellStyle]:
    """Colour, marker and line of every cell by name, as in the report's figures."""
    styles = cell_styles(list(cells.values()))
    return {name: styles[cell] for name, cell in cells.items()}


def percent(values: Sequence[float | None]) -> list[float | None]:
    """Fractions in percent, rounded for the page; the CSV has all digits."""
    return [None if value is None else round(100 * value, 4) for value in values]


def short(values: Sequence[float | None]) -> list[float | None]:
    """Numbers with as many digits as a chart can show; the CSV has all."""
    return [None if value is None else float(f"{value:.5g}") for value in values]


def line(
    x: Sequence[Any], y: Sequence[float | None], *, name: str, style: CellStyle, **more: Any
) -> dict[str, Any]:
    """A line with markers."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": style.color, "dash": DASHES.get(style.linestyle, "solid"), "width": 2},
        "marker": marker(style),
    } | more


def marker(style: CellStyle, *, hollow: bool = False) -> dict[str, Any]:
    """The symbol of a cell, or its outline alone."""
    symbol = SYMBOLS.get(style.marker, "circle") + ("-open" if hollow else "")
    return {"color": style.color, "symbol": symbol, "size": 7}


def band(
    x: Sequence[Any],
    low: Sequence[float | None],
    high: Sequence[float | None],
    *,
    style: CellStyle,
    group: str,
) -> dict[str, Any]:
    """The area between two lines, which comes and goes with the legend's group."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": _faint(style.color),
        "line": {"width": 0.8, "color": _faint(style.color, 0.5)},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": group,
    }


def _faint(color: str, opacity: float = 0.15) -> str:
    """A colour `#rrggbb` that lets through what is behind it."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def hover(texts: Sequence[str]) -> dict[str, Any]:
    """What is shown over each point instead of bare coordinates; names in it are escaped."""
    return {"hovertext": list(texts), "hoverinfo": "text"}


def error(
    values: Sequence[float | None],
    low: Sequence[float | None],
    high: Sequence[float | None],
    *,
    color: str = "#55585d",
) -> dict[str, Any]:
    """Ends of intervals as Plotly's asymmetric error bars."""

    def gaps(starts: Sequence[float | None], ends: Sequence[float | None]) -> list[float]:
        return [
            0.0 if start is None or end is None else max(end - start, 0.0)
            for start, end in zip(starts, ends, strict=True)
        ]

    return {
        "type": "data", "symmetric": False, "color": color, "thickness": 1.2, "width": 3,
        "arrayminus": gaps(low, values), "array": gaps(values, high),
    }  # fmt: skip


CATEGORIES = {"autorange": "reversed", "automargin": True, "type": "category"}
"""An axis of names, from the top."""


def figure(traces: Sequence[dict[str, Any]], *, x: str, y: str, **more: Any) -> dict[str, Any]:
    """What Plotly.newPlot takes; what every chart has is in app.js. x, y: titles of the axes."""
    layout: dict[str, Any] = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    for name, value in more.items():
        layout[name] = layout[name] | value if name in layout else value
    return {"data": list(traces), "layout": layout}


def dashed(**ends: object) -> dict[str, Any]:
    """A straight line between two ends: x0, y0, x1 and y1, each of an axis or of the paper."""
    style = {"color": "#666666", "dash": "dash", "width": 1.2}
    return {"type": "line", "line": style} | ends


def note(text: str, x: float, line: int) -> dict[str, Any]:
    """Words beside a vertical line at x of a logarithmic axis (annotations take its logarithm).

    line: from 0, so that words of several do not stand in each other.
    """
    return {
        "text": text, "x": math.log10(x), "xref": "x", "y": 1 - 0.09 * line, "yref": "paper",
        "showarrow": False, "xanchor": "left", "yanchor": "top",
    }  # fmt: skip


LOAD_CALL = """\
from fgrpo_bench.analysis import load

analysis = load({sweep!r}, experiment={experiment!r}, version={version!r})
"""
DIFFERENCES_CALL = """\
from fgrpo_bench.analysis.rows import Comparison, to_frame

rows = analysis.against({column!r}, {k}, {old!r})
result = to_frame(Comparison, rows).drop("seeds", "by_seed")
"""
PAIRS_CALL = """\
from fgrpo_bench.analysis.rows import Comparison, to_frame

rows = [
    analysis.comparison({column!r}, k, new, old)
    for k in reversed({ks})
    for new, old in {pairs}
]
result = to_frame(Comparison, [row for row in rows if row]).drop("seeds", "by_seed")
"""
METRICS_CALL = """\
result = {{
    point.point_id: point.metrics(){selected}
    for point in analysis.results.points
    if point.cell is not None
}}
"""
OUTCOMES_CALL = """\
from fgrpo_bench.analysis.coverage import outcomes

result = outcomes(analysis.problems, {benchmark!r}, {k}){chosen}.select({columns})
"""


def library_call(template: str, run: RunPaths, **values: object) -> str:
    """A template over the analysis of a run, or of evaluations."""
    names = {"sweep": run.sweep, "experiment": run.experiment, "version": run.version}
    return LOAD_CALL.format(**names) + template.format(**values)


def selected_rows(
    analysis: Analysis,
    frame: str,
    columns: Sequence[str],
    *,
    joined: str | None = None,
    not_null: Sequence[str] = (),
    **where: object,
) -> tuple[pl.DataFrame, str]:
    """Rows of a frame, and the call that gives them.

    joined: a frame of cells and steps that is joined. not_null: columns that are not null. where:
    what a column is; a tuple is one of several.
    """
    single = {name: value for name, value in where.items() if not isinstance(value, tuple)}
    several = {name: value for name, value in where.items() if isinstance(value, tuple)}
    rows = getattr(analysis, frame).filter(**single)
    lines = [f"analysis.{frame}.filter({_written(single)})"]
    for name, values in several.items():
        rows = rows.filter(pl.col(name).is_in(values))
        lines.append(f".filter(pl.col({name!r}).is_in({list(values)}))")
    if joined is not None:
        rows = rows.join(getattr(analysis, joined), on=["cell", "step"], maintain_order="left")
        lines.append(f'.join(analysis.{joined}, on=["cell", "step"], maintain_order="left")')
    if not_null:
        rows = rows.drop_nulls(not_null)
        lines.append(f".drop_nulls({list(not_null)})")
    lines.append(f".select({', '.join(map(repr, columns))})")
    expression = "\n    ".join(lines)
    imports = "import polars as pl\n\n" if several else ""
    text = f"{imports}result = (\n    {expression}\n)\n"
    return rows.select(columns), library_call("{text}", analysis.results.address, text=text)


def _written(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
