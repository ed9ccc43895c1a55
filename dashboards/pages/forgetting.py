"""Forgetting: in one sentence how many problems training lost; what became of them by cell; and
problems by points as a heat map of success rates, sorted by what training lost.

In: what became of each problem (queries.problem_outcomes). Out: a Page. Next:
fgrpo_bench.analysis.coverage, which computes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from math import isnan

import numpy as np
import polars as pl

from dashboards import charts
from dashboards.page import Chart, ColoredCell, Form, Given, Page, choices
from dashboards.pages.draws import checkpoint_label, draws_clicks, draws_link
from dashboards.pages.pairs import in_front
from dashboards.pages.problems import problem_summaries
from dashboards.queries import (
    ProblemOutcomes,
    count_lost_solutions,
    load_analysis,
    problem_outcomes,
)
from dashboards.text import shortened
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.coverage import OUTCOMES, by_point, least_rate
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import open_part
from fgrpo_bench.analysis.scoring import bounds_of, shares_of
from fgrpo_bench.documents.table import Table, TableRow, percent, unscored_note

ROWS = 40
"""Problems on a page of the table; the heat map has all."""
ORDERS = {
    "loss": "largest loss first",
    "gain": "largest gain first",
    "base": "hardest for the base model first",
    "name": "by name",
}
ALL = "all"
LIKELY = 0.5
"""Probability from which a table frames a problem as lost or gained."""
COUNTS = ["cell", "seed", "problem_id", "n_scored", "n_correct", "success_rate"]
COLORS = {
    "lost": ("#d55e00", -1, "outside"),
    "retained": ("#9ecae1", 1, "inside"),
    "gained": ("#009e73", 1, "outside"),
}
"""Colour of what became of problems, on which side of 0 its bar is, and where its number stands."""
ROOM = 0.18
"""Part of the longest bar that is left for a number outside of it."""
FEWER = (ColoredCell(text="", kind="fewer"), "still solved, and at least one solution lost")
"""Where right answers of a problem are several solutions."""
LEGEND = (
    *((ColoredCell(text="", kind=f"r{i}"), words) for i, (_, words, _) in enumerate(charts.RATES)),
    *((ColoredCell(text="", kind=fate), fate) for fate in ("lost", "gained")),
)


def build(results: Results, given: Given) -> Page:
    """The page; parameters: benchmark, k, seed, order, page."""
    form = Form(results.address, "forgetting", given)
    benchmark = form.value("benchmark", results.benchmarks)
    ks = results.evaluation["ks"]
    k = int(form.value("k", ks, str(ks[-1])))
    seeds = {checkpoint.seed for checkpoint in results.checkpoints if checkpoint.seed is not None}
    seed = form.value("seed", [ALL, *sorted(seeds)])
    order = form.value("order", ORDERS)
    fates = problem_outcomes(results, benchmark, k)
    n_pages = max(1, -(-len(fates.problems) // ROWS))
    at = int(form.value("page", range(1, n_pages + 1)))
    before = (at - 1) * ROWS
    drawing = ForgettingCharts(
        load_analysis(results),
        benchmark=benchmark,
        k=k,
        fates=fates,
        seed=None if seed == ALL else int(seed),
        summaries=problem_summaries(results, benchmark),
        solutions=count_lost_solutions(results, benchmark, k),
    )
    columns = fates.order(order)
    return Page(
        address=form.address(),
        title=f"{benchmark}: which problems were forgotten",
        lead=_loss_sentence(load_analysis(results), benchmark, k)
        or f"No cell has results beside those of its base models on {benchmark}.",
        controls=choices(
            form.control("benchmark", "Benchmark", forgotten=["page"]),
            form.control("order", "Order", ORDERS, forgotten=["page"]),
            form.control("k", "Within reach at k"),
            form.control("seed", "Seed", forgotten=["page"]),
        ),
        charts=(drawing.heat(columns), drawing.covered()),
        context={
            "table": drawing.table(columns[before : before + ROWS], before),
            "pages": choices(form.control("page", "Page of the table", long=n_pages > 12)),
            "counts": drawing.counts(),
            "reach": (
                f"A problem is within reach at k = {k} if {k} draws more likely than not "
                f"contain a correct one (a success rate of {least_rate(k):.2g} or more). Numbers "
                "are expected values, means over seeds."
            ),
        },
    )


def _loss_sentence(analysis: Analysis, column: str, k: int) -> str:
    """How many problems the two cells in front lost, or without a question the two that lost most
    and least; empty where no cell can be compared with its base models."""
    rows = [row for cell in analysis.by_cell if (row := analysis.covered(column, cell, k))]
    if not rows:
        return ""
    pair = in_front(analysis)
    declared = [] if pair is None else [row for row in rows if row.cell in (pair.old, pair.new)]
    named = sorted(declared or rows, key=lambda row: -row.lost)
    named = list(dict.fromkeys((named[0], named[-1])))
    first, *others = (f"{analysis.by_cell[row.cell].label} lost {row.lost:.0f}" for row in named)
    return ", ".join([f"{first} of {named[0].n_problems} problems", *others]) + "."


class ForgettingCharts:
    """Charts and tables of some checkpoints on one benchmark."""

    def __init__(
        self,
        analysis: Analysis,
        *,
        benchmark: str,
        k: int,
        fates: ProblemOutcomes,
        seed: int | None,
        summaries: Mapping[str, str],
        solutions: Mapping[tuple[str, int | None, str], tuple[int, int]],
    ) -> None:
        """seed: None is all. summaries: what problems ask, of those that can be read. solutions:
        as queries.count_lost_solutions has them."""
        self.summaries, self.solutions = summaries, solutions
        self.analysis, self.results = analysis, analysis.results
        self.benchmark, self.k, self.fates, self.seed = benchmark, k, fates, seed
        self.rows = [
            i for i, checkpoint in enumerate(fates.checkpoints) if seed in (None, checkpoint.seed)
        ]
        self.checkpoints = [fates.checkpoints[i] for i in self.rows]
        self.data = fates.rows if seed is None else fates.rows.filter(seed=seed)

    def _matrix(self, column: str) -> np.ndarray:
        return self.fates.matrix(column)[self.rows]

    def heat(self, columns: Sequence[int]) -> Chart:
        """All problems by all checkpoints; a click opens the draws."""
        problems = [self.fates.problems[i] for i in columns]
        rates = self._matrix("success_rate")[:, columns].T
        unknown = np.isnan(rates)
        trace = {
            "type": "heatmap",
            "z": _without(unknown, charts.rate_steps(rates)),
            "customdata": _without(unknown, np.round(100 * rates, 2)),
            "x": [charts.label(checkpoint_label(point)) for point in self.checkpoints],
            "y": [
                charts.label(f"{i}. {self.summaries.get(name, name)}")
                for i, name in enumerate(problems, 1)
            ],
            "colorscale": charts.rate_scale(),
            "zmin": -0.5,
            "zmax": len(charts.RATES) - 0.5,
            "showscale": False,
            "hovertemplate": "%{customdata}%<br>%{x}<br>%{y}<extra></extra>",
        }
        groups = self._groups()
        starts = list(accumulate((n for _, n in groups), initial=0))
        middles = [start + (n - 1) / 2 for start, (_, n) in zip(starts, groups, strict=False)]
        gap = {"type": "line", "yref": "paper", "y0": 0, "y1": 1}
        gaps = [
            gap | {"x0": x - 0.5, "x1": x - 0.5, "line": {"color": "#ffffff", "width": 5}}
            for x in starts[1:-1]
        ]
        return Chart(
            name="heat",
            title="Success rate by problem, cell and seed",
            figure=charts.figure(
                [trace],
                x="",
                y="",
                yaxis=charts.CATEGORIES,
                xaxis={
                    "type": "category",
                    "tickvals": middles,
                    "ticktext": [charts.label(label).replace(" ", "<br>") for label, _ in groups],
                    "tickangle": 0,
                },
                shapes=gaps,
            ),
            data=self.data.select(COUNTS),
            call=charts.library_call(
                charts.OUTCOMES_CALL,
                self.results.address,
                benchmark=self.benchmark,
                k=self.k,
                chosen="" if self.seed is None else f".filter(seed={self.seed})",
                columns=COUNTS,
            ),
            note="Click a place to read its draws; the table below has the same links.",
            clicks=draws_clicks(
                self.results, benchmark=self.benchmark, problems=problems,
                checkpoints=self.checkpoints,
            ),
            legend=LEGEND[: len(charts.RATES)],
            height=520,
        )  # fmt: skip

    def _groups(self) -> list[tuple[str, int]]:
        """Cells in words, with how many of their points are shown."""
        alike = groupby(self.checkpoints, key=lambda checkpoint: checkpoint.label)
        return [(self.analysis.by_cell[name].label, len(list(members))) for name, members in alike]

    def table(self, columns: Sequence[int], before: int) -> Table:
        """Some problems with a link in every cell."""
        rates = self._matrix("success_rate")
        likely = {fate: self._matrix(fate) >= LIKELY for fate in ("lost", "gained")}
        groups, rows = self._groups(), list[TableRow]()
        firsts = set(accumulate((n for _, n in groups), initial=0))
        for number, column in enumerate(columns, before + 1):
            problem, lost = self.fates.problems[column], self.fates.means["lost"][column]
            text = shortened(self.summaries.get(problem, problem), 40)
            cells: list[str | ColoredCell] = [str(number), ColoredCell(text=text, title=problem)]
            cells.append("-" if lost is None else f"{100 * lost:.0f}%")
            for at, checkpoint in enumerate(self.checkpoints):
                rate = float(rates[at, column])
                fate = next(
                    (name for name, is_likely in likely.items() if is_likely[at, column]), ""
                )
                lost_ways, ways = self.solutions.get(
                    (checkpoint.label, checkpoint.seed, problem), (0, 0)
                )
                fewer = "fewer" if lost_ways and not fate else ""
                kinds = [_step(rate), fate or fewer, "first" if at in firsts else ""]
                cells.append(
                    ColoredCell(
                        text=_rate(rate),
                        href=draws_link(
                            self.results, benchmark=self.benchmark, problem=problem,
                            checkpoint=checkpoint,
                        ),
                        title=f"{problem}, {checkpoint.name}: {100 * rate:.2f}%"
                        + (f", {fate}" if fate else "")
                        + (f", {lost_ways} of {ways} solutions lost" if lost_ways else ""),
                        kind=" ".join(filter(None, kinds)),
                    )
                )  # fmt: skip
            rows.append(tuple(cells))
        return Table(
            title="Success rates in percent, by cell and seed",
            header=("", "problem", "lost", *(_seed(checkpoint) for checkpoint in self.checkpoints)),
            rows=tuple(rows),
            n_labels=2,
            groups=(("", 3), *groups),
            legend=(*LEGEND, FEWER) if self.solutions else LEGEND,
            notes=(
                "lost: mean over the trained points of the probability that the problem was within "
                "the base model's reach and no longer is (Jeffreys' prior).",
                *self._open_parts(),
            ),
        )

    def _open_parts(self) -> Iterator[str]:
        """What draws that could not be judged leave open of the rates of points."""
        for checkpoint in self.checkpoints:
            table = checkpoint.passk(self.benchmark)
            unscored = shares_of(table).unscored
            for k, ends in list(bounds_of(table).items())[:1]:
                if shares := unscored_note(*open_part(unscored, *ends)):
                    mean = table.filter(k=k).select(pl.col("pass_at_k").mean()).item()
                    yield f"{checkpoint.name}: pass@{k} {percent(mean)}{shares}."

    def covered(self) -> Chart:
        """Expected numbers of problems lost, gained and retained."""
        data, call = charts.selected_rows(
            self.analysis, "coverage", ("cell", *OUTCOMES), column=self.benchmark, k=self.k
        )
        cells = self.analysis.by_cell
        names = [charts.label(cells[name].label) for name in data["cell"]]
        most_lost = max(data["lost"].to_list(), default=0.0)
        most_kept = max((data["retained"] + data["gained"]).to_list(), default=0.0)
        room = ROOM * (most_lost + most_kept)
        traces = []
        for fate, (color, sign, place) in COLORS.items():
            numbers = data[fate].to_list()
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": fate,
                    "y": names,
                    "x": [sign * round(number, 2) for number in numbers],
                    "text": [f"{number:.0f}" for number in numbers],
                    "textposition": place,
                    "insidetextanchor": "middle",
                    "textangle": 0,
                    "insidetextfont": {"color": "#1d1d1f"},
                    "cliponaxis": False,
                    "marker": {"color": color},
                    **charts.hover(
                        [
                            f"{name}: {number:.1f} {fate}"
                            for name, number in zip(names, numbers, strict=True)
                        ]
                    ),
                }
            )
        return Chart(
            name="fates",
            title="Retained, gained and lost",
            figure=charts.figure(
                traces,
                x="problems",
                y="",
                barmode="relative",
                yaxis=charts.CATEGORIES | {"showgrid": False, "linecolor": "rgba(0,0,0,0)"},
                # The numbers stand on the bars, and outside of them where these are short.
                xaxis={
                    "showticklabels": False,
                    "showgrid": False,
                    "linecolor": "rgba(0,0,0,0)",
                    "zeroline": True,
                    "zerolinecolor": "#888888",
                    "range": [-most_lost - room, most_kept + room],
                },
            ),
            data=data,
            call=call,
            note="Against the base model of the same seed, mean over seeds.",
            height=60 + 26 * len(names),
        )

    def counts(self) -> Table:
        """The same as a table, with the points chosen."""
        names = {
            (checkpoint.label, checkpoint.seed): checkpoint.name for checkpoint in self.checkpoints
        }
        fewer = Counter(
            (cell, seed) for (cell, seed, _), (lost, _) in self.solutions.items() if lost
        )
        header = ["point", *OUTCOMES]
        if self.solutions:
            header.append(FEWER[1])
        rows = []
        for cell, seed, *values in by_point(self.data).iter_rows():
            row = [names[cell, seed], *(f"{value:.1f}" for value in values)]
            if self.solutions:
                row.append(str(fewer[cell, seed]))
            rows.append(tuple(row))
        return Table(
            title="Expected numbers of problems, by point",
            header=tuple(header),
            rows=tuple(rows),
            notes=(
                "A solution is lost that was more likely than not within the base model's reach "
                "and no longer is; it is counted, not expected.",
            )
            if self.solutions
            else (),
        )


def _seed(checkpoint: EvaluatedCheckpoint) -> str:
    return "" if checkpoint.seed is None else str(checkpoint.seed)


def _without(unknown: np.ndarray, values: np.ndarray) -> list[list[float | None]]:
    """Rows of values with None where they are unknown."""
    rows = values.astype(object)
    rows[unknown] = None
    return [list(row) for row in rows]


def _step(rate: float) -> str:
    return "" if isnan(rate) else f"r{charts.rate_steps(rate)}"


def _rate(rate: float) -> str:
    if np.isnan(rate):
        return ""
    return f"{100 * rate:.0f}" if rate >= 0.01 or rate == 0 else f"{100 * rate:.1f}"
