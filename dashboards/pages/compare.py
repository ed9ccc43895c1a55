"""Compare: the answer to the sweep's question, the differences behind it, the plane of pass@1 and
pass@k, the curves, and equal compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade, run_of
from dashboards.pages.compare_charts import COSTS, Drawing
from dashboards.pages.compare_rows import (
    FEW,
    QUESTION,
    Pair,
    declared,
    foremost,
    named,
    pairs_of,
    rows_of,
)
from dashboards.queries.analysis import analysis_of
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import Comparison
from fgrpo_bench.documents.numbers import difference, p_value, points, with_interval
from fgrpo_bench.documents.table import NONE
from fgrpo_bench.report.answer import answer
from fgrpo_bench.report.footnotes import redeclared
from fgrpo_bench.report.optional_tables import FRONT
from fgrpo_bench.results import Results

COST_WORDS = {name: name.replace("_", " ") for name in COSTS}
CORRECTED = "robust: holds after that correction; "
VERDICTS_IN_WORDS = "suggestive: the interval is without 0; open: neither."


def build(results: Results, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark (or an average), k, against, over, cost, and any number of
    cell."""
    analysis = analysis_of(results)
    cells, form = analysis.by_cell, Form(run_of(results), "compare", given, links)
    column = form.value("benchmark", analysis.columns)
    k = int(form.value("k", analysis.ks, str(analysis.ks[-1])))
    asked = [QUESTION] if declared(analysis) else []
    against = form.value("against", [*asked, *cells])
    cost = form.value("cost", COSTS)
    picked = form.values("cell", cells)
    shown = [name for name in picked or cells if analysis.estimate(column, name, k).seeds]
    pairs = [pair for pair in pairs_of(analysis, against) if not picked or pair.new in picked]
    ks = sorted({analysis.ks[0], k}) if against == QUESTION and len(pairs) <= FEW else [k]
    rows = rows_of(analysis, column, pairs, ks)
    offered = named([pair for pair in pairs if _has(rows, pair)], against)
    over = offered[form.value("over", offered, _key(offered, foremost(rows)))] if offered else None
    labels = {name: cell.label for name, cell in cells.items()}
    words = {QUESTION: "the sweep's question"} | {
        n: f"all with {text}" for n, text in labels.items()
    }
    fronts = {key: _label(pair, labels, against) for key, pair in offered.items()}
    drawing = Drawing(analysis, column, picked, over)
    return Page(
        address=form.address(),
        title=f"{column}: {'the question' if against == QUESTION else words[against]}",
        lead=" ".join(answer(analysis)),
        controls=choices(
            form.control("benchmark", "Benchmark", forgotten=["over"]),
            form.control("k", "k"),
            form.control("against", "Compared", words, forgotten=["over"]),
            *([form.control("over", "With intervals", fronts)] if offered else []),
            *([] if drawing.same_cost(k) else [form.control("cost", "Cost in", COST_WORDS)]),
        ),
        charts=(
            *drawing.differences(rows, against),
            drawing.plane(k),
            drawing.curves(),
            *drawing.band(),
            *drawing.compute(k, cost),
        ),
        context={
            "cells": [(name, label, name in (picked or cells)) for name, label in labels.items()],
            "kept": [pair for pair in form.address().parameters if pair[0] != "cell"],
            "table": _table(analysis, column, shown, list(dict.fromkeys((analysis.ks[0], k)))),
            "differences": _differences(analysis, rows, against, labels),
            "same_cost": drawing.same_cost(k),
            "missing": [labels[name] for name in picked or cells if name not in shown],
        },
    )


def _has(rows: Sequence[Comparison], pair: Pair) -> bool:
    return any((row.new, row.old) == (pair.new, pair.old) for row in rows)


def _key(pairs: Mapping[str, Pair], first: Pair | None) -> str:
    return next(key for key, pair in pairs.items() if pair == first)


def _label(pair: Pair, labels: Mapping[str, str], against: str) -> str:
    new, old = labels[pair.new], labels[pair.old]
    return f"{new} against {old}" if against == QUESTION else new


def _table(analysis: Analysis, column: str, shown: Sequence[str], ks: Sequence[int]) -> Grid:
    rows: list[Row] = []
    for name in shown:
        estimates = [analysis.estimate(column, name, k) for k in ks]
        values = [with_interval(each.mean, each.low, each.high) for each in estimates]
        counts = (str(estimates[0].n_seeds), str(estimates[0].n_problems))
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
    return f"dominated by {better}" if better else "not dominated"


def _differences(
    analysis: Analysis, rows: Sequence[Comparison], against: str, labels: Mapping[str, str]
) -> Grid:
    ks = " and ".join(f"pass@{k}" for k in dict.fromkeys(row.k for row in rows))
    several = " and " in ks
    of = "of the sweep's question" if against == QUESTION else f"against {labels[against]}"
    return Grid(
        title=f"Differences in {ks or 'pass@k'} {of}, in percentage points",
        header=("cell", "difference [95%]", "by seed", "p", "p Holm", "p draws", "verdict"),
        rows=tuple(
            (
                _label(Pair(new=row.new, old=row.old), labels, against)
                + (f", pass@{row.k}" if several else ""),
                difference(row.difference, row.low, row.high),
                ", ".join(points(value) for value in row.by_seed),
                *map(p_value, (row.p, row.p_holm, row.p_draws)),
                Shade(text=row.verdict, kind=row.verdict),
            )
            for row in rows
        ),
        notes=(
            "p is two-sided, over problems and seeds as the interval. p draws asks about the luck "
            "of the draws alone, for these models and problems, and is too large rather than too "
            "small where cells share random numbers. "
            + (
                f"p Holm is corrected over the sweep's question ({analysis.family}) and is there "
                "for its comparisons alone."
                if analysis.has_family
                else NOTHING_CORRECTED
            ),
            (CORRECTED if analysis.has_family else "") + VERDICTS_IN_WORDS,
            *redeclared(analysis),
        )
        if rows
        else ("No two cells that are compared have results yet.",),
    )
