"""Where a sweep stands: states, progress, what it cost so far and may still cost, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dashboards.queries.training import gpu_seconds
from fgrpo_bench.analysis.checkpoints import key_of
from fgrpo_bench.kinds import remade
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.attempts import logs, tail
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import StageStatus, State, driver_of, read_stages

SHOWN_STATES: tuple[State, ...] = ("done", "running", "waiting", "stopped", "failed", "damaged")
LAST_LINES = 12
"""Lines of a failed stage's log that are shown."""


class Cost(NamedTuple):
    """Processor and GPU time of some stages, in seconds."""

    cpu: float
    gpu: float
    """Wall seconds of training steps times the GPUs held; 0 on processors."""
    wall: float
    """Summed over the stages, whatever ran side by side."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A whole sweep at a moment."""

    training: dict[str, StageStatus]
    """By point, likewise below."""
    evaluation: dict[str, StageStatus]
    others: tuple[StageStatus, ...]
    """Stages that serve all points, e.g. fetching data."""
    states: dict[str, int]
    """Stages by state."""
    spent: Cost
    costs: dict[str, Cost]
    """Of the trained points, so far."""
    projected: Cost | None
    """Of the whole sweep: the stages that are not done at the mean cost of the done ones of their
    kind; None where a kind has none done yet."""
    failures: tuple[tuple[StageStatus, tuple[str, ...]], ...]
    """Stages that failed, with the last lines of their logs; none where one left no log."""
    damaged: tuple[StageStatus, ...]
    running: bool
    """Whether a driver is alive or a stage runs."""


def progress(results: SweepResults) -> Progress:
    """Read from the files alone, as `python -m sweeps status` does."""
    stages = {stage.name: stage for stage in _stages(results)}
    folder = results.paths.folder
    by_point = {
        p.point_id: (_name(results, p.train), _name(results, p.evaluate)) for p in results.points
    }
    gpus = {by_point[point][0]: spent for point, spent in gpu_seconds(results).items()}
    own = {name: _cost(StagePaths(folder / name), gpus.get(name, 0.0)) for name in stages}
    of_points = {name for pair in by_point.values() for name in pair}
    states = Counter(stage.state for stage in stages.values())
    return Progress(
        training={p: stages[names[0]] for p, names in by_point.items()},
        evaluation={p: stages[names[1]] for p, names in by_point.items()},
        others=tuple(stage for name, stage in stages.items() if name not in of_points),
        states={name: states[name] for name in SHOWN_STATES if states[name] or name != "damaged"},
        spent=_sum(own.values()),
        costs={p: _sum(own[name] for name in names) for p, names in by_point.items()},
        projected=projected(stages, own),
        failures=tuple(
            (stage, last_lines(StagePaths(folder / stage.name)))
            for stage in stages.values()
            if stage.state == "failed"
        ),
        damaged=tuple(stage for stage in stages.values() if stage.state == "damaged"),
        running=states["running"] > 0 or driver_of(results.paths) is not None,
    )


def states_of(results: SweepResults) -> dict[State, int]:
    """Stages by state, those states alone that there are."""
    states = Counter(stage.state for stage in _stages(results))
    return {state: states[state] for state in SHOWN_STATES if states[state]}


def _stages(results: SweepResults) -> list[StageStatus]:
    plan = read_plan(results.paths)
    return read_stages(results.paths, plan["stages"], remade=remade)


def projected(stages: Mapping[str, StageStatus], own: Mapping[str, Cost]) -> Cost | None:
    """What all stages will have cost; see Progress.projected. stages, own: by name."""
    done: dict[str, list[Cost]] = {}
    for name, stage in stages.items():
        if stage.state == "done":
            done.setdefault(stage.kind, []).append(own[name])
    costs = []
    for name, stage in stages.items():
        known = done.get(stage.kind)
        if stage.state == "done":
            costs.append(own[name])
        elif not known:
            return None
        else:
            costs.append(Cost(*(total / len(known) for total in _sum(known))))
    return _sum(costs)


def by_cell(results: SweepResults) -> dict[str, list[PointResult]]:
    """Points of every cell."""
    points_by_cell: dict[str, list[PointResult]] = {}
    for point in results.points:
        points_by_cell.setdefault(key_of(point)[0], []).append(point)
    return points_by_cell


def last_lines(stage: StagePaths) -> tuple[str, ...]:
    """The end of the newest attempt's log."""
    lines = [line for log in logs(stage)[-1:] for line in tail(log) if line.strip()]
    return tuple(lines[-LAST_LINES:])


def _name(results: SweepResults, stage: StagePaths) -> str:
    return str(stage.folder.relative_to(results.paths.folder))


def _cost(stage: StagePaths, gpu: float) -> Cost:
    try:
        marker = read_marker(stage)
    except (FileNotFoundError, ValueError):  # a stage with a damaged marker is shown as damaged
        return Cost(0.0, gpu, 0.0)
    return Cost(marker.cpu_seconds or 0.0, gpu, marker.wall_seconds or 0.0)


def _sum(costs: Iterable[Cost]) -> Cost:
    return Cost(*map(sum, zip(Cost(0.0, 0.0, 0.0), *costs, strict=True)))
