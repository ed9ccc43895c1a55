"""What each advantage weighs prompts of a success rate: chosen ones at an N, and one over N."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.queries.weights import at_size, over_sizes, weights
from fgrpo_bench.theory.weights import CURVE, Line, Method, epsilon_note

RATES_SHOWN = (0.002, 0.01, 0.1, 0.5, 1.0)
WEIGHTS_SHOWN = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64)
SCHEMA = {
    "method": pl.String,
    "group_size": pl.Int64,
    "success_rate": pl.Float64,
    "weight": pl.Float64,
}
RELATIVE = "Relative to p = 0.5, since optimizer and learning rate take out a constant factor."


def build(methods: Sequence[str], group_size: int, over: str) -> tuple[Chart, Chart]:
    """Methods at a group size, with those that it does not allow named below; and one method at
    every group size that it is defined for."""
    method_by_text = {text: Method.parse(text) for text in methods}
    defined = [text for text, method in method_by_text.items() if method.is_defined(group_size)]
    lines, (sizes, lines_over) = at_size(tuple(defined), group_size), over_sizes(over)
    notes = [RELATIVE, epsilon_note(group_size)]
    notes += [f"One line: {', '.join(line.labels)}." for line in lines if len(line.labels) > 1]
    left_out = [method.label for text, method in method_by_text.items() if text not in defined]
    if left_out:
        notes.append(f"Not defined, or always 0, at this N: {', '.join(left_out)}.")
    highest = max(float(line.values.max()) for line in [*lines, *lines_over])
    return (
        _chart(
            "weights",
            f"Chosen advantages, N = {group_size}",
            lines,
            pairs=[(text, group_size) for text in defined],
            note=" ".join(notes),
            highest=highest,
        ),
        _chart(
            "weights-over",
            f"{Method.parse(over).label} over N",
            lines_over,
            pairs=[(over, size) for size in sizes],
            note=RELATIVE,
            highest=highest,
        ),
    )


def _chart(
    name: str,
    title: str,
    lines: Sequence[Line],
    *,
    pairs: Sequence[tuple[str, int]],
    note: str,
    highest: float,
) -> Chart:
    return Chart(
        name=name,
        title=title,
        figure=_figure(lines, highest),
        data=_data(pairs),
        call=calls.WEIGHTS.format(pairs=pairs),
        note=note,
    )


def _figure(lines: Sequence[Line], highest: float) -> dict[str, object]:
    traces = [
        charts.curve(
            CURVE,
            [float(f"{value:.5g}") for value in line.values],
            name=_name(line),
            color=line.color,
            dash=charts.DASHES[line.style],
        )
        for line in lines
    ]
    return charts.figure(
        traces,
        x="success rate p",
        y="weight, relative to p = 0.5",
        xaxis={
            "type": "log",
            "range": [math.log10(CURVE[0]), 0],
            **_ticks(RATES_SHOWN, [f"{rate:g}" for rate in RATES_SHOWN]),
        },
        yaxis={
            "type": "log",
            "range": [math.log10(WEIGHTS_SHOWN[0]), math.log10(1.2 * highest)],
            **_ticks(
                WEIGHTS_SHOWN, [f"{w:g}" if w >= 1 else f"1/{1 / w:g}" for w in WEIGHTS_SHOWN]
            ),
        },
    )


def _ticks(values: Sequence[float], words: Sequence[str]) -> dict[str, object]:
    return {"tickvals": list(values), "ticktext": list(words)}


def _name(line: Line) -> str:
    first, *others = line.labels
    return f"{first} and {len(others)} alike" if others else first


def _data(pairs: Sequence[tuple[str, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(schema=SCHEMA)
    for text, size in pairs:
        own = {"success_rate": CURVE, "weight": weights(text, size)}
        whose = {"method": [text] * len(CURVE), "group_size": [size] * len(CURVE)}
        frame = frame.vstack(pl.DataFrame(whose | own, schema=SCHEMA))
    return frame
