"""The charts of Compare: differences, the plane of pass@1 and pass@k, curves, paths of training,
the difference over all k, and what training cost.

In: the analysis, and which cells are shown. Out: charts. Next: compare.py, which puts them on a
page; fgrpo_bench.analysis.comparisons and fgrpo_bench.analysis.paths, which compute what is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from dashboards import charts
from dashboards.page import Chart
from dashboards.pages.pairs import QUESTION, ComparedCells, path_rows, strongest
from fgrpo_bench.analysis import GRID, Analysis
from fgrpo_bench.analysis.rows import Comparison, EqualPassAt1, to_frame
from fgrpo_bench.documents.table import difference, percent, points, with_interval
from fgrpo_bench.report.cell_styles import CellStyle

COSTS = {
    "rollouts": "rollouts of training",
    "tokens": "tokens sampled in training",
    "train_cpu_seconds": "CPU seconds of training",
    "train_gpu_seconds": "GPU seconds of training",
}
"""What a run costs: columns of the frame `cost`, in words."""
ESTIMATES = ("cell", "step", "k", "mean", "low", "high", "n_problems")
ON_PATHS = ("new", "old", "k", "pass_at_1", "difference", "low", "high", "p", "p_holm", "verdict")
"""Columns of what is compared at equal pass@1."""
# A difference is read against 0, so 0 is on the axis wherever the data lie.
ZERO = {"rangemode": "tozero", "zeroline": True, "zerolinecolor": "#888888", "zerolinewidth": 2}
SEED = "#6f7479"
"""Colour of the ring of a seed."""
ROW, LOW_ROW, FEW_ROWS = 44, 36, 4
"""Pixels of a comparison, of one among more than FEW_ROWS."""
BAND_HEIGHT = 250
"""Pixels of the chart that stands below the differences."""


class CompareCharts:
    """The charts of one benchmark or average."""

    def __init__(
        self, analysis: Analysis, column: str, picked: tuple[str, ...], pair: ComparedCells | None
    ) -> None:
        """picked: the cells that are shown; empty is all. pair: the two that have intervals; None
        is none."""
        self.analysis, self.column, self.pair = analysis, column, pair
        self.cells, self.styles = analysis.by_cell, charts.styles_by_cell(analysis.by_cell)
        self.front = () if pair is None else (pair.new, pair.old)
        self._picked: dict[str, Any] = {"cell": picked} if picked else {}

    def _by_cell(self, data: pl.DataFrame) -> Iterator[tuple[str, CellStyle, pl.DataFrame]]:
        """By cell, the two in front last, so that they are drawn over the others."""
        rows_by_cell = {
            str(name): rows for (name,), rows in data.group_by("cell", maintain_order=True)
        }
        for name in sorted(rows_by_cell, key=lambda name: name in self.front):
            yield name, self.styles[name], rows_by_cell[name]

    def _line_style(self, name: str, style: CellStyle) -> dict[str, Any]:
        """A cell's line: the two in front stronger than the others."""
        width = 3 if name in self.front else 1.6
        dash = charts.DASHES.get(style.linestyle, "solid")
        return {
            "line": {"color": style.color, "dash": dash, "width": width},
            "marker": charts.marker(style) | {"size": 8 if name in self.front else 5},
        }

    def curves(self) -> Chart:
        """pass@k at every k."""
        data, call = charts.selected_rows(
            self.analysis, "estimates", ESTIMATES, not_null=["mean"],
            column=self.column, is_chosen=True, **self._picked,
        )  # fmt: skip
        traces: list[dict[str, Any]] = []
        for name, style, rows in self._by_cell(data):
            label, ks, (mean, low, high) = (
                self.cells[name].label,
                rows["k"].to_list(),
                _percent_with_ends(rows),
            )
            if name in self.front and None not in low:
                traces.append(charts.band(ks, low, high, style=style, group=label))
            title = charts.label(label)
            hover_texts = [f"{title}<br>pass@{k}: {value}" for k, value in _estimate_texts(rows)]
            line = self._line_style(name, style) | charts.hover(hover_texts)
            traces.append(charts.line(ks, mean, name=label, style=style, **line))
        return Chart(
            name="curves",
            title="pass@k over k",
            figure=charts.figure(traces, x="k", y="pass@k, %", xaxis=_ks(self.analysis.ks)),
            data=data,
            call=call,
            note=self._intervals("Bands"),
            direct="end",
            height=520,
        )

    def _intervals(self, marks: str) -> str:
        if self.pair is None:
            return ""
        new, old = (self.cells[name].label for name in self.front)
        return f"{marks}: 95% intervals of {new} and {old}; of the others under the pointer."

    def plane(self, k: int) -> Chart:
        """pass@k over pass@1."""
        first = self.analysis.ks[0]
        data, call = charts.selected_rows(
            self.analysis, "estimates", ESTIMATES, not_null=["mean"],
            column=self.column, is_chosen=True, k=(first, k), **self._picked,
        )  # fmt: skip
        dominated = {
            row.cell
            for row in self.analysis.rows("front")
            if row.column == self.column and row.is_on_front is False
        }
        traces = []
        for name, style, cell_rows in self._by_cell(data):
            rows_at = [cell_rows.filter(k=end) for end in (first, k)]
            if not all(len(at_k) for at_k in rows_at):
                continue
            (x, *across), (y, *up) = map(_percent_with_ends, rows_at)
            label, bars = self.cells[name].label, {"visible": name in self.front}
            hover_texts = []
            for at_k in rows_at:
                hover_texts += [f"pass@{k}: {value}" for k, value in _estimate_texts(at_k)]
            traces.append(
                charts.line(
                    x, y, name=label, style=style, mode="markers",
                    error_x=charts.error(x, *across, color=style.color) | bars,
                    error_y=charts.error(y, *up, color=style.color) | bars,
                    marker=charts.marker(style, hollow=name in dominated) | {"size": 9},
                    **charts.hover(["<br>".join([charts.label(label), *hover_texts])]),
                )
            )  # fmt: skip
        return Chart(
            name="plane",
            title=f"The plane: pass@{k} over pass@{first}",
            figure=charts.figure(traces, x=f"pass@{first}, %", y=f"pass@{k}, %"),
            data=data,
            call=call,
            note="Up and to the right is better."
            + (" Hollow: dominated, see the table." if dominated else ""),
            direct="beside",
            height=BAND_HEIGHT,
        )

    def differences(self, rows: Sequence[Comparison], against: str) -> tuple[Chart, ...]:
        """A forest plot; none without rows. against: as in forest."""
        return (_forest(self.analysis, self.column, rows, against),) if rows else ()

    def band(self) -> tuple[Chart, ...]:
        """The difference of the pair in front over all k at once; none for a pair that no question
        asks for in this direction."""
        if self.pair is None:
            return ()
        new, old = self.pair.new, self.pair.old
        data, call = charts.selected_rows(
            self.analysis, "bands", ("k", "difference", "low", "high"),
            column=self.column, new=new, old=old,
        )  # fmt: skip
        if data.is_empty():
            return ()
        ks, style = data["k"].to_list(), self.styles[new]
        mean, low, high = _percent_with_ends(data, "difference")
        label = f"{self.cells[new].label} against {self.cells[old].label}"
        loss = self.analysis.first_loss_of(self.column, new, old)
        marks = {} if loss is None else {"may lose": loss.low, "loses": loss.high}
        crossed = {hover_texts: k for hover_texts, k in marks.items() if k is not None}
        hover_texts = [
            f"k = {k}: {difference(*values)}"
            for k, *values in data.select("k", "difference", "low", "high").iter_rows()
        ]
        figure = charts.figure(
            [
                charts.band(ks, low, high, style=style, group=new),
                charts.line(
                    ks, mean, name=label, style=style, mode="lines", showlegend=False,
                    **charts.hover(hover_texts),
                ),
            ],
            x="k",
            y="percentage points",
            xaxis=_ks(self.analysis.ks),
            yaxis=ZERO,
            shapes=[charts.dashed(yref="paper", y0=0, y1=1, x0=k, x1=k) for k in crossed.values()],
            annotations=[
                charts.note(f"{loses} from k = {k}", k, line)
                for line, (loses, k) in enumerate(crossed.items())
            ],
        )  # fmt: skip
        return (
            Chart(
                name="band",
                title=f"{label}, over all k at once",
                figure=figure,
                data=data,
                call=call,
                note=(f"{label}: {loss.words}. " if loss else "")
                + "In 95% of such sweeps the truth lies within the band at all these k together "
                f"({GRID}); it is simultaneous over k, not over cells.",
            ),
        )

    def paths(self, k: int) -> tuple[Chart, ...]:
        """The plane with the checkpoints of the pair in front, and the difference at equal pass@1
        shaded; none where the pair has no curve there."""
        if self.pair is None:
            return ()
        new, old = self.pair.new, self.pair.old
        columns = ("pass_at_1", "new_pass_at_k", "difference", "low", "high")
        data, call = charts.selected_rows(
            self.analysis, "path_gaps", columns, column=self.column, new=new, old=old, k=k
        )
        if data.is_empty():
            return ()
        levels = charts.percent(data["pass_at_1"].to_list())
        above = charts.percent(data["new_pass_at_k"].to_list())
        below = charts.percent((data["new_pass_at_k"] - data["difference"]).to_list())
        label = f"{self.cells[new].label} against {self.cells[old].label}"
        traces = [charts.band(levels, below, above, style=self.styles[new], group=label)]
        for name in (old, new):
            steps, x, y = self.analysis.checkpoints_of(self.column, name, k)
            cell, hover_texts = self.cells[name].label, [f"step {step}" for step in steps]
            traces.append(
                charts.line(
                    x, y, name=cell, style=self.styles[name], mode="lines+markers+text",
                    text=_apart(steps, x, y), cliponaxis=False,
                    textposition="top center" if name == new else "bottom center",
                    **charts.hover([f"{charts.label(cell)}<br>{word}" for word in hover_texts]),
                )
            )  # fmt: skip
        row = path_rows(self.analysis, self.column, [ComparedCells(new=new, old=old)], k)[0]
        kept = difference(row.difference, row.low, row.high)
        return (
            Chart(
                name="paths",
                title=f"{label}, at equal pass@1",
                figure=charts.figure(
                    traces, x="pass@1, %", y=f"pass@{k}, %", yaxis={"range": _roomy(traces)}
                ),
                data=data,
                call=call,
                note=f"{kept} points of pass@{k} at pass@1 = {percent(row.pass_at_1)}%, the "
                f"highest that both reach: {row.verdict}. Points: checkpoints with their steps, "
                "means over seeds. Shaded: the difference over the range that all seeds reach.",
                direct="end",
                height=BAND_HEIGHT,
            ),
        )

    def _cost(self, k: int, cost: str) -> tuple[pl.DataFrame, str]:
        return charts.selected_rows(
            self.analysis, "estimates", (*ESTIMATES, cost), joined="cost", not_null=["mean", cost],
            column=self.column, k=k, **self._picked,
        )  # fmt: skip

    def same_cost(self, k: int) -> str:
        """The rollouts that all cells cost alike, in words; empty where they differ, or nothing is
        known."""
        rows, _ = self._cost(k, "rollouts")
        spent = rows["rollouts"].unique()
        return f"{spent[0]:,.0f}" if len(spent) == 1 else ""

    def costs_differ(self, k: int) -> bool:
        """Whether training cost some cells more rollouts than others."""
        return self._cost(k, "rollouts")[0]["rollouts"].n_unique() > 1

    def compute(self, k: int, cost: str) -> tuple[Chart, ...]:
        """A point a cell and checkpoint; checkpoints of a cell are joined. None where all of them
        would stand above one another."""
        if not self.costs_differ(k):
            return ()
        data, call = self._cost(k, cost)
        traces = []
        for name, style, rows in self._by_cell(data):
            mean, low, high = _percent_with_ends(rows)
            ends = charts.error(mean, low, high, color=style.color)
            label = self.cells[name].label
            title = charts.label(label)
            hover_texts = [f"{title}<br>pass@{k}: {value}" for k, value in _estimate_texts(rows)]
            traces.append(
                charts.line(
                    rows[cost].to_list(), mean, name=label, style=style,
                    error_y=ends | {"visible": name in self.front}, **charts.hover(hover_texts),
                )
            )  # fmt: skip
        base = self.analysis.estimate(self.column, "base", k).mean if "base" in self.cells else None
        level = {} if base is None else {"y0": 100 * base, "y1": 100 * base}
        return (
            Chart(
                name="compute",
                title=f"pass@{k} for what training cost",
                figure=charts.figure(
                    traces,
                    x=COSTS[cost],
                    y=f"pass@{k}, %",
                    xaxis={"rangemode": "tozero"},
                    shapes=[charts.dashed(xref="paper", x0=0, x1=1, **level)] if level else [],
                ),
                data=data,
                call=call,
                note="Cells above one another cost the same."
                + ("" if base is None else " Dashed: the base models."),
                direct="beside",
            ),
        )


