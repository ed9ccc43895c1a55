"""Sweep: what is wrong first, the results of a finished sweep by cell, training, the grid as a heat
map, cost and all points.

In: the files of a sweep, also while it runs: states, markers, logs, metrics by step. Out: a Page.
Next: fgrpo_bench.stages.states says what a state is, fgrpo_bench.stages.watch which numbers are
watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dashboards import charts
from dashboards.page import Chart, ColoredCell, Form, Given, Page, choices
from dashboards.pages.compare import results_table
from dashboards.queries import FileState, load_analysis, remembered, stage_statuses, stamp
from fgrpo_bench.analysis import cells_of
from fgrpo_bench.analysis.checkpoints import frame_key
from fgrpo_bench.analysis.results import PointResult, Results, SweepResults
from fgrpo_bench.analysis.rows import CellRow, Estimate
from fgrpo_bench.documents.table import Table, TableRow, with_interval
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.report.cell_styles import CellStyle
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stages.attempts import logs, tail
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import StageStatus, State, living_driver, runs_done
from fgrpo_bench.stages.tables import METRICS
from fgrpo_bench.stages.watch import NUMBERS, TOKENS_PER_SECOND

REFRESH_SECONDS = 5
"""Between reloads of a page while the sweep runs."""
NONE = "-"
CellValue = tuple[float | None, str]
"""Between 0 and 1 for the colour, and the words."""
CURVES = tuple(NUMBERS)
"""What can be drawn by step."""
QUIET: tuple[State, ...] = ("done", "waiting")
"""States of stages that are no point's and are counted, not listed."""
SHOWN_STATES: tuple[State, ...] = ("done", "running", "waiting", "stopped", "failed", "damaged")
LAST_LINES = 12
"""Lines of a failed stage's log that are shown."""
MOST_PLACES = 40
"""Points of a line by training step: of more the noise hides which line is above."""
LEARNING = ("eval_pass_at_1", "eval_pass_at_n")
_VALUES = ("seconds", "gpus", "tokens", *(n for n in NUMBERS if n != TOKENS_PER_SECOND), *LEARNING)


def build(loaded: Results, given: Given) -> Page:
    """The page; parameters: benchmark, show, curve."""
    results = loaded.require_sweep()
    run, measures = results.paths, shows(results)
    form = Form(run, "sweep", given)
    column = form.value("benchmark", results.columns)
    status = progress(results)
    is_finished = not any(n for state, n in status.states.items() if state != "done")
    ks = results.evaluation["ks"]
    show = form.value("show", measures, f"pass{ks[-1]}" if is_finished else None)
    curve = form.value("curve", CURVES)
    curves = _steps_chart(results, curve)
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
        charts=(*curves, *_learning_chart(results)),
        context={
            "progress": status,
            "results": _results(results, column, (ks[0], ks[-1])) if is_finished else None,
            "grids": _grids(cells_of(results), values, measures[show]),
            "warnings": _warnings(status),
            "points": _points(results, status),
            "cost": _cost_rows(status),
        },
        refresh_seconds=REFRESH_SECONDS if status.running else None,
    )


def shows(results: SweepResults) -> dict[str, str]:
    """What the grid can be coloured by, in words."""
    ks = results.evaluation["ks"]
    passes = {f"pass{k}": f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1]))}
    return {"state": "state", "reward": "training reward"} | passes | {"cost": "cost"}


def _results(results: SweepResults, column: str, ks: Sequence[int]) -> Table:
    """pass@k of every cell that has results."""
    analysis = load_analysis(results)
    cells = [name for name in analysis.by_cell if analysis.estimate(column, name, ks[-1]).seeds]
    return results_table(analysis, column, cells, dict.fromkeys(ks))


