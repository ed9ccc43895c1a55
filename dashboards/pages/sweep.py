"""Sweep: what is wrong first, then training so far, the grid as a heat map, cost and all points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade
from dashboards.pages.sweep_training import CURVES, learning, steps
from dashboards.queries.analysis import analysis_of
from dashboards.queries.progress import Progress, by_cell, progress
from fgrpo_bench.analysis import cells_of
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.numbers import percent
from fgrpo_bench.results import Results, SweepResults
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stages.states import StageStatus
from fgrpo_bench.stages.watch import NUMBERS

REFRESH_SECONDS = 5
NONE = "-"
Value = tuple[float | None, str]
"""Between 0 and 1 for the colour, and the words."""


def build(of: Results, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark, show, curve."""
    results = of.of_sweep()
    run, measures = results.paths, shows(results)
    form = Form(run, "sweep", given, links)
    column = form.value("benchmark", results.columns)
    show = form.value("show", measures)
    curve = form.value("curve", CURVES)
    status = progress(results)
    curves = steps(results, curve)
    controls = [form.control("show", "Colour by", measures), form.control("benchmark", "Benchmark")]
    if curves or curve != CURVES[0]:
        titles = {name: NUMBERS[name].column for name in CURVES}
        controls.append(form.control("curve", "Curve by step", titles))
    values = _values(results, status, column, show)
    return Page(
        address=form.address(),
        title=f"{run.sweep} on {run.experiment} {run.version}",
        lead=results.question,
        controls=choices(*controls),
        charts=(*curves, *learning(results)),
        context={
            "progress": status,
            "grids": _grids(cells_of(results), values, measures[show]),
            "warnings": _warnings(status),
            "points": _points(results, status),
            "cost": _cost_words(status),
        },
        refresh_seconds=REFRESH_SECONDS if status.running and not links.is_static else None,
    )


def shows(results: SweepResults) -> dict[str, str]:
    """What the grid can be coloured by, in words."""
    ks = results.evaluation["ks"]
    passes = {f"pass{k}": f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1]))}
    return {"state": "state", "reward": "training reward"} | passes | {"cost": "cost"}


def _values(results: SweepResults, status: Progress, column: str, show: str) -> dict[str, Value]:
    """What a cell of the grid shows, by cell."""
    points = by_cell(results)
    if show.startswith("pass"):
        analysis, k = analysis_of(results), int(show.removeprefix("pass"))
        return {name: _share(analysis.estimate(column, name, k).mean) for name in points}
    if show == "cost":
        spent = {name: [status.costs[p.point_id].cpu for p in own] for name, own in points.items()}
        costs = {name: sum(own) for name, own in spent.items()}
        most = max(costs.values(), default=0.0) or 1.0
        return {name: (cost / most, seconds(cost)) for name, cost in costs.items()}
    if show == "reward":
        reward_by_point = {p: stage.numbers.get("reward") for p, stage in status.training.items()}
        values = {name: [reward_by_point[p.point_id] for p in own] for name, own in points.items()}
        known = {name: [r for r in own if r is not None] for name, own in values.items()}
        return {name: _share(sum(own) / len(own) if own else None) for name, own in known.items()}
    return {
        name: _state(
            [status.training[p.point_id] for p in own], [status.evaluation[p.point_id] for p in own]
        )
        for name, own in points.items()
    }


def _share(value: float | None) -> Value:
    return (None, NONE) if value is None else (value, f"{percent(value)}%")


def _state(training: list[StageStatus], evaluation: list[StageStatus]) -> Value:
    done = sum(
        t.state == "done" and e.state == "done" for t, e in zip(training, evaluation, strict=True)
    )
    parts = [_done(stage) for stage in (*training, *evaluation)]
    words = f"{done} of {len(training)} done"
    for state in ("running", "failed", "damaged", "stopped"):
        n = sum(stage.state == state for stage in (*training, *evaluation))
        words += f", {n} {state}" if n else ""
    return sum(parts) / len(parts), words


def _done(stage: StageStatus) -> float:
    if stage.state == "done":
        return 1.0
    return stage.step / stage.of if stage.step is not None and stage.of else 0.0


def _grids(cells: Mapping[str, CellRow], values: Mapping[str, Value], shown: str) -> list[Grid]:
    """A table of gamma by N for each algorithm, and one line for the base models."""
    grids = []
    trained = [cell for row in cells.values() if (cell := row.setting) is not None]
    for line in dict.fromkeys(cell.line for cell in trained):
        own = [cell for cell in trained if cell.line == line]
        gammas = sorted({cell.focal_gamma for cell in own})
        sizes = sorted({cell.group_size for cell in own})
        cell = own[0].unweighted
        rows: list[Row] = [
            (
                f"gamma = {gamma:g}",
                *(
                    _shade(values, replace(cell, group_size=n, focal_gamma=gamma).name)
                    for n in sizes
                ),
            )
            for gamma in gammas
        ]
        title = f"{cell.method}: {shown} by group size N and focal gamma"
        header = ("", *(f"N = {size}" for size in sizes))
        grids.append(Grid(title=title, header=header, rows=tuple(rows)))
    base = (("", _shade(values, BASE)),)
    return [*grids, Grid(title=f"Base models: {shown}", header=("", "base"), rows=base)]


def _shade(values: Mapping[str, Value], name: str) -> Shade:
    if name not in values:
        return Shade(text="", title="not in the grid", kind="absent")
    value, words = values[name]
    bad = next((state for state in ("failed", "damaged") if state in words), "")
    return Shade(text=words, level=level(value), title=name, kind=bad)


def level(value: float | None) -> int | None:
    """A share as a step of the colour scale."""
    return None if value is None else min(10, max(0, round(10 * value)))


def _warnings(status: Progress) -> list[tuple[str, str]]:
    """Point and words."""
    return [(name, text) for name, stage in status.training.items() for text in stage.warnings]


def _points(results: SweepResults, status: Progress) -> Grid:
    rows: list[Row] = []
    for point in results.points:
        train, judge = status.training[point.point_id], status.evaluation[point.point_id]
        active = judge if judge.state in ("running", "stopped") else train
        rows.append(
            (
                point.point_id,
                Shade(text=train.state, kind=train.state),
                Shade(text=judge.state, kind=judge.state),
                f"{active.step}/{active.of}" if active.of else NONE,
                NONE if active.eta_seconds is None else seconds(active.eta_seconds),
                f"{train.attempts} + {judge.attempts}",
                seconds(status.costs[point.point_id].cpu),
            )
        )
    for stage in status.others:
        words = (stage.name, Shade(text=stage.state, kind=stage.state), NONE, NONE, NONE)
        rows.append((*words, str(stage.attempts), NONE))
    return Grid(
        title="Points",
        header=("point", "training", "evaluation", "step", "left", "attempts", "CPU time"),
        rows=tuple(rows),
        n_words=3,
        notes=("attempts: of training + of evaluation; left: time until the running stage ends.",),
    )


def _cost_words(status: Progress) -> list[tuple[str, str, str]]:
    """Name, so far, projected."""
    kinds = ("CPU time", "GPU time", "wall time of all stages, as if one after another")
    total = ["not known yet"] * 3 if status.projected is None else map(seconds, status.projected)
    return list(zip(kinds, map(seconds, status.spent), total, strict=True))


def seconds(value: float) -> str:
    """e.g. `42 s`, `3.5 min`, `12.3 h`."""
    if value < 100:
        return f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 6000 else f"{value / 3600:.1f} h"