def _estimate_texts(rows: pl.DataFrame) -> list[tuple[int, str]]:
    """k and its estimate with the interval, as the table has it."""
    columns = rows.select("k", "mean", "low", "high")
    return [(k, f"{with_interval(*values)}%") for k, *values in columns.iter_rows()]


def _apart(steps: Sequence[int], x: Sequence[float], y: Sequence[float]) -> list[str]:
    """Names of checkpoints on a path, without those that would stand in the one before or in the
    last, which has its name in any case."""
    wide, high = (max(values) - min(values) or 1.0 for values in (x, y))

    def is_near(first: int, second: int) -> bool:
        return abs(x[first] - x[second]) < 0.07 * wide and abs(y[first] - y[second]) < 0.12 * high

    last = len(steps) - 1
    kept: list[int] = []
    for i in range(last):
        if not is_near(i, last) and not (kept and is_near(i, kept[-1])):
            kept.append(i)
    names = {i: str(steps[i]) if steps[i] else "base" for i in (*kept, last)}
    return [names.get(i, "") for i in range(len(steps))]


def _roomy(traces: Sequence[dict[str, Any]]) -> list[float]:
    """The range of an axis with room for words above and below the points."""
    values = [value for trace in traces for value in trace["y"]]
    room = 0.1 * (max(values) - min(values))
    return [min(values) - room, max(values) + room]