def _values(
    results: SweepResults, status: SweepProgress, column: str, show: str
) -> dict[str, CellValue]:
    """What a cell of the grid shows, by cell."""
    ids = {name: [p.point_id for p in points] for name, points in _by_cell(results).items()}
    if show.startswith("pass"):
        analysis, k = load_analysis(results), int(show.removeprefix("pass"))
        return {name: _estimate(analysis.estimate(column, name, k)) for name in ids}
    if show == "cost":
        costs = {name: sum(status.costs[p].cpu for p in points) for name, points in ids.items()}
        most = max(costs.values(), default=0.0) or 1.0
        return {name: (cost / most, seconds(cost)) for name, cost in costs.items()}
    if show == "reward":
        reward = {p: stage.numbers.get("reward") for p, stage in status.training.items()}
        means = {}
        for name, points in ids.items():
            rewards = [reward[p] for p in points]
            means[name] = _mean_reward([r for r in rewards if r is not None])
        return means
    return {
        name: _state([status.training[p] for p in points], [status.evaluation[p] for p in points])
        for name, points in ids.items()
    }


def _mean_reward(rewards: list[float]) -> CellValue:
    """Its colour is that of a share: most rewards are 0 and 1, and others may be any number."""
    if not rewards:
        return None, NONE
    mean = sum(rewards) / len(rewards)
    return min(max(mean, 0.0), 1.0), f"{mean:.3f}"


def _estimate(row: Estimate) -> CellValue:
    return row.mean, with_interval(row.mean, row.low, row.high, open_part=row.open_part)


def _state(training: list[StageStatus], evaluation: list[StageStatus]) -> CellValue:
    done = sum(
        t.state == "done" and e.state == "done" for t, e in zip(training, evaluation, strict=True)
    )
    parts = [_done(stage) for stage in (*training, *evaluation)]
    text = f"{done} of {len(training)} done"
    for state in ("running", "failed", "damaged", "stopped"):
        n = sum(stage.state == state for stage in (*training, *evaluation))
        text += f", {n} {state}" if n else ""
    return sum(parts) / len(parts), text


def _done(stage: StageStatus) -> float:
    if stage.state == "done":
        return 1.0
    return stage.step / stage.of if stage.step is not None and stage.of else 0.0


def _grids(
    cells: Mapping[str, CellRow], values: Mapping[str, CellValue], shown: str
) -> list[Table]:
    """A table of gamma by N for each algorithm, and one line for the base models."""
    grids = []
    trained = [cell for row in cells.values() if (cell := row.setting) is not None]
    for line in dict.fromkeys(cell.line for cell in trained):
        line_cells = [cell for cell in trained if cell.line == line]
        gammas = sorted({cell.focal_gamma for cell in line_cells})
        sizes = sorted({cell.group_size for cell in line_cells})
        cell = line_cells[0].unweighted
        rows: list[TableRow] = []
        for gamma in gammas:
            names = [replace(cell, group_size=n, focal_gamma=gamma).name for n in sizes]
            rows.append((f"gamma = {gamma:g}", *(_shade(values, name) for name in names)))
        title = f"{cell.method}: {shown} by group size N and focal gamma"
        header = ("", *(f"N = {size}" for size in sizes))
        grids.append(Table(title=title, header=header, rows=tuple(rows)))
    base = (("", _shade(values, BASE)),)
    return [*grids, Table(title=f"Base models: {shown}", header=("", "base"), rows=base)]


def _shade(values: Mapping[str, CellValue], name: str) -> ColoredCell:
    if name not in values:
        return ColoredCell(text="", title="not in the grid", kind="absent")
    value, text = values[name]
    bad = next((state for state in ("failed", "damaged") if state in text), "")
    return ColoredCell(text=text, level=_level(value), title=name, kind=bad)


def _level(value: float | None) -> int | None:
    """A share as a step of the colour scale."""
    return None if value is None else min(10, max(0, round(10 * value)))


def _warnings(status: SweepProgress) -> list[tuple[str, str]]:
    """Point and words."""
    return [(name, text) for name, stage in status.training.items() for text in stage.warnings]


