"""What Forgetting draws: the heat map and the bars of fates, each with a table of the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from dashboards import calls, charts
from dashboards.page import Chart, Grid, Links, Row, Shade
from dashboards.pages.draws_links import draws_clicks, draws_link
from dashboards.pages.sweep import level
from dashboards.queries.forgetting import FATES, Fates, by_cell
from dashboards.queries.store import cells_of, ks_of
from dashboards.text import shortened
from fgrpo_bench.results import PointResult, SweepResults


class Drawing:
    """Charts and tables of some points on one benchmark."""

    def __init__(
        self,
        *,
        results: SweepResults,
        links: Links,
        benchmark: str,
        found: Fates,
        rows: Sequence[int],
    ) -> None:
        """rows: of the points, by their place in found.counts.points."""
        self.results, self.links, self.benchmark = results, links, benchmark
        self.found, self.rows = found, list(rows)
        self.points = [found.counts.points[i] for i in self.rows]
        self.rates = found.counts.rates[self.rows]

    def heat(self, columns: Sequence[int]) -> Chart:
        """All problems by all points; a click opens the draws."""
        problems = [self.found.counts.problems[i] for i in columns]
        names = [point.point_id for point in self.points]
        z = np.round(100 * self.rates[:, columns].T, 2)
        values = [[None if np.isnan(v) else v for v in row] for row in z.tolist()]
        trace = {
            "type": "heatmap",
            "z": values,
            "x": [charts.label(name) for name in names],
            "y": list(range(1, len(problems) + 1)),
            "colorscale": charts.SCALE,
            "zmin": 0,
            "zmax": 100,
            "colorbar": {"title": {"text": "%"}, "thickness": 12},
            "hovertemplate": "%{z}%<br>%{x}<br>problem %{y}<extra></extra>",
        }
        data = pl.DataFrame(
            {
                "problem_id": np.repeat(problems, len(names)).tolist(),
                "point_id": names * len(problems),
                "n_correct": self.found.counts.n_correct[self.rows][:, columns].T.ravel(),
                "n_scored": self.found.counts.n_scored[self.rows][:, columns].T.ravel(),
                "success_rate": pl.Series(self.rates[:, columns].T.ravel()).fill_nan(None),
            }
        )
        return Chart(
            name="heat",
            title="Success rate by problem and point",
            figure=charts.figure(
                [trace],
                charts.layout(
                    x="",
                    y="problem, in the order chosen",
                    yaxis={"autorange": "reversed"},
                    xaxis={"tickangle": -90, "automargin": True, "type": "category"},
                ),
            ),
            data=data,
            call=calls.call(
                calls.FORGETTING,
                self.results.paths,
                benchmark=self.benchmark,
                low=ks_of(self.results)[0],
            ),
            note="Click a cell to read its draws; the table below has the same links.",
            clicks=draws_clicks(
                self.results,
                self.links,
                benchmark=self.benchmark,
                problems=problems,
                points=self.points,
            ),
            tall=True,
        )

    def _link(self, problem: str, point: PointResult) -> str | None:
        return draws_link(
            self.results, self.links, benchmark=self.benchmark, problem=problem, point=point
        )

    def table(self, columns: Sequence[int], before: int) -> Grid:
        """Some problems with a link in every cell."""
        where = {row: at for at, row in enumerate(self.found.trained)}
        rows: list[Row] = []
        for number, column in enumerate(columns, before + 1):
            problem = self.found.counts.problems[column]
            cells: list[str | Shade] = [str(number), shortened(problem, 40)]
            cells.append(f"{100 * self.found.loss[column]:.0f}%")
            for at, row in enumerate(self.rows):
                rate, point = self.rates[at, column], self.points[at]
                lost = row in where and self.found.shares["lost"][where[row], column] >= 0.5
                gained = row in where and self.found.shares["gained"][where[row], column] >= 0.5
                cells.append(
                    Shade(
                        text=""
                        if np.isnan(rate)
                        else f"{100 * rate:.0f}"
                        if rate >= 0.01 or rate == 0
                        else f"{100 * rate:.1f}",
                        level=None if np.isnan(rate) else level(float(rate) ** 0.5),
                        href=self._link(problem, point),
                        title=f"{problem}, {point.point_id}: {100 * rate:.2f}%"
                        + (", lost" if lost else ", gained" if gained else ""),
                        kind="lost" if lost else "gained" if gained else "",
                    )
                )
            rows.append(tuple(cells))
        return Grid(
            title="Success rates in percent; a frame marks what was lost (red) or gained (green)",
            header=("", "problem", "lost", *(point.point_id for point in self.points)),
            rows=tuple(rows),
            n_words=2,
            upright=True,
            notes=(
                "lost: mean over the trained points of the probability that the problem was within "
                "the base model's reach and no longer is (Jeffreys' prior).",
            ),
        )

    def fates(self, k: int) -> Chart:
        """Expected numbers of problems lost, gained and retained."""
        cells, made = cells_of(self.results), by_cell(self.found)
        colors = {"retained": "#9ecae1", "gained": "#31a354", "lost": "#de2d26"}
        names = [charts.label(cells[name].label) for name in made]
        traces = [
            {
                "type": "bar",
                "orientation": "h",
                "name": fate,
                "y": names,
                "x": [round(one[fate], 2) for one in made.values()],
                "marker": {"color": color},
            }
            for fate, color in colors.items()
        ]
        data = pl.DataFrame(
            [(name, k, *(one[fate] for fate in FATES)) for name, one in made.items()],
            schema={"cell": pl.String, "k": pl.Int64} | dict.fromkeys(FATES, pl.Float64),
            orient="row",
        )
        return Chart(
            name="fates",
            title=f"Problems retained, gained and lost at k = {k}",
            figure=charts.figure(
                traces,
                charts.layout(
                    x="problems",
                    y="",
                    barmode="stack",
                    yaxis={"autorange": "reversed", "automargin": True, "type": "category"},
                ),
            ),
            data=data,
            call=calls.call(calls.FATES, self.results.paths, benchmark=self.benchmark),
            note="Against the base model of the same seed, mean over seeds."
            + ("" if k == ks_of(self.results)[-1] else " The library call is at the largest k."),
        )

    def counts(self) -> Grid:
        """The same as a table, with the points chosen."""
        rows: list[Row] = []
        where = {row: at for at, row in enumerate(self.found.trained)}
        for at, row in enumerate(self.rows):
            if row in where:
                sums = {name: self.found.shares[name][where[row]].sum() for name in FATES}
                rows.append((self.points[at].point_id, *(f"{sums[name]:.1f}" for name in FATES)))
        return Grid(
            title="Expected numbers of problems, by point",
            header=("point", *FATES),
            rows=tuple(rows),
        )
