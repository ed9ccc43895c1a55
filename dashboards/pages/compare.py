"""Compare: pass@k curves, the pass@1 and pass@k plane, differences, and equal compute."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade
from dashboards.pages.compare_charts import COSTS, Drawing
from dashboards.queries.analysis import analysis_of
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.rows import Comparison
from fgrpo_bench.documents.numbers import difference, p_value, points, with_interval
from fgrpo_bench.documents.table import NONE
from fgrpo_bench.report.further import FRONT
from fgrpo_bench.results import SweepResults


def build(results: SweepResults, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark (or an average), k, against, over, cost, and any number of
    cell."""
    analysis = analysis_of(results)
    cells, form = analysis.by_cell, Form(results.paths, "compare", given, links)
    column = form.one("benchmark", analysis.columns)
    k = int(form.one("k", analysis.ks, str(analysis.ks[-1])))
    against = form.one("against", cells)
    cost = form.one("cost", COSTS)
    picked = form.many("cell", cells)
    banded = [name for name in cells if analysis.band(column, name, against)]
    over = form.one("over", banded) if banded else None
    shown = [name for name in picked or cells if analysis.estimate(column, name, k).seeds]
    rows = [row for row in analysis.against(column, k, against) if row.new in (picked or cells)]
    labels = {name: cell.label for name, cell in cells.items()}
    drawing = Drawing(analysis, column, picked)
    return Page(
        address=form.address(),
        title=f"{column}: comparing cells",
        lead="Means over problems and seeds with 95% intervals, the same numbers as in the report.",
        controls=choices(
            form.control("benchmark", "Benchmark", forgotten=["over"]),
            form.control("k", "k"),
            form.control("against", "Differences against", labels, forgotten=["over"]),
            *([form.control("over", "Over all k", labels)] if over else []),
            form.control("cost", "Compute in", {name: name.replace("_", " ") for name in COSTS}),
        ),
        charts=(
            drawing.curves(),
            drawing.plane(k),
            drawing.differences(rows, k, against),
            drawing.compute(k, cost),
            *([drawing.band(over, against)] if over else []),
        ),
        context={
            "cells": [(name, label, name in (picked or cells)) for name, label in labels.items()],
            "kept": [pair for pair in form.address().parameters if pair[0] != "cell"],
            "table": _table(analysis, column, shown, list(dict.fromkeys((analysis.ks[0], k)))),
            "differences": _differences(analysis, rows, k, labels[against]),
            "missing": [labels[name] for name in picked or cells if name not in shown],
        },
    )


def _table(analysis: Analysis, column: str, shown: Sequence[str], ks: Sequence[int]) -> Grid:
    rows: list[Row] = []
    for name in shown:
        made = [analysis.estimate(column, name, k) for k in ks]
        values = [with_interval(each.mean, each.low, each.high) for each in made]
        counts = (str(made[0].n_seeds), str(made[0].n_problems))
        rows.append(
            (analysis.by_cell[name].label, *values, *counts, _front(analysis, column, name))
        )
    ends = " and ".join(f"pass@{k}" for k in analysis.ends)
    return Grid(
        title="pass@k in percent with 95% intervals",
        header=("cell", *(f"pass@{k}" for k in ks), "seeds", "problems", "in the plane"),
        rows=tuple(rows),
        notes=(f"In the plane of {ends}: {FRONT}.",),
    )


def _front(analysis: Analysis, column: str, name: str) -> str:
    own = analysis.on_front(column, name)
    if own is None:
        return NONE
    better = ", ".join(analysis.by_cell[cell].label for cell in own.dominated_by)
    return f"dominated by {better}" if better else "on the front"


def _differences(analysis: Analysis, rows: Sequence[Comparison], k: int, reference: str) -> Grid:
    return Grid(
        title=f"pass@{k} minus that of {reference}, in percentage points",
        header=("cell", "difference [95%]", "by seed", "p", "p Holm", "p draws", "verdict"),
        rows=tuple(
            (
                analysis.by_cell[row.new].label,
                difference(row.difference, row.low, row.high),
                ", ".join(points(value) for value in row.by_seed),
                *map(p_value, (row.p, row.p_holm, row.p_draws)),
                Shade(text=row.verdict, kind=row.verdict),
            )
            for row in rows
        ),
        notes=(
            "p is two-sided, over problems and seeds as the interval; p draws takes models and "
            f"problems as given. p Holm is corrected over the sweep's question ({analysis.family}) "
            "and is there for its comparisons alone.",
            "robust: holds after that correction; suggestive: the interval is without 0; open: "
            "neither.",
        ),
    )