def _points(results: SweepResults, status: SweepProgress) -> Table:
    rows: list[TableRow] = []
    for point in results.points:
        train, judge = status.training[point.point_id], status.evaluation[point.point_id]
        active = judge if judge.state in ("running", "stopped") else train
        rows.append(
            (
                point.point_id,
                ColoredCell(text=train.state, kind=train.state),
                ColoredCell(text=judge.state, kind=judge.state),
                f"{active.step}/{active.of}" if active.of else NONE,
                NONE if active.eta_seconds is None else seconds(active.eta_seconds),
                f"{train.attempts} + {judge.attempts}",
                seconds(status.costs[point.point_id].cpu),
            )
        )
    for stage in status.others:
        if stage.state not in QUIET:
            state = ColoredCell(text=stage.state, kind=stage.state)
            rows.append((stage.name, state, NONE, NONE, NONE, str(stage.attempts), NONE))
    quiet = Counter(stage.state for stage in status.others if stage.state in QUIET)
    further = ", ".join(f"{n} {state}" for state, n in quiet.items())
    return Table(
        title="Points",
        header=("point", "training", "evaluation", "step", "left", "attempts", "CPU time"),
        rows=tuple(rows),
        n_labels=3,
        notes=(
            "attempts: of training + of evaluation; left: time until the running stage ends.",
            *((f"Other stages, e.g. of earlier checkpoints: {further}.",) if further else ()),
        ),
    )


def _cost_rows(status: SweepProgress) -> list[tuple[str, str, str]]:
    """Name, so far, projected."""
    kinds = ("CPU time", "GPU time", "wall time of all stages, as if one after another")
    total = ["not known yet"] * 3 if status.projected is None else map(seconds, status.projected)
    return list(zip(kinds, map(seconds, status.spent), total, strict=True))


def seconds(value: float) -> str:
    """e.g. `42 s`, `3.5 min`, `12.3 h`."""
    if value < 100:
        return f"{value:.0f} s"
    return f"{value / 60:.1f} min" if value < 6000 else f"{value / 3600:.1f} h"


class StageCost(NamedTuple):
    """Processor and GPU time of some stages, in seconds."""

    cpu: float
    gpu: float
    """Wall seconds of training steps times the GPUs held; 0 on processors."""
    wall: float
    """Summed over the stages, whatever ran side by side."""


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """A whole sweep at a moment."""

    training: dict[str, StageStatus]
    """By point, likewise below."""
    evaluation: dict[str, StageStatus]
    others: tuple[StageStatus, ...]
    """Stages that serve all points, e.g. fetching data."""
    states: dict[str, int]
    """Stages by state."""
    runs: str
    """How many runs are done, in words."""
    spent: StageCost
    costs: dict[str, StageCost]
    """Of the trained points, so far."""
    projected: StageCost | None
    """Of the whole sweep: the stages that are not done at the mean cost of the done ones of their
    kind; None where a kind has none done yet."""
    failures: tuple[tuple[StageStatus, tuple[str, ...]], ...]
    """Stages that failed, with the last lines of their logs; none where one left no log."""
    damaged: tuple[StageStatus, ...]
    running: bool
    """Whether a driver is alive or a stage runs."""

    @property
    def bar(self) -> tuple[int, int, str]:
        """Stages that are done, all stages, and both in words with the time that is left at as
        many stages at once as run now."""
        done, total = self.states["done"], sum(self.states.values())
        text = f"{self.runs}; {done} of {total} stages"
        at_once = self.states.get("running", 0)
        if self.projected is not None and at_once:
            remaining = (self.projected.wall - self.spent.wall) / at_once
            text += f", about {seconds(remaining)} left at {at_once} at once"
        return done, total, text


def progress(results: SweepResults) -> SweepProgress:
    """Read from the files alone, as `fgrpo-bench sweep status` does."""
    stages = {stage.name: stage for stage in stage_statuses(results)}
    folder = results.paths.folder
    by_point = {
        p.point_id: (_name(results, p.train), _name(results, p.evaluate)) for p in results.points
    }
    gpus = {by_point[point][0]: spent for point, spent in gpu_seconds(results).items()}
    cost_by_stage = {name: _cost(StagePaths(folder / name), gpus.get(name, 0.0)) for name in stages}
    point_stages = {name for pair in by_point.values() for name in pair}
    states = Counter(stage.state for stage in stages.values())
    return SweepProgress(
        training={p: stages[names[0]] for p, names in by_point.items()},
        evaluation={p: stages[names[1]] for p, names in by_point.items()},
        others=tuple(stage for name, stage in stages.items() if name not in point_stages),
        states={name: states[name] for name in SHOWN_STATES if states[name] or name != "damaged"},
        runs=_runs(results, stages.values()),
        spent=_sum_costs(cost_by_stage.values()),
        costs={
            p: _sum_costs(cost_by_stage[name] for name in names) for p, names in by_point.items()
        },
        projected=projected(stages, cost_by_stage),
        failures=tuple(
            (stage, _last_lines(StagePaths(folder / stage.name)))
            for stage in stages.values()
            if stage.state == "failed"
        ),
        damaged=tuple(stage for stage in stages.values() if stage.state == "damaged"),
        running=states["running"] > 0 or living_driver(results.paths) is not None,
    )