def _ks(ks: Sequence[int]) -> dict[str, Any]:
    return {"type": "log", "tickvals": list(ks), "ticktext": [str(k) for k in ks]}


def _forest(analysis: Analysis, column: str, rows: Sequence[Comparison], against: str) -> Chart:
    """rows: at least one, all at last checkpoints or all at equal pass@1. against: QUESTION, or the
    cell that all others are compared with."""
    data, call = _data(analysis, column, rows, against)
    shown = strongest(rows)
    mean, low, high = (
        charts.percent([getattr(row, end) for row in shown])
        for end in ("difference", "low", "high")
    )
    styles, places = charts.styles_by_cell(analysis.by_cell), list(range(len(shown)))
    olds, ks = list(dict.fromkeys(row.old for row in shown)), {row.k for row in shown}
    names = [_name(analysis, row, with_k=len(ks) > 1) for row in shown]
    against_old = [_against(analysis, row) if len(olds) > 1 else "" for row in shown]
    values = [difference(row.difference, row.low, row.high) for row in shown]
    seeds = [(place, value) for place, row in enumerate(shown) for value in row.by_seed]
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
        "marker": {"color": [styles[row.new].color for row in shown], "size": 10},
        "error_x": charts.error(mean, low, high),
        "showlegend": False,
        **charts.hover(
            [
                f"{name} {old}<br>{value}, {row.verdict}"
                for name, old, value, row in zip(names, against_old, values, shown, strict=True)
            ]
        ),
    }
    ticks = [
        f"<b>{name}</b><br>{old}{points(row.difference)} {row.verdict}{_level(row)}"
        for name, old, row in zip(names, against_old, shown, strict=True)
    ]
    title = "Difference in " + (f"pass@{shown[0].k}" if len(ks) == 1 else "pass@k")
    old = f" to {analysis.by_cell[olds[0]].label}" if len(olds) == 1 else ", new minus old"
    where = ", at equal pass@1" if isinstance(shown[0], EqualPassAt1) else ""
    return Chart(
        name="differences",
        title=title + old + where,
        figure=charts.figure(
            [rings, means],
            x="percentage points",
            y="",
            xaxis=ZERO,
            yaxis={
                "tickvals": places,
                "ticktext": ticks,
                "showgrid": False,
                "range": [len(shown) - 0.4, -0.6],
            },
        ),
        data=data,
        call=call,
        note="Bars: 95% intervals. Rings: seeds."
        + (
            ""
            if len(shown) == len(rows)
            else f" The {len(shown)} of {len(rows)} that say most; all in the table."
        ),
        height=62 + (ROW if len(shown) <= FEW_ROWS else LOW_ROW) * len(shown),
    )


