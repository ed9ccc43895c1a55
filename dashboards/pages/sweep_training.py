"""Training so far, on the sweep's page: a number's curve by step, of either engine, and held-out
success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.queries import training
from fgrpo_bench.analysis import cells_of
from fgrpo_bench.report.looks import Look
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.watch import METRICS, NUMBERS, TOKENS_PER_SECOND

CURVES = tuple(NUMBERS)
"""What can be drawn by step."""


def steps(results: SweepResults, name: str) -> tuple[Chart, ...]:
    """The curve of one of NUMBERS by training step; none where no run has trained a step."""
    data = training.steps(results, name)
    if data.is_empty():
        return ()
    number, width = NUMBERS[name], max(data["steps"].to_list())
    columns = ("tokens", "seconds") if name == TOKENS_PER_SECOND else (name,)
    return (
        Chart(
            name="steps",
            title=f"Training so far: {number.column}",
            direct="end",
            height=330,
            figure=charts.figure(
                _lines(results, data, name, charts.short, mode="lines"),
                x="training step",
                y=number.label,
                yaxis={"tickformat": ".1%"} if "%" in number.form else {},
            ),
            data=data,
            call=calls.call(calls.RUNS, results.paths, selected=f".select{('step', *columns)}"),
            note="Mean over the seeds that have come to a step"
            + ("." if width == 1 else f", and over {width} steps at a time.")
            + (f" {number.better.capitalize()} is better." if number.better else ""),
        ),
    )


def learning(results: SweepResults) -> tuple[Chart, ...]:
    """The success rate on held-out problems while training goes on."""
    data = training.learning(results)
    if data.is_empty():
        return ()
    return (
        Chart(
            name="learning",
            title="Held-out success rate while training",
            direct="end",
            height=330,
            figure=charts.figure(
                _lines(results, data, "eval_pass_at_1", charts.percent),
                x="training step",
                y=f"{METRICS['eval_pass_at_1'].title}, %",
            ),
            data=data,
            call=calls.call(calls.RUNS, results.paths, selected='.drop_nulls("eval_pass_at_1")'),
            note="Mean over seeds of the small evaluations during training.",
        ),
    )


def _lines(
    results: SweepResults,
    data: pl.DataFrame,
    column: str,
    rounded: Callable[[Sequence[float | None]], list[float | None]],
    **more: Any,
) -> list[dict[str, Any]]:
    """A line a cell by step, of the rows that it has in `data`."""
    cells = cells_of(results)
    styles: dict[str, Look] = charts.look_of(cells)
    traces = []
    for name, cell in cells.items():
        own = data.filter(cell=name)
        if len(own):
            x, y = own["step"].to_list(), rounded(own[column].to_list())
            traces.append(charts.line(x, y, name=cell.label, look=styles[name], **more))
    return traces