def count_runs(results: SweepResults) -> tuple[str, dict[State, int]]:
    """How many runs are done, in words, and stages by state, those states alone that there are."""
    stages = stage_statuses(results)
    states = Counter(stage.state for stage in stages)
    return _runs(results, stages), {state: states[state] for state in SHOWN_STATES if states[state]}


def _runs(results: SweepResults, stages: Iterable[StageStatus]) -> str:
    """As `status` says it, e.g. `24 of 24 runs done`."""
    n_done, n_runs = runs_done(read_plan(results.paths).points, stages)
    return f"{n_done} of {n_runs} run{'s' * (n_runs != 1)} done"


def projected(
    stages: Mapping[str, StageStatus], cost_by_stage: Mapping[str, StageCost]
) -> StageCost | None:
    """What all stages will have cost; see SweepProgress.projected. Both by name of the stage."""
    done: dict[str, list[StageCost]] = {}
    for name, stage in stages.items():
        if stage.state == "done":
            done.setdefault(stage.kind, []).append(cost_by_stage[name])
    costs = []
    for name, stage in stages.items():
        finished = done.get(stage.kind)
        if stage.state == "done":
            costs.append(cost_by_stage[name])
        elif not finished:
            return None
        else:
            costs.append(StageCost(*(total / len(finished) for total in _sum_costs(finished))))
    return _sum_costs(costs)


def _by_cell(results: SweepResults) -> dict[str, list[PointResult]]:
    """Points of every cell."""
    points_by_cell: dict[str, list[PointResult]] = {}
    for point in results.points:
        points_by_cell.setdefault(frame_key(point)[0], []).append(point)
    return points_by_cell


def _last_lines(stage: StagePaths) -> tuple[str, ...]:
    """The end of the newest attempt's log."""
    lines = [line for log in logs(stage)[-1:] for line in tail(log) if line.strip()]
    return tuple(lines[-LAST_LINES:])


def _name(results: SweepResults, stage: StagePaths) -> str:
    return str(stage.folder.relative_to(results.paths.folder))


def _cost(stage: StagePaths, gpu: float) -> StageCost:
    try:
        marker = read_marker(stage)
    except (FileNotFoundError, ValueError):  # a stage with a damaged marker is shown as damaged
        return StageCost(0.0, gpu, 0.0)
    return StageCost(marker.cpu_seconds or 0.0, gpu, marker.wall_seconds or 0.0)


def _sum_costs(costs: Iterable[StageCost]) -> StageCost:
    return StageCost(*map(sum, zip(StageCost(0.0, 0.0, 0.0), *costs, strict=True)))


def _steps_chart(results: SweepResults, name: str) -> tuple[Chart, ...]:
    """The curve of one of NUMBERS by training step; none where no run has trained a step."""
    data = steps_by_cell(results, name)
    if data.is_empty():
        return ()
    number, width = NUMBERS[name], max(data["steps"].to_list())
    columns = ("tokens", "seconds") if name == TOKENS_PER_SECOND else (name,)
    return (
        Chart(
            name="steps",
            title=f"Training: {number.column}",
            direct="end",
            height=330,
            figure=charts.figure(
                _lines(results, data, name, charts.short, mode="lines"),
                x="training step",
                y=number.label,
                yaxis={"tickformat": ".1%"} if "%" in number.form else {},
            ),
            data=data,
            call=charts.library_call(
                charts.METRICS_CALL, results.paths, selected=f".select{('step', *columns)}"
            ),
            note="Mean over the seeds that have come to a step"
            + ("." if width == 1 else f", and over {width} steps at a time.")
            + (f" {number.better.capitalize()} is better." if number.better else ""),
        ),
    )


