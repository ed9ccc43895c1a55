"""What Forgetting draws: the heat map and the bars of fates, each with a table of the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dashboards import calls, charts
from dashboards.page import Chart, Grid, Links, Row, Shade
from dashboards.pages.draws_links import draws_clicks, draws_link
from dashboards.pages.sweep import level
from dashboards.queries.analysis import Fates
from dashboards.text import shortened
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.coverage import FATES, by_point
from fgrpo_bench.analysis.read import key_of

LIKELY = 0.5
"""Probability from which a table frames a problem as lost or gained."""
COUNTS = ["cell", "seed", "problem_id", "n_scored", "n_correct", "success_rate"]
COLORS = {"retained": "#9ecae1", "gained": "#31a354", "lost": "#de2d26"}


class Drawing:
    """Charts and tables of some points on one benchmark."""

    def __init__(
        self,
        analysis: Analysis,
        links: Links,
        *,
        benchmark: str,
        k: int,
        fates: Fates,
        seed: int | None,
    ) -> None:
        """seed: None is all."""
        self.analysis, self.results, self.links = analysis, analysis.results, links
        self.benchmark, self.k, self.fates, self.seed = benchmark, k, fates, seed
        self.rows = [i for i, p in enumerate(fates.points) if seed in (None, p.seed)]
        self.points = [fates.points[i] for i in self.rows]
        self.data = fates.rows if seed is None else fates.rows.filter(seed=seed)

    def _matrix(self, column: str) -> np.ndarray:
        return self.fates.matrix(column)[self.rows]

    def heat(self, columns: Sequence[int]) -> Chart:
        """All problems by all points; a click opens the draws."""
        problems = [self.fates.problems[i] for i in columns]
        z = np.round(100 * self._matrix("success_rate")[:, columns].T, 2)
        trace = {
            "type": "heatmap",
            "z": [[None if np.isnan(v) else v for v in row] for row in z.tolist()],
            "x": [charts.label(point.point_id) for point in self.points],
            "y": list(range(1, len(problems) + 1)),
            "colorscale": charts.SCALE,
            "zmin": 0,
            "zmax": 100,
            "colorbar": {"title": {"text": "%"}, "thickness": 12},
            "hovertemplate": "%{z}%<br>%{x}<br>problem %{y}<extra></extra>",
        }
        return Chart(
            name="heat",
            title="Success rate by problem and point",
            figure=charts.figure(
                [trace],
                x="",
                y="problem, in the order chosen",
                yaxis={"autorange": "reversed"},
                xaxis={"tickangle": -90, "automargin": True, "type": "category"},
            ),
            data=self.data.select(COUNTS),
            call=calls.call(
                calls.FATES,
                self.results.paths,
                benchmark=self.benchmark,
                k=self.k,
                chosen="" if self.seed is None else f".filter(seed={self.seed})",
                columns=COUNTS,
            ),
            note="Click a cell to read its draws; the table below has the same links.",
            clicks=draws_clicks(
                self.results, self.links, benchmark=self.benchmark, problems=problems,
                points=self.points,
            ),
            height=560,
        )  # fmt: skip

    def table(self, columns: Sequence[int], before: int) -> Grid:
        """Some problems with a link in every cell."""
        rates = self._matrix("success_rate")
        likely = {fate: self._matrix(fate) >= LIKELY for fate in ("lost", "gained")}
        rows: list[Row] = []
        for number, column in enumerate(columns, before + 1):
            problem, lost = self.fates.problems[column], self.fates.means["lost"][column]
            cells: list[str | Shade] = [str(number), shortened(problem, 40)]
            cells.append("-" if lost is None else f"{100 * lost:.0f}%")
            for at, point in enumerate(self.points):
                rate = float(rates[at, column])
                fate = next((name for name, own in likely.items() if own[at, column]), "")
                cells.append(
                    Shade(
                        text=_rate(rate),
                        level=None if np.isnan(rate) else level(rate**0.5),
                        href=draws_link(
                            self.results, self.links, benchmark=self.benchmark, problem=problem,
                            point=point,
                        ),
                        title=f"{problem}, {point.point_id}: {100 * rate:.2f}%"
                        + (f", {fate}" if fate else ""),
                        kind=fate,
                    )
                )  # fmt: skip
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

    def covered(self) -> Chart:
        """Expected numbers of problems lost, gained and retained."""
        data, call = calls.selected(
            self.analysis, "coverage", ("cell", *FATES), column=self.benchmark, k=self.k
        )
        cells = self.analysis.by_cell
        names = [charts.label(cells[name].label) for name in data["cell"]]
        traces = [
            {
                "type": "bar",
                "orientation": "h",
                "name": fate,
                "y": names,
                "x": [round(value, 2) for value in data[fate].to_list()],
                "marker": {"color": color},
            }
            for fate, color in COLORS.items()
        ]
        return Chart(
            name="fates",
            title=f"Problems retained, gained and lost at k = {self.k}",
            figure=charts.figure(
                traces, x="problems", y="", barmode="stack", yaxis=charts.CATEGORIES
            ),
            data=data,
            call=call,
            note="Against the base model of the same seed, mean over seeds.",
        )

    def counts(self) -> Grid:
        """The same as a table, with the points chosen."""
        names = {(key_of(p)[0], p.seed): p.point_id for p in self.points}
        return Grid(
            title="Expected numbers of problems, by point",
            header=("point", *FATES),
            rows=tuple(
                (names[cell, seed], *(f"{value:.1f}" for value in values))
                for cell, seed, *values in by_point(self.data).iter_rows()
            ),
        )


def _rate(rate: float) -> str:
    if np.isnan(rate):
        return ""
    return f"{100 * rate:.0f}" if rate >= 0.01 or rate == 0 else f"{100 * rate:.1f}"
