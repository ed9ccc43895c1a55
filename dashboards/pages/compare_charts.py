"""The charts of Compare: curves, the plane, differences, and what training cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.queries import curves
from dashboards.queries.curves import Difference
from fgrpo_bench.report.looks import Look
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.intervals import Estimate

COSTS = {
    "rollouts": ("rollouts", "rollouts of training"),
    "tokens": ("tokens", "tokens sampled in training"),
    "cpu_seconds": ("train_cpu_seconds", "CPU seconds of training"),
    "gpu_seconds": ("train_gpu_seconds", "GPU seconds of training"),
}
"""What a run costs: the field of report.summary.Compute, and words."""


class Drawing:
    """The charts of one benchmark."""

    def __init__(
        self,
        *,
        results: SweepResults,
        benchmark: str,
        ks: tuple[int, ...],
        cells: Mapping[str, Cell],
    ) -> None:
        self.results, self.benchmark, self.ks, self.cells = results, benchmark, ks, cells
        self.looks: dict[str, Look] = charts.look_of(cells)

    def _call(self, template: str, **values: object) -> str:
        return calls.call(template, self.results.paths, benchmark=self.benchmark, **values)

    def curves(self, shown: Mapping[str, Sequence[Estimate]]) -> Chart:
        traces: list[dict[str, Any]] = []
        for name, made in shown.items():
            low = charts.percent([one.low for one in made])
            high = charts.percent([one.high for one in made])
            if None not in low:
                traces.append(charts.band(self.ks, low, high, look=self.looks[name], group=name))
            traces.append(
                charts.line(
                    self.ks,
                    charts.percent([one.mean for one in made]),
                    name=self.cells[name].label,
                    look=self.looks[name],
                    legendgroup=name,
                )
            )
        ticks = {"type": "log", "tickvals": list(self.ks), "ticktext": [str(k) for k in self.ks]}
        return Chart(
            name="curves",
            title=f"pass@k on {self.benchmark}",
            figure=charts.figure(traces, charts.layout(x="k", y="pass@k, %", xaxis=ticks)),
            data=_frame(shown, self.ks),
            call=self._call(calls.CURVES),
            note="Click a name in the legend to hide its curve, twice to see it alone.",
        )

    def plane(self, shown: Mapping[str, Sequence[Estimate]], k: int) -> Chart:
        ends = [self.ks.index(self.ks[0]), self.ks.index(k)]
        traces, rows = [], []
        for name, made in shown.items():
            across, up = (made[end] for end in ends)
            if across.mean is None or up.mean is None:
                continue
            x, y = (charts.percent([one.mean, one.low, one.high]) for one in (across, up))
            look = self.looks[name]
            traces.append(
                charts.line(
                    x[:1],
                    y[:1],
                    name=self.cells[name].label,
                    look=look,
                    mode="markers",
                    error_x=charts.error(x[:1], x[1:2], x[2:], color=look.color),
                    error_y=charts.error(y[:1], y[1:2], y[2:], color=look.color),
                )
            )
            rows += [_row(name, self.ks[end], made[end]) for end in ends]
        return Chart(
            name="plane",
            title=f"pass@{self.ks[0]} and pass@{k}",
            figure=charts.figure(
                traces, charts.layout(x=f"pass@{self.ks[0]}, %", y=f"pass@{k}, %")
            ),
            data=pl.DataFrame(rows, schema=ESTIMATES, orient="row"),
            call=self._call(calls.PLANE, low=self.ks[0], high=k),
            note="Up and to the right is better; training usually moves right and down.",
        )

    def differences(self, found: Sequence[Difference], k: int, against: str) -> Chart:
        names = [charts.label(one.cell.label) for one in found]
        ids = {cell: name for name, cell in self.cells.items()}
        means = charts.percent([one.difference.mean for one in found])
        low = charts.percent([one.difference.low for one in found])
        high = charts.percent([one.difference.high for one in found])
        trace = {
            "type": "scatter",
            "mode": "markers",
            "x": means,
            "y": names,
            "marker": {"color": [self.looks[ids[one.cell]].color for one in found], "size": 9},
            "error_x": charts.error(means, low, high),
            "showlegend": False,
        }
        reference = self.cells[against].label
        rows = [
            (
                ids[one.cell],
                k,
                one.difference.mean,
                one.difference.low,
                one.difference.high,
                one.difference.p_value,
                one.p_holm,
                one.p_draws,
            )
            for one in found
        ]
        return Chart(
            name="differences",
            title=f"pass@{k} minus that of {reference}",
            figure=charts.figure(
                [trace],
                charts.layout(
                    x="percentage points",
                    y="",
                    xaxis={"zeroline": True, "zerolinecolor": "#888", "zerolinewidth": 2},
                    yaxis={"autorange": "reversed", "automargin": True, "type": "category"},
                ),
            ),
            data=pl.DataFrame(rows, schema=DIFFERENCES, orient="row"),
            call=self._call(calls.DIFFERENCES, k=k, reference=reference),
        )

    def compute(self, shown: Mapping[str, Sequence[Estimate]], k: int, cost: str) -> Chart:
        """A point a cell and checkpoint; checkpoints of a cell are joined."""
        found = curves.by_checkpoint(self.results, self.benchmark, k, cost)
        rows = [
            (name, at.step, cost, at.cost, k, at.made.mean, at.made.low, at.made.high)
            for name in shown
            for at in found.get(name, ())
        ]
        data = pl.DataFrame(rows, schema=COMPUTE, orient="row")
        traces = []
        for (name,), own in data.group_by("cell", maintain_order=True):
            y, low, high = (
                charts.percent(own[column].to_list())
                for column in ("pass_at_k", "ci_low", "ci_high")
            )
            look = self.looks[str(name)]
            traces.append(
                charts.line(
                    own["value"].to_list(),
                    y,
                    name=self.cells[str(name)].label,
                    look=look,
                    error_y=charts.error(y, low, high, color=look.color),
                )
            )
        field, words = COSTS[cost]
        shapes, note = [], "Cells above one another cost the same."
        base = shown["base"][self.ks.index(k)].mean if "base" in shown else None
        if base is not None:
            shapes.append(_level(100 * base))
            note += " Dashed: the base models."
        return Chart(
            name="compute",
            title=f"pass@{k} for what training cost",
            figure=charts.figure(
                traces,
                charts.layout(
                    x=words, y=f"pass@{k}, %", xaxis={"rangemode": "tozero"}, shapes=shapes
                ),
            ),
            data=data,
            call=self._call(calls.COMPUTE, k=k, cost=field),
            note=note,
        )


def _level(y: float) -> dict[str, Any]:
    """A dashed line across the chart."""
    style = {"color": "#666666", "dash": "dash", "width": 1.2}
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return {"type": "line", "line": style} | ends


ESTIMATES = {
    "cell": pl.String, "k": pl.Int64, "pass_at_k": pl.Float64,
    "ci_low": pl.Float64, "ci_high": pl.Float64, "n_seeds": pl.Int64, "n_problems": pl.Int64,
}  # fmt: skip
DIFFERENCES = {"cell": pl.String, "k": pl.Int64} | dict.fromkeys(
    ("difference", "ci_low", "ci_high", "p", "p_holm", "p_draws"), pl.Float64
)
COMPUTE = {
    "cell": pl.String, "step": pl.Int64, "cost": pl.String, "value": pl.Float64, "k": pl.Int64,
    "pass_at_k": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64,
}  # fmt: skip


def _row(name: str, k: int, one: Estimate) -> tuple[Any, ...]:
    return name, k, one.mean, one.low, one.high, one.n_seeds, one.n_problems


def _frame(shown: Mapping[str, Sequence[Estimate]], ks: Sequence[int]) -> pl.DataFrame:
    rows = [_row(n, k, one) for n, made in shown.items() for k, one in zip(ks, made, strict=True)]
    return pl.DataFrame(rows, schema=ESTIMATES, orient="row")