def _learning_chart(results: SweepResults) -> tuple[Chart, ...]:
    """The success rate on held-out problems while training goes on."""
    data = _learning_by_cell(results)
    if data.is_empty():
        return ()
    return (
        Chart(
            name="learning",
            title="Held-out success rate while training",
            direct="end",
            height=330,
            figure=charts.figure(
                _lines(results, data, "eval_pass_at_1", charts.percent),
                x="training step",
                y="held-out pass@1, %",
            ),
            data=data,
            call=charts.library_call(
                charts.METRICS_CALL, results.paths, selected='.drop_nulls("eval_pass_at_1")'
            ),
            note="Mean over seeds of the small evaluations during training.",
        ),
    )


def _lines(
    results: SweepResults,
    data: pl.DataFrame,
    column: str,
    rounded: Callable[[Sequence[float | None]], list[float | None]],
    **more: Any,
) -> list[dict[str, Any]]:
    """A line a cell by step, of the rows that it has in `data`."""
    cells = cells_of(results)
    styles: dict[str, CellStyle] = charts.styles_by_cell(cells)
    traces = []
    for name, cell in cells.items():
        rows = data.filter(cell=name)
        if len(rows):
            x, y = rows["step"].to_list(), rounded(rows[column].to_list())
            traces.append(charts.line(x, y, name=cell.label, style=styles[name], **more))
    return traces


def _metrics(results: SweepResults, *_: object) -> FileState:
    return stamp(
        path
        for point in results.points
        for path in (point.train.metrics, point.train.step_rows, point.train.done)
    )


@remembered(_metrics)
def metrics(results: SweepResults) -> pl.DataFrame:
    """What all runs have told so far: point_id, cell, step and some columns of tables.METRICS, by
    rising step within a run. Each table is read once for all that a page makes of them."""
    runs = [point for point in results.points if point.cell is not None]
    tables = [point.metrics().sort("step") for point in runs]
    run = np.repeat(np.arange(len(runs)), [len(table) for table in tables])
    names = {"point_id": [p.point_id for p in runs], "cell": [frame_key(p)[0] for p in runs]}
    return pl.concat([METRICS.to_frame(), *tables]).select(
        *(pl.Series(name, values, pl.String).gather(run) for name, values in names.items()),
        *("step", *_VALUES),
    )


@remembered(_metrics)
def gpu_seconds(results: SweepResults) -> dict[str, float]:
    """By point_id of the runs that have told a step: wall seconds of the steps times the GPUs
    held."""
    spent = (pl.col("seconds") * pl.col("gpus")).sum()
    return dict(metrics(results).group_by("point_id").agg(spent).iter_rows())


@remembered(_metrics)
def _learning_by_cell(results: SweepResults) -> pl.DataFrame:
    """Evaluations during training so far: cell, step, LEARNING as means over `seeds` runs."""
    return (
        metrics(results)
        .lazy()
        .drop_nulls(LEARNING[0])
        .group_by("cell", "step")
        .agg(pl.col(LEARNING).mean(), seeds=pl.len())
        .sort("cell", "step")
        .collect()
    )


@remembered(_metrics)
def steps_by_cell(results: SweepResults, name: str) -> pl.DataFrame:
    """One of watch.NUMBERS by training step so far: cell, step, its mean over `seeds` runs, and of
    how many `steps`; for long runs that is several, of which `step` is the last.

    Rows without a value are left out.
    """
    value = pl.col(name)
    if name == TOKENS_PER_SECOND:
        tokens = pl.col("tokens").diff().fill_null(pl.col("tokens")).over("point_id")
        value = (tokens / pl.col("seconds")).alias(name)
    by_run = metrics(results).select("cell", "step", value).drop_nulls()
    # Rounded up, so that the last steps have a place too.
    width = -(-max(by_run["step"].to_list(), default=1) // MOST_PLACES)
    return (
        by_run.lazy()
        .group_by("cell", "step")
        .agg(pl.col(name).mean(), seeds=pl.len())
        .group_by("cell", block=(pl.col("step") - 1) // width)
        .agg(pl.col("step").max(), pl.col(name).mean(), pl.col("seeds").max(), steps=pl.len())
        .sort("cell", "step")
        .drop("block")
        .collect()
    )
