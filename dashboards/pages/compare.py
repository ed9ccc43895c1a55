"""Compare: pass@k curves, the pass@1 and pass@k plane, differences, and equal compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dashboards import calls, charts
from dashboards.page import (
    Address,
    Chart,
    Control,
    Grid,
    Links,
    Page,
    Params,
    Row,
    Shade,
    control,
    parameters,
)
from dashboards.queries import curves
from dashboards.queries.curves import Difference
from dashboards.queries.store import cells_of, ks_of
from fgrpo_bench.intervals import LEVEL, Estimate
from fgrpo_bench.report.looks import Look
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.report.tables import p_value, with_interval
from fgrpo_bench.report.verdict import points as signed
from fgrpo_bench.results import SweepResults

COSTS = {
    "rollouts": ("rollouts", "rollouts of training"),
    "tokens": ("tokens", "tokens sampled in training"),
    "cpu_seconds": ("train_cpu_seconds", "CPU seconds of training"),
    "gpu_seconds": ("train_gpu_seconds", "GPU seconds of training"),
}
"""What a run costs: the field of report.summary.Compute, and words."""


def build(results: SweepResults, params: Params, links: Links) -> Page:
    """The page; parameters: benchmark, k, against, cost, and any number of cell."""
    cells, ks = cells_of(results), ks_of(results)
    defaults = {
        "benchmark": results.benchmarks[0],
        "k": str(ks[-1]),
        "against": next(iter(cells)),
        "cost": "rollouts",
    }
    benchmark = params.one("benchmark", results.benchmarks, defaults["benchmark"])
    k = int(params.one("k", map(str, ks), defaults["k"]))
    against = params.one("against", cells, defaults["against"])
    cost = params.one("cost", COSTS, defaults["cost"])
    picked = params.many("cell", cells)
    chosen = {name: cells[name] for name in picked or cells}
    address = Address(
        run=results.paths,
        view="compare",
        parameters=parameters(
            defaults, benchmark=benchmark, k=k, against=against, cost=cost, cell=picked
        ),
    )

    def choose(name: str, text: str, values: Mapping[str, str], now: str) -> Control:
        return control(name, text, values, chosen=now, links=links, page=address, defaults=defaults)

    labels = {name: cell.label for name, cell in cells.items()}
    controls = [
        choose("k", "k", {str(k): str(k) for k in ks}, str(k)),
        choose("against", "Differences against", labels, against),
        choose("cost", "Compute in", {name: name.replace("_", " ") for name in COSTS}, cost),
    ]
    if len(results.benchmarks) > 1:
        named = {name: name for name in results.benchmarks}
        controls.insert(0, choose("benchmark", "Benchmark", named, benchmark))
    made = curves.estimates(results, benchmark, ks)
    shown = {name: one for name, one in made.items() if name in chosen}
    found = curves.differences(results, benchmark, k, against, tuple(chosen))
    drawing = _Drawing(results=results, benchmark=benchmark, ks=ks, cells=cells)
    return Page(
        address=address,
        title=f"{benchmark}: comparing cells",
        lead="Means over problems and seeds with 95% intervals, the same numbers as in the report.",
        controls=tuple(controls),
        charts=(
            drawing.curves(shown),
            drawing.plane(shown, k),
            drawing.differences(found, k, against),
            drawing.compute(shown, k, cost),
        ),
        context={
            "cells": [(name, cell.label, name in chosen) for name, cell in cells.items()],
            "kept": [pair for pair in address.parameters if pair[0] != "cell"],
            "table": _table(shown, cells, ks, k),
            "differences": _differences(found, k, cells[against]),
            "missing": [cells[name].label for name in chosen if name not in made],
        },
    )


class _Drawing:
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
            traces.append(
                charts.line(
                    x[:1],
                    y[:1],
                    name=self.cells[name].label,
                    look=self.looks[name],
                    mode="markers",
                    error_x=charts.error(x[:1], x[1:2], x[2:]),
                    error_y=charts.error(y[:1], y[1:2], y[2:]),
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
        spent = curves.compute(self.results)
        traces, rows = [], []
        for name, made in shown.items():
            one = made[self.ks.index(k)]
            if name not in spent or one.mean is None:
                continue
            y = charts.percent([one.mean, one.low, one.high])
            traces.append(
                charts.line(
                    [spent[name][cost]],
                    y[:1],
                    name=self.cells[name].label,
                    look=self.looks[name],
                    mode="markers",
                    error_y=charts.error(y[:1], y[1:2], y[2:]),
                )
            )
            rows.append((name, cost, spent[name][cost], k, one.mean, one.low, one.high))
        field, words = COSTS[cost]
        base = shown.get("base")
        shapes = []
        if base and base[self.ks.index(k)].mean is not None:
            level = charts.percent([base[self.ks.index(k)].mean])[0]
            shapes.append(
                {
                    "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level,
                    "line": {"color": "#666666", "dash": "dash", "width": 1.2},
                }
            )  # fmt: skip
        return Chart(
            name="compute",
            title=f"pass@{k} for what training cost",
            figure=charts.figure(
                traces,
                charts.layout(
                    x=words, y=f"pass@{k}, %", xaxis={"rangemode": "tozero"}, shapes=shapes
                ),
            ),
            data=pl.DataFrame(rows, schema=COMPUTE, orient="row"),
            call=self._call(calls.COMPUTE, k=k, cost=field),
            note="Cells above one another cost the same. Dashed: the base models."
            if shapes
            else "Cells above one another cost the same.",
        )


ESTIMATES = {
    "cell": pl.String, "k": pl.Int64, "pass_at_k": pl.Float64,
    "ci_low": pl.Float64, "ci_high": pl.Float64, "n_seeds": pl.Int64, "n_problems": pl.Int64,
}  # fmt: skip
DIFFERENCES = {"cell": pl.String, "k": pl.Int64} | dict.fromkeys(
    ("difference", "ci_low", "ci_high", "p", "p_holm", "p_draws"), pl.Float64
)
COMPUTE = {
    "cell": pl.String, "cost": pl.String, "value": pl.Float64, "k": pl.Int64,
    "pass_at_k": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64,
}  # fmt: skip


def _row(name: str, k: int, one: Estimate) -> tuple[Any, ...]:
    return name, k, one.mean, one.low, one.high, one.n_seeds, one.n_problems


def _frame(shown: Mapping[str, Sequence[Estimate]], ks: Sequence[int]) -> pl.DataFrame:
    rows = [_row(n, k, one) for n, made in shown.items() for k, one in zip(ks, made, strict=True)]
    return pl.DataFrame(rows, schema=ESTIMATES, orient="row")


def _table(
    shown: Mapping[str, Sequence[Estimate]],
    cells: Mapping[str, Cell],
    ks: Sequence[int],
    k: int,
) -> Grid:
    wanted = list(dict.fromkeys((ks[0], k)))
    return Grid(
        title="pass@k in percent with 95% intervals",
        header=("cell", *(f"pass@{one}" for one in wanted), "seeds", "problems"),
        rows=tuple(
            (
                cells[name].label,
                *(with_interval(made[list(ks).index(one)]) for one in wanted),
                str(made[0].n_seeds),
                str(made[0].n_problems),
            )
            for name, made in shown.items()
        ),
    )


def _differences(found: Sequence[Difference], k: int, reference: Cell) -> Grid:
    rows: list[Row] = []
    for one in found:
        d = one.difference
        shown = d.low is not None and d.high is not None and (d.low > 0 or d.high < 0)
        corrected = shown and one.p_holm is not None and one.p_holm < 1 - LEVEL
        words = "shown, also after Holm" if corrected else "shown" if shown else "not shown"
        rows.append(
            (
                one.cell.label,
                f"{signed(d.mean)} [{signed(d.low)}, {signed(d.high)}]",
                ", ".join(signed(value) for value in d.by_seed),
                *map(p_value, (d.p_value, one.p_holm, one.p_draws)),
                Shade(text=words, kind="shown" if shown else "unshown"),
            )
        )
    return Grid(
        title=f"pass@{k} minus that of {reference.label}, in percentage points",
        header=("cell", "difference [95%]", "by seed", "p", "p Holm", "p draws", "verdict"),
        rows=tuple(rows),
        notes=(
            "p is two-sided, of a bootstrap over problems and seeds; p Holm is corrected over the "
            "rows of this table; p draws takes models and problems as given.",
        ),
    )
