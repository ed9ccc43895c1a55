"""The charts of Compare: curves, the plane, differences, all k at once, and what training cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart
from dashboards.pages.compare_forest import ZERO, forest, percent
from dashboards.pages.compare_rows import Pair
from fgrpo_bench.analysis import GRID, Analysis
from fgrpo_bench.analysis.rows import Comparison
from fgrpo_bench.documents.numbers import difference, with_interval
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

    def __init__(
        self, analysis: Analysis, column: str, picked: tuple[str, ...], pair: Pair | None
    ) -> None:
        """picked: the cells that are shown; empty is all. pair: the two that have intervals; None
        is none."""
        self.analysis, self.column, self.pair = analysis, column, pair
        self.cells, self.looks = analysis.by_cell, charts.look_of(analysis.by_cell)
        self.front = () if pair is None else (pair.new, pair.old)
        self._picked: dict[str, Any] = {"cell": picked} if picked else {}

    def _by_cell(self, data: pl.DataFrame) -> Iterator[tuple[str, Look, pl.DataFrame]]:
        """By cell, the two in front last, so that they are drawn over the others."""
        own = {str(name): rows for (name,), rows in data.group_by("cell", maintain_order=True)}
        for name in sorted(own, key=lambda name: name in self.front):
            yield name, self.looks[name], own[name]

    def _style(self, name: str, look: Look) -> dict[str, Any]:
        """A cell's line: the two in front stronger than the others."""
        width = 3 if name in self.front else 1.6
        dash = charts.DASHES.get(look.linestyle, "solid")
        return {
            "line": {"color": look.color, "dash": dash, "width": width},
            "marker": charts.marker(look) | {"size": 8 if name in self.front else 5},
        }

    def curves(self) -> Chart:
        """pass@k at every k."""
        data, call = calls.selected(
            self.analysis, "estimates", ESTIMATES, known=["mean"],
            column=self.column, is_chosen=True, **self._picked,
        )  # fmt: skip
        traces: list[dict[str, Any]] = []
        for name, look, own in self._by_cell(data):
            label, ks, (mean, low, high) = self.cells[name].label, own["k"].to_list(), percent(own)
            if name in self.front and None not in low:
                traces.append(charts.band(ks, low, high, look=look, group=label))
            words = [f"{charts.label(label)}<br>pass@{k}: {value}" for k, value in _words(own)]
            style = self._style(name, look) | charts.hover(words)
            traces.append(charts.line(ks, mean, name=label, look=look, **style))
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
        data, call = calls.selected(
            self.analysis, "estimates", ESTIMATES, known=["mean"],
            column=self.column, is_chosen=True, k=(first, k), **self._picked,
        )  # fmt: skip
        rows = self.analysis.front.filter(column=self.column, is_on_front=False)
        dominated = set(rows["cell"])
        traces = []
        for name, look, own in self._by_cell(data):
            rows_at = [own.filter(k=end) for end in (first, k)]
            if not all(len(each) for each in rows_at):
                continue
            (x, *across), (y, *up) = map(percent, rows_at)
            label, bars = self.cells[name].label, {"visible": name in self.front}
            words = [f"pass@{k}: {value}" for each in rows_at for k, value in _words(each)]
            traces.append(
                charts.line(
                    x, y, name=label, look=look, mode="markers",
                    error_x=charts.error(x, *across, color=look.color) | bars,
                    error_y=charts.error(y, *up, color=look.color) | bars,
                    marker=charts.marker(look, hollow=name in dominated) | {"size": 9},
                    **charts.hover(["<br>".join([charts.label(label), *words])]),
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
            height=250,
        )

    def differences(self, rows: Sequence[Comparison], against: str) -> tuple[Chart, ...]:
        """A forest plot; none without rows. against: as in forest."""
        return (forest(self.analysis, self.column, rows, against),) if rows else ()

    def band(self) -> tuple[Chart, ...]:
        """The difference of the pair in front over all k at once; none for a pair that no question
        asks for in this direction."""
        if self.pair is None:
            return ()
        new, old = self.pair.new, self.pair.old
        data, call = calls.selected(
            self.analysis, "bands", ("k", "difference", "low", "high"),
            column=self.column, new=new, old=old,
        )  # fmt: skip
        if data.is_empty():
            return ()
        ks, look = data["k"].to_list(), self.looks[new]
        mean, low, high = percent(data, "difference")
        label = f"{self.cells[new].label} against {self.cells[old].label}"
        loss = self.analysis.first_loss_of(self.column, new, old)
        marks = {} if loss is None else {"may lose": loss.low, "loses": loss.high}
        crossed = {words: k for words, k in marks.items() if k is not None}
        words = [
            f"k = {k}: {difference(*values)}"
            for k, *values in data.select("k", "difference", "low", "high").iter_rows()
        ]
        figure = charts.figure(
            [
                charts.band(ks, low, high, look=look, group=new),
                charts.line(
                    ks, mean, name=label, look=look, mode="lines", showlegend=False,
                    **charts.hover(words),
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

    def _cost(self, k: int, cost: str) -> tuple[pl.DataFrame, str]:
        return calls.selected(
            self.analysis, "estimates", (*ESTIMATES, cost), beside="cost", known=["mean", cost],
            column=self.column, k=k, **self._picked,
        )  # fmt: skip

    def same_cost(self, k: int) -> str:
        """The rollouts that all cells cost alike, in words; empty where they differ, or nothing is
        known."""
        rows, _ = self._cost(k, "rollouts")
        spent = rows["rollouts"].unique()
        return f"{spent[0]:,.0f}" if len(spent) == 1 else ""

    def compute(self, k: int, cost: str) -> tuple[Chart, ...]:
        """A point a cell and checkpoint; checkpoints of a cell are joined. None where all of them
        would stand above one another."""
        if self.same_cost(k):
            return ()
        data, call = self._cost(k, cost)
        traces = []
        for name, look, own in self._by_cell(data):
            mean, low, high = percent(own)
            ends = charts.error(mean, low, high, color=look.color)
            label = self.cells[name].label
            words = [f"{charts.label(label)}<br>pass@{k}: {value}" for k, value in _words(own)]
            traces.append(
                charts.line(
                    own[cost].to_list(), mean, name=label, look=look,
                    error_y=ends | {"visible": name in self.front}, **charts.hover(words),
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


def _words(rows: pl.DataFrame) -> list[tuple[int, str]]:
    """k and its estimate with the interval, as the table has it."""
    columns = rows.select("k", "mean", "low", "high")
    return [(k, f"{with_interval(*values)}%") for k, *values in columns.iter_rows()]


def _ks(ks: Sequence[int]) -> dict[str, Any]:
    return {"type": "log", "tickvals": list(ks), "ticktext": [str(k) for k in ks]}
