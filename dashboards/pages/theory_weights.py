"""What each advantage weighs prompts of a success rate: chosen ones at an N, and one over N."""

from __future__ import annotations

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


def chosen(methods: Sequence[str], group_size: int) -> Chart:
    """Methods at a group size; those that it does not allow are named below."""
    made = {text: Method.parse(text) for text in methods}
    defined = [text for text, method in made.items() if method.is_defined(group_size)]
    lines = at_size(tuple(defined), group_size)
    notes = [RELATIVE, epsilon_note(group_size)]
    notes += [f"One line: {', '.join(line.labels)}." for line in lines if len(line.labels) > 1]
    left_out = [method.label for text, method in made.items() if text not in defined]
    if left_out:
        notes.append(f"Not defined, or always 0, at this N: {', '.join(left_out)}.")
    return Chart(
        name="weights",
        title=f"What an advantage weighs by the success rate, N = {group_size}",
        figure=_figure(lines),
        data=_data([(text, group_size) for text in defined]),
        call=calls.WEIGHTS.format(pairs=[(text, group_size) for text in defined]),
        note=" ".join(notes),
    )


def over(text: str) -> Chart:
    """One method at every group size that it is defined for."""
    sizes, lines = over_sizes(text)
    pairs = [(text, size) for size in sizes]
    return Chart(
        name="weights-over",
        title=f"The same of {Method.parse(text).label} over N",
        figure=_figure(lines),
        data=_data(pairs),
        call=calls.WEIGHTS.format(pairs=pairs),
        note=RELATIVE,
    )


def _figure(lines: Sequence[Line]) -> dict[str, object]:
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
        xaxis={"type": "log", **_ticks(RATES_SHOWN, [f"{rate:g}" for rate in RATES_SHOWN])},
        yaxis={
            "type": "log",
            "range": [-1.25, 1.85],
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
    made = pl.DataFrame(schema=SCHEMA)
    for text, size in pairs:
        own = {"success_rate": CURVE, "weight": weights(text, size)}
        whose = {"method": [text] * len(CURVE), "group_size": [size] * len(CURVE)}
        made = made.vstack(pl.DataFrame(whose | own, schema=SCHEMA))
    return made
