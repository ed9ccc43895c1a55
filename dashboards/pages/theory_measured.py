"""What the sweep measured of the theory, each on axes of its own: the share of problems that were
lost by N, and the base models' success rates."""

from __future__ import annotations

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.queries.tail import BINS, MeasuredTail
from fgrpo_bench.results import SweepResults

GREY = "#666666"
_TICKS = [2**i for i in range(1, 11)]
SIZES = {
    "type": "log", "tickvals": _TICKS, "ticktext": [str(n) for n in _TICKS], "range": [0.25, 3.05],
}  # fmt: skip
"""The axis of N, from 2 to 1,024."""


def lost(tail: MeasuredTail | None, results: SweepResults, benchmark: str) -> tuple[Chart, ...]:
    """By N; none where nothing is measured."""
    if tail is None or not tail.of.lost:
        return ()
    by_size = tail.of.lost
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(by_size),
        "y": [round(value, 5) for value in by_size.values()],
        "marker": {"color": GREY, "size": 9, "symbol": "diamond"},
        "line": {"color": GREY, "width": 1, "dash": "dot"},
        "showlegend": False,
    }
    return (
        Chart(
            name="lost",
            title=f"Measured: share of problems lost at k = {results.evaluation['ks'][-1]}",
            figure=charts.figure(
                [trace], x="group size N", y="share of problems", xaxis=SIZES,
                yaxis={"rangemode": "tozero"},
            ),
            data=pl.DataFrame(
                list(by_size.items()),
                schema={"group_size": pl.Int64, "share_lost": pl.Float64},
                orient="row",
            ),
            call=calls.call(calls.LOST_MEASURED, results.paths, benchmark=benchmark),
            note="Problems within the base model's reach that training at gamma = 0 lost: another "
            "quantity than the probability; compare at which N each is highest.",
        ),
    )  # fmt: skip


def rates(tail: MeasuredTail | None, results: SweepResults, benchmark: str) -> tuple[Chart, ...]:
    """A histogram of the problems; none where nothing is measured."""
    if tail is None:
        return ()
    centres = [(i + 0.5) / BINS for i in range(BINS)]
    trace = {
        "type": "bar",
        "x": centres,
        "y": [round(float(value), 5) for value in tail.histogram],
        "marker": {"color": "#9aa0a8"},
        "width": 0.9 / BINS,
        "showlegend": False,
    }
    return (
        Chart(
            name="rates",
            title="Measured: success rates of the base models",
            figure=charts.figure(
                [trace], x="success rate", y="share of problems", xaxis={"range": [0, 1]}
            ),
            data=pl.DataFrame({"success_rate": centres, "share_of_problems": tail.histogram}),
            call=calls.call(calls.RATES_MEASURED, results.paths, benchmark=benchmark),
            note="By problem, without 0 and 1.",
        ),
    )
