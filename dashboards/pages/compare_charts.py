"""The charts of Compare: curves, the plane, differences, all k at once, and what training cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.bands import GRID
from fgrpo_bench.analysis.rows import Comparison, to_frame
from fgrpo_bench.report.looks import Look

COSTS = {
    "rollouts": "rollouts of training",
    "tokens": "tokens sampled in training",
    "train_cpu_seconds": "CPU seconds of training",
    "train_gpu_seconds": "GPU seconds of training",
}
"""What a run costs: columns of the frame `cost`, in words."""
ESTIMATES = ("cell", "step", "k", "mean", "low", "high", "n_problems")


class Drawing:
    """The charts of one benchmark or average."""

    def __init__(self, analysis: Analysis, column: str, picked: tuple[str, ...]) -> None:
        """picked: the cells that are shown; empty is all."""
        self.analysis, self.column = analysis, column
        self.cells, self.looks = analysis.by_cell, charts.look_of(analysis.by_cell)
        self._picked: dict[str, Any] = {"cell": picked} if picked else {}

    def _by_cell(self, data: pl.DataFrame) -> Iterator[tuple[str, Look, pl.DataFrame]]:
        for (name,), own in data.group_by("cell", maintain_order=True):
            yield self.cells[str(name)].label, self.looks[str(name)], own

    def curves(self) -> Chart:
        """pass@k at every k."""
        data, call = calls.selected(
            self.analysis, "estimates", ESTIMATES, known=["mean"],
            column=self.column, is_chosen=True, **self._picked,
        )  # fmt: skip
        traces: list[dict[str, Any]] = []
        for label, look, own in self._by_cell(data):
            ks, (mean, low, high) = own["k"].to_list(), _percent(own)
            if None not in low:
                traces.append(charts.band(ks, low, high, look=look, group=label))
            traces.append(charts.line(ks, mean, name=label, look=look, legendgroup=label))
        return Chart(
            name="curves",
            title=f"pass@k on {self.column}",
            figure=charts.figure(traces, x="k", y="pass@k, %", xaxis=_ks(self.analysis.ks)),
            data=data,
            call=call,
            note="Click a name in the legend to hide its curve, twice to see it alone.",
        )

    def plane(self, k: int) -> Chart:
        """pass@k over pass@1."""
        first = self.analysis.ks[0]
        data, call = calls.selected(
            self.analysis, "estimates", ESTIMATES, known=["mean"],
            column=self.column, is_chosen=True, k=(first, k), **self._picked,
        )  # fmt: skip
        rows = self.analysis.front.filter(column=self.column, is_on_front=False)
        dominated = [self.cells[name].label for name in rows["cell"]]
        traces = []
        for label, look, own in self._by_cell(data):
            ends = [_percent(own.filter(k=end)) for end in (first, k)]
            if all(mean for mean, _, _ in ends):
                (x, *across), (y, *up) = ends
                traces.append(
                    charts.line(
                        x, y, name=label, look=look, mode="markers",
                        error_x=charts.error(x, *across, color=look.color),
                        error_y=charts.error(y, *up, color=look.color),
                        marker=charts.marker(look, hollow=label in dominated),
                    )
                )  # fmt: skip
        return Chart(
            name="plane",
            title=f"pass@{first} and pass@{k}",
            figure=charts.figure(traces, x=f"pass@{first}, %", y=f"pass@{k}, %"),
            data=data,
            call=call,
            note="Up and to the right is better; training usually moves right and down."
            + (" Hollow: dominated, see the table." if dominated else ""),
        )

    def differences(self, rows: Sequence[Comparison], k: int, against: str) -> Chart:
        """rows: comparisons with one cell."""
        data = to_frame(Comparison, rows).drop("seeds", "by_seed")
        mean, low, high = _percent(data, "difference")
        trace = {
            "type": "scatter",
            "mode": "markers",
            "x": mean,
            "y": [charts.label(self.cells[row.new].label) for row in rows],
            "marker": {"color": [self.looks[row.new].color for row in rows], "size": 9},
            "error_x": charts.error(mean, low, high),
            "showlegend": False,
        }
        return Chart(
            name="differences",
            title=f"pass@{k} minus that of {self.cells[against].label}",
            figure=charts.figure(
                [trace], x="percentage points", y="", xaxis=ZERO, yaxis=charts.CATEGORIES
            ),
            data=data,
            call=calls.call(
                calls.DIFFERENCES, self.analysis.results.paths, column=self.column, k=k, old=against
            ),
        )

    def band(self, new: str, old: str) -> Chart:
        """The difference of a pair over all k at once."""
        data, call = calls.selected(
            self.analysis, "bands", ("k", "difference", "low", "high"),
            column=self.column, new=new, old=old,
        )  # fmt: skip
        ks, look = data["k"].to_list(), self.looks[new]
        mean, low, high = _percent(data, "difference")
        label = f"{self.cells[new].label} against {self.cells[old].label}"
        loss = self.analysis.first_loss_of(self.column, new, old)
        marks = {} if loss is None else {"may lose": loss.low, "loses": loss.high}
        crossed = {words: k for words, k in marks.items() if k is not None}
        return Chart(
            name="band",
            title=f"pass@k of {label}, over all k at once",
            figure=charts.figure(
                [
                    charts.band(ks, low, high, look=look, group=new),
                    charts.line(ks, mean, name=label, look=look, mode="lines", legendgroup=new),
                ],
                x="k",
                y="percentage points",
                xaxis=_ks(self.analysis.ks),
                yaxis=ZERO,
                shapes=[_dashed(yref="paper", y0=0, y1=1, x0=k, x1=k) for k in crossed.values()],
                annotations=[
                    _said(f"{words} from k = {k}", k, i)
                    for i, (words, k) in enumerate(crossed.items())
                ],
            ),
            data=data,
            call=call,
            note=(f"{label}: {loss.words}. " if loss else "")
            + "In 95% of such sweeps the truth lies within the band at all these k together "
            f"({GRID}); it is simultaneous over k, not over cells.",
        )

    def compute(self, k: int, cost: str) -> Chart:
        """A point a cell and checkpoint; checkpoints of a cell are joined."""
        data, call = calls.selected(
            self.analysis, "estimates", (*ESTIMATES, cost), beside="cost", known=["mean", cost],
            column=self.column, k=k, **self._picked,
        )  # fmt: skip
        traces = []
        for label, look, own in self._by_cell(data):
            mean, low, high = _percent(own)
            ends = charts.error(mean, low, high, color=look.color)
            traces.append(
                charts.line(own[cost].to_list(), mean, name=label, look=look, error_y=ends)
            )
        base = self.analysis.estimate(self.column, "base", k).mean if "base" in self.cells else None
        level = {} if base is None else {"y0": 100 * base, "y1": 100 * base}
        return Chart(
            name="compute",
            title=f"pass@{k} for what training cost",
            figure=charts.figure(
                traces,
                x=COSTS[cost],
                y=f"pass@{k}, %",
                xaxis={"rangemode": "tozero"},
                shapes=[_dashed(xref="paper", x0=0, x1=1, **level)] if level else [],
            ),
            data=data,
            call=call,
            note="Cells above one another cost the same."
            + ("" if base is None else " Dashed: the base models."),
        )


ZERO = {"rangemode": "tozero", "zeroline": True, "zerolinecolor": "#888", "zerolinewidth": 2}


def _percent(rows: pl.DataFrame, middle: str = "mean") -> list[list[float | None]]:
    """A column with its interval."""
    return [charts.percent(rows[name].to_list()) for name in (middle, "low", "high")]


def _ks(ks: Sequence[int]) -> dict[str, Any]:
    return {"type": "log", "tickvals": list(ks), "ticktext": [str(k) for k in ks]}


def _dashed(**ends: object) -> dict[str, Any]:
    style = {"color": "#666666", "dash": "dash", "width": 1.2}
    return {"type": "line", "line": style} | ends


def _said(words: str, k: int, line: int) -> dict[str, Any]:
    """Words beside an upright; an annotation's x on a logarithmic axis is a logarithm."""
    return {
        "text": words, "x": math.log10(k), "xref": "x", "y": 1 - 0.09 * line, "yref": "paper",
        "showarrow": False, "xanchor": "left", "yanchor": "top",
    }  # fmt: skip