def _percent_with_ends(rows: pl.DataFrame, middle: str = "mean") -> list[list[float | None]]:
    """A column of fractions with its interval, in percent."""
    return [charts.percent(rows[name].to_list()) for name in (middle, "low", "high")]


def _data(
    analysis: Analysis, column: str, rows: Sequence[Comparison], against: str
) -> tuple[pl.DataFrame, str]:
    if isinstance(rows[0], EqualPassAt1):
        new, old = (tuple(dict.fromkeys(getattr(r, name) for r in rows)) for name in ("new", "old"))
        return charts.selected_rows(
            analysis, "equal_pass_at_1", ON_PATHS, column=column, k=rows[0].k, new=new, old=old
        )
    if against == QUESTION:
        pairs = list(dict.fromkeys((row.new, row.old) for row in rows))
        ks = sorted({row.k for row in rows})
        call = charts.library_call(
            charts.PAIRS_CALL, analysis.results.address, column=column, ks=ks, pairs=pairs
        )
    else:
        names = {"column": column, "k": rows[0].k, "old": against}
        call = charts.library_call(charts.DIFFERENCES_CALL, analysis.results.address, **names)
    return to_frame(Comparison, rows).drop("seeds", "by_seed"), call


def _name(analysis: Analysis, row: Comparison, *, with_k: bool) -> str:
    """Escaped."""
    return charts.label(analysis.by_cell[row.new].label) + (f", pass@{row.k}" * with_k)


def _against(analysis: Analysis, row: Comparison) -> str:
    """Escaped, for what follows."""
    return charts.label(f"against {analysis.by_cell[row.old].label}") + " "


def _level(row: Comparison) -> str:
    """The pass@1 at which a row compares; empty at last checkpoints."""
    return f" at {percent(row.pass_at_1)}%" if isinstance(row, EqualPassAt1) else ""
