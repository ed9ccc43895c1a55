"""Compare: the answer to the sweep's question, the differences behind it, the plane of pass@1 and
pass@k, the curves, and equal compute.

In: the analysis of a sweep and what the page was asked for. Out: a Page. Next: pairs.py, which
cells are compared; compare_charts.py, the charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dashboards.page import ColoredCell, Form, Given, Page, choices
from dashboards.pages.compare_charts import COSTS, CompareCharts
from dashboards.pages.pairs import (
    QUESTION,
    ComparedCells,
    compared_cells,
    last_rows,
    list_pairs,
    pairs_by_address,
    path_rows,
    strongest_pair,
)
from dashboards.queries import describe_failures, load_analysis
from fgrpo_bench.analysis import INCONCLUSIVE, Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import Comparison, PathRange
from fgrpo_bench.documents.table import (
    NONE,
    Table,
    TableRow,
    difference,
    p_value,
    percent,
    points,
    unfinished_note,
    unfinished_shares,
    with_interval,
)
from fgrpo_bench.report.captions import subject
from fgrpo_bench.report.footnotes import redeclared
from fgrpo_bench.report.tables.comparisons import FRONT, PATHS
from fgrpo_bench.report.tables.main import unfinished_columns
from fgrpo_bench.report.words import answer

FEW = 6
"""Pairs that are shown at the smallest k too; of more only the chosen k."""
COST_LABELS = {name: name.replace("_", " ") for name in COSTS}
CORRECTED = "significant: holds after that correction; "
VERDICT_LEGEND = "suggestive: the interval excludes 0; inconclusive: neither."


def _question_label(results: Results) -> str:
    """What QUESTION is, for a person; evaluations without a sweep declare none."""
    return "every pair" if results.sweep is None else "the sweep's question"


def build(results: Results, given: Given) -> Page:
    """The page; parameters: benchmark (or an average), k, against, over, cost, and any number of
    cell."""
    analysis = load_analysis(results)
    cells, form = analysis.by_cell, Form(results.address, "compare", given)
    column = form.value("benchmark", analysis.columns)
    k = int(form.value("k", analysis.ks, str(analysis.ks[-1])))
    declared = [QUESTION] if list_pairs(analysis, QUESTION) else []
    against = form.value("against", [*declared, *cells])
    cost = form.value("cost", COSTS)
    picked = form.values("cell", cells)
    shown = [name for name in picked or cells if analysis.estimate(column, name, k).seeds]
    pairs = [pair for pair in list_pairs(analysis, against) if not picked or pair.new in picked]
    ks = sorted({analysis.ks[0], k}) if against == QUESTION and len(pairs) <= FEW else [k]
    at_ends = last_rows(analysis, column, pairs, ks)
    # A question that was declared at equal pass@1 is answered there, not at last checkpoints.
    on_paths = analysis.at_equal_pass_at_1 and against == QUESTION
    rows = path_rows(analysis, column, pairs, k) if on_paths else at_ends
    offered = pairs_by_address(
        [pair for pair in pairs if pair in map(compared_cells, at_ends)], against
    )
    over = (
        offered[form.value("over", offered, _key(offered, strongest_pair(rows or at_ends)))]
        if offered
        else None
    )
    labels = {name: cell.label for name, cell in cells.items()}
    against_labels = {QUESTION: _question_label(results)} | {
        n: f"all with {text}" for n, text in labels.items()
    }
    by_question = "the question" if results.sweep is not None else subject(analysis)
    heading = against_labels | {QUESTION: by_question}
    fronts = {key: _label(pair, labels, against) for key, pair in offered.items()}
    drawing = CompareCharts(analysis, column, picked, over)
    return Page(
        address=form.address(),
        title=f"{column}: {heading[against]}",
        lead=" ".join(answer(analysis)),
        controls=choices(
            form.control("benchmark", "Benchmark", forgotten=["over"]),
            form.control("k", "k"),
            form.control("against", "Compared", against_labels, forgotten=["over"]),
            *([form.control("over", "With intervals", fronts)] if offered else []),
            *([form.control("cost", "Cost in", COST_LABELS)] if drawing.costs_differ(k) else []),
        ),
        charts=(
            *drawing.differences(rows, against),
            drawing.plane(k),
            drawing.curves(),
            *drawing.paths(k),
            *drawing.band(),
            *drawing.compute(k, cost),
        ),
        context={
            "cells": [(name, label, name in (picked or cells)) for name, label in labels.items()],
            "kept": [pair for pair in form.address().parameters if pair[0] != "cell"],
            "table": results_table(analysis, column, shown, dict.fromkeys((analysis.ks[0], k))),
            "differences": _differences(analysis, at_ends, against, labels),
            "is_on_paths": on_paths,
            "apart": _apart(len(rows), len(pairs), k) if on_paths else "",
            "on_paths": _on_paths(analysis, column, k, labels),
            "same_cost": drawing.same_cost(k),
            "failures": describe_failures(results),
            "missing": [labels[name] for name in picked or cells if name not in shown],
        },
    )


def _apart(n_rows: int, n_pairs: int, k: int) -> str:
    """Which pairs of a question at equal pass@1 are not drawn, and why; empty where all are."""
    if k == 1:
        return "At equal pass@1 no two cells differ in pass@1: choose a larger k."
    if n_rows == n_pairs:
        return ""
    return (
        f"{n_pairs - n_rows} of {n_pairs} pairs have no range of pass@1 in common: see the table."
    )


def _key(pairs: Mapping[str, ComparedCells], first: ComparedCells | None) -> str:
    return next(key for key, pair in pairs.items() if pair == first)


def _label(pair: ComparedCells, labels: Mapping[str, str], against: str) -> str:
    new, old = labels[pair.new], labels[pair.old]
    return f"{new} against {old}" if against == QUESTION else new


def results_table(
    analysis: Analysis, column: str, shown: Iterable[str], ks: Iterable[int]
) -> Table:
    """pass@k of some cells at some k, with intervals."""
    rows: list[TableRow] = []
    further = unfinished_columns(analysis, column)
    for name in shown:
        estimates = [analysis.estimate(column, name, k) for k in ks]
        values = [
            with_interval(estimate.mean, estimate.low, estimate.high, open_part=estimate.open_part)
            for estimate in estimates
        ]
        counts = (str(estimates[0].n_seeds), str(estimates[0].n_problems))
        place = ColoredCell(text=_front(analysis, column, name), kind="words")
        shares = unfinished_shares(estimates[0].unfinished)[: len(further)]
        rows.append((analysis.by_cell[name].label, *values, *shares, *counts, place))
    ends = " and ".join(f"pass@{k}" for k in analysis.ends)
    return Table(
        title="pass@k in percent with 95% intervals",
        header=(
            *("cell", *(f"pass@{k}" for k in ks), *further),
            *("seeds", "problems", "in the plane"),
        ),
        rows=tuple(rows),
        notes=(
            f"In the plane of {ends}: {FRONT}.",
            *((unfinished_note(further),) if further else ()),
        ),
    )


def _front(analysis: Analysis, column: str, name: str) -> str:
    place = analysis.on_front(column, name)
    if place is None:
        return NONE
    better = ", ".join(analysis.by_cell[cell].label for cell in place.dominated_by)
    return f"dominated by {better}" if better else "not dominated"


def _differences(
    analysis: Analysis, rows: Sequence[Comparison], against: str, labels: Mapping[str, str]
) -> Table:
    ks = " and ".join(f"pass@{k}" for k in dict.fromkeys(row.k for row in rows))
    several = " and " in ks
    if against == QUESTION:
        pairs = f"of {_question_label(analysis.results)}"
        if analysis.at_equal_pass_at_1:
            pairs += ", last checkpoints"
    else:
        pairs = f"against {labels[against]}"
    if rows:
        notes = [f"{P_VALUES} {_correction(analysis)}"]
        notes.append((CORRECTED if analysis.has_family else "") + VERDICT_LEGEND)
        notes += redeclared(analysis)
    else:
        notes = ["No two cells that are compared have results yet."]
    shown: list[TableRow] = []
    for row in rows:
        label = _label(compared_cells(row), labels, against)
        shown.append(
            (
                f"{label}, pass@{row.k}" if several else label,
                difference(row.difference, row.low, row.high),
                ", ".join(points(value) for value in row.by_seed),
                *map(p_value, (row.p, row.p_holm, row.p_draws)),
                ColoredCell(text=row.verdict, kind=row.verdict),
            )
        )
    return Table(
        title=f"Differences in {ks or 'pass@k'} {pairs}, in percentage points",
        header=("cell", "difference [95%]", "by seed", "p", "p Holm", "p draws", "verdict"),
        rows=tuple(shown),
        notes=tuple(notes),
    )


P_VALUES = (
    "p is two-sided, over problems and seeds as the interval. p draws asks about the luck "
    "of the draws alone, for these models and problems, and is too large rather than too "
    "small where cells share random numbers."
)


def _correction(analysis: Analysis) -> str:
    """What p-values are corrected over."""
    if not analysis.has_family:
        return NOTHING_CORRECTED
    return (
        f"p Holm is corrected over the sweep's question ({analysis.family}) and "
        "covers declared comparisons only."
    )


def _on_paths(analysis: Analysis, column: str, k: int, labels: Mapping[str, str]) -> Table | None:
    """Pairs at equal pass@1; None where runs have one evaluated checkpoint, and at k = 1."""
    ranges: list[PathRange] = [row for row in analysis.rows("path_ranges") if row.column == column]
    pairs = [ComparedCells(new=reach.new, old=reach.old) for reach in ranges]
    rows_by_pair = {compared_cells(row): row for row in path_rows(analysis, column, pairs, k)}
    shown: list[TableRow] = []
    for pair, reach in zip(pairs, ranges, strict=True):
        row = rows_by_pair.get(pair)
        name = f"{labels[reach.new]} against {labels[reach.old]}"
        if row is not None:
            shown.append(
                (
                    name,
                    f"{percent(reach.low)} to {percent(row.pass_at_1)}",
                    difference(row.difference, row.low, row.high),
                    difference(row.mean_difference, row.mean_low, row.mean_high),
                    *map(p_value, (row.p, row.p_holm)),
                    ColoredCell(text=row.verdict, kind=row.verdict),
                )
            )
        elif reach.reason is not None and k > 1:
            verdict = ColoredCell(text=INCONCLUSIVE, kind=INCONCLUSIVE, title=reach.reason)
            shown.append((name, *[NONE] * 5, verdict))
    if not shown:
        return None
    reasons = dict.fromkeys(reach.reason for reach in ranges if reach.reason is not None)
    return Table(
        title=f"At equal pass@1: differences in pass@{k}, in percentage points",
        header=("cells", "pass@1 of both", "at its end", "mean over it", "p", "p Holm", "verdict"),
        rows=tuple(shown),
        notes=(PATHS, *(f"No range in common: {reason}." for reason in reasons)),
    )
