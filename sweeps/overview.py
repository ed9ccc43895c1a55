"""How a running sweep stands, in numbers: what the views show."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from fgrpo_bench.kinds import KINDS, Stage, train
from fgrpo_bench.stages.paths import StagePaths
from sweeps import cost
from sweeps.pool import Pool
from sweeps.schedule import wall_seconds
from sweeps.status import read_progress


@dataclass(frozen=True, kw_only=True)
class Running:
    """One worker at work."""

    title: str
    """e.g. `training grpo-n8-g0.5-s11`."""
    elapsed_seconds: float
    step: int | None
    """None before the first word of the worker, likewise below."""
    of: int | None
    reward: float | None
    eta_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole sweep at a moment."""

    points_done: int
    points_total: int
    stages_done: int
    stages_total: int
    failed: int
    running: tuple[Running, ...]
    eta_seconds: float
    """Until everything that can still be done is done."""


def title(stage: Stage) -> str:
    """A stage in words."""
    return f"{KINDS[stage.kind].noun} {stage.point_id}"


def overview(pool: Pool) -> Overview:
    """Counts, the workers' own words and the time left."""
    running = tuple(_running(pool, name) for name in pool.running)
    by_point: dict[str, list[str]] = defaultdict(list)
    for stage in pool.stages:
        by_point[stage.point_id].append(stage.name)
    trained = {stage.point_id for stage in pool.stages if stage.kind == train.NAME}
    return Overview(
        points_done=sum(pool.done.issuperset(by_point[point_id]) for point_id in trained),
        points_total=len(trained),
        stages_done=len(pool.done),
        stages_total=len(pool.stages),
        failed=len(pool.failures),
        running=running,
        eta_seconds=_eta(pool, running),
    )


def _running(pool: Pool, name: str) -> Running:
    attempt = pool.running[name]
    progress = read_progress(StagePaths(pool.paths.folder / name))
    elapsed = time.monotonic() - attempt.begun
    return Running(
        title=title(attempt.stage),
        elapsed_seconds=elapsed,
        step=progress.get("step"),
        of=progress.get("of"),
        reward=progress.get("reward"),
        eta_seconds=progress.get("eta_seconds"),
    )


def _eta(pool: Pool, running: tuple[Running, ...]) -> float:
    """The schedule of what is left, at the speed of what was done here."""
    kinds = {stage.name: stage.kind for stage in pool.stages}
    factors = cost.calibration(
        (kinds[name], pool.seconds[name], seconds) for name, seconds in pool.walls.items()
    )
    blocked = {failure.stage.name for failure in pool.failures}
    left: dict[str, Stage] = {name: each.stage for name, each in pool.running.items()}
    for name, stage in pool.waiting.items():
        if not blocked.intersection(stage.needs):
            left[name] = stage
    seconds = {name: cost.scaled(pool.seconds[name], kinds[name], factors) for name in left}
    for name, worker in zip(pool.running, running, strict=True):
        expected = max(seconds[name] - worker.elapsed_seconds, 1.0)
        seconds[name] = expected if worker.eta_seconds is None else worker.eta_seconds
    return wall_seconds(left.values(), seconds, pool.workers)
