"""The first page: every sweep with its state, its date, its answer and a small curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from polars.exceptions import PolarsError

from dashboards import charts
from dashboards.page import Address
from dashboards.pages.pairs import in_front
from dashboards.pages.sweep import count_runs
from dashboards.queries import checked, describe_failures, is_analysed, load_analysis, newest_result
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.checkpoints import CheckpointEstimate, checkpoint_estimates
from fgrpo_bench.analysis.results import load_results, together
from fgrpo_bench.documents.table import with_interval
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths
from fgrpo_bench.report.footnotes import most_unscored
from fgrpo_bench.report.words import answer

WIDTH, HEIGHT, EDGE = 180, 84, 4
"""Of a small curve, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """pass@k of a cell over log k."""

    points: str
    """As an SVG polyline takes them."""
    color: str
    is_dashed: bool
    is_in_front: bool


@dataclass(frozen=True, kw_only=True)
class SweepEntry:
    """A sweep on the first page."""

    name: str
    href: str
    """Compare, or the sweep's own page where there is nothing to compare yet."""
    sweep_href: str
    question: str
    answer: tuple[str, ...] = ()
    """Sentences; empty where nothing is analysed yet."""
    runs: str = ""
    """How many are done, in words; empty where the files cannot be read."""
    states: dict[str, int]
    """Stages by state."""
    failures: tuple[str, ...] = ()
    """What failed, and its log."""
    newest: datetime | None = None
    """When its newest result came, in UTC."""
    curves: tuple[Curve, ...] = ()
    curve_caption: str = ""
    """What the small curve shows."""
    trouble: str = ""
    """Why its files cannot be read; empty where they can."""

    @property
    def order(self) -> tuple[bool, float, str]:
        """Its place on the page: what runs or failed first, then the newest result."""
        needs_a_look = self.trouble or not {"running", "failed"}.isdisjoint(self.states)
        newest = 0.0 if self.newest is None else self.newest.timestamp()
        return not needs_a_look, -newest, self.name


def sweep_entry(run: RunPaths) -> SweepEntry:
    """What the first page says of a run; what cannot be read is said instead."""
    name = run_title(run)
    sweep, compare = (Address(run=run, view=view).href for view in ("sweep", "compare"))
    try:
        results = checked(load_results(run))
        runs, states = count_runs(results)
        analysis = load_analysis(results) if is_analysed(run) else None
        question, *sentences = answer(analysis) if analysis else [results.question]
        pair = in_front(analysis) if analysis else None
        front = () if pair is None else (pair.new, pair.old)
        return SweepEntry(
            name=name,
            href=compare if sentences else sweep,
            sweep_href=sweep,
            question=question,
            answer=tuple(sentences),
            runs=runs,
            states={str(state): count for state, count in states.items()},
            failures=describe_failures(results) if "failed" in states else (),
            newest=newest_result(results),
            curves=_curves(analysis, front) if analysis else (),
            curve_caption=_curve_caption(analysis, front) if analysis else "",
        )
    except (OSError, ValueError, LookupError, TypeError, PolarsError) as error:
        return SweepEntry(
            name=name, href=sweep, sweep_href=sweep, question="", states={}, trouble=str(error)
        )


@dataclass(frozen=True, kw_only=True)
class EvaluationEntry:
    """An evaluation without a sweep on the first page."""

    name: str
    href: str | None
    """Its page of single answers; None where its files cannot be read."""
    estimates: tuple[str, ...] = ()
    """pass@k at both ends, a benchmark each."""
    trouble: str = ""
    """Why its files cannot be read; empty where they can."""


def evaluation_entry(root: Path, name: str) -> EvaluationEntry:
    """What the first page says of an evaluation; what cannot be read is said instead."""
    try:
        results = together(root, [name])
        href = Address(run=results.address, view="draws").href
        estimates = tuple(
            _ends(checkpoint_estimates(results.checkpoints[0], benchmark), benchmark)
            for benchmark in results.benchmarks
        )
        return EvaluationEntry(name=name, href=href, estimates=estimates)
    except (OSError, ValueError, LookupError, TypeError, PolarsError) as error:
        return EvaluationEntry(name=name, href=None, trouble=str(error))


def _ends(rows: Sequence[CheckpointEstimate], benchmark: str) -> str:
    ends = dict.fromkeys((rows[0], rows[-1])) if rows else ()
    shown = (
        f"pass@{row.k} {with_interval(row.mean, row.low, row.high, open_part=row.open_part)}"
        for row in ends
    )
    return f"{benchmark}: {', '.join(shown) or 'no results'}"


def run_title(run: RunPaths) -> str:
    """A run in words."""
    if run.sweep == EVALUATIONS:
        first, *others = run.experiment.split("+")
        return f"{', '.join(others)} against {first}" if others else first
    return f"{run.sweep} / {run.experiment} / {run.version}"


def _curve_caption(analysis: Analysis, front: tuple[str, ...]) -> str:
    named = " and ".join(analysis.by_cell[name].label for name in front)
    ks = f"k = {analysis.ks[0]} to {analysis.ks[-1]}"
    unscored = most_unscored(analysis.estimates_on(analysis.columns[0]))
    in_front = f"; in front {named}" if named else ""
    return f"pass@k on {analysis.columns[0]}{unscored}, {ks}{in_front}"


def _curves(analysis: Analysis, front: tuple[str, ...]) -> tuple[Curve, ...]:
    """Between 0 and 1 from the bottom to the top, those in front last."""
    styles = charts.styles_by_cell(analysis.by_cell)
    widest = math.log(analysis.ks[-1] / analysis.ks[0]) or 1.0
    curves = []
    for name in sorted(analysis.by_cell, key=lambda name: name in front):
        rows = analysis.over_k(analysis.columns[0], name)
        estimates = [row for row in rows if row.mean is not None]
        points = [
            (
                EDGE + (WIDTH - 2 * EDGE) * math.log(row.k / analysis.ks[0]) / widest,
                EDGE + (HEIGHT - 2 * EDGE) * (1 - (row.mean or 0.0)),
            )
            for row in estimates
        ]
        curves.append(
            Curve(
                points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points),
                color=styles[name].color,
                is_dashed=styles[name].linestyle != "-",
                is_in_front=name in front,
            )
        )
    return tuple(curve for curve in curves if curve.points)
