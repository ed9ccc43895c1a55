"""Where stages stand, from their files alone: what was tried of them, locks and progress.

The reader's side of what `sweeps` writes; status on a terminal and the dashboard both ask here. A
stage is done when its marker covers what the plan asks for; else the note of its last attempt, its
lock and its progress file tell. A stage is damaged that was done once and is not any more, or whose
files are another stage's: that is its own affair and no other stage's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import noop, read_record, readable_record
from fgrpo_bench.stages.attempts import Note, attempts, count_attempts
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.locks import is_locked, lock_holder
from fgrpo_bench.stages.markers import damage, fingerprint_mismatch, is_done, read_marker
from fgrpo_bench.stages.plan import PointRecord, StageRecord
from fgrpo_bench.stages.watch import Progress, warnings

State = Literal["done", "running", "waiting", "failed", "stopped", "damaged"]
RERUN_HINT = "makes it again"
"""What `run` does about a missing file, whatever the kind of its stage."""


def driver_id(holder: dict[str, Any]) -> str:
    """One driver among all that ever ran here, from what its lock says of it."""
    return f"{holder.get('host')}:{holder.get('pid')}:{holder.get('since')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatus:
    """One stage as its files tell it."""

    name: str
    kind: str
    point_id: str
    state: State
    attempts: int
    step: int | None = None
    """Progress as the stage last told it; None where it has told none, likewise below."""
    of: int | None = None
    eta_seconds: float | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    """Of the last step of a training run (fgrpo_bench.stages.watch.NUMBERS)."""
    warnings: list[str] = field(default_factory=list)
    """About these, while the run is not done."""
    why: str | None = None
    """What is damaged, and the remedy; None for every other state."""


def living_driver(paths: RunPaths) -> dict[str, Any] | None:
    """pid, host and since of the living driver; None where there is none."""
    return lock_holder(paths.driver_lock) if is_locked(paths.driver_lock) else None


def runs_done(points: Iterable[PointRecord], stages: Iterable[StageStatus]) -> tuple[int, int]:
    """Training runs of plan.json all of whose stages are done, and how many it has: what every view
    counts. The base models are no runs."""
    undone = {stage.name for stage in stages if stage.state != "done"}
    runs = [point for point in points if point.algorithm is not None]
    unfinished = [
        point
        for point in runs
        if point.train in undone or any(at.evaluate in undone for at in point.checkpoints)
    ]
    return len(runs) - len(unfinished), len(runs)


def read_stages(
    paths: RunPaths,
    records: Iterable[StageRecord],
    warn: Callable[[str], None] = noop,
    rerun_hint: Callable[[str], str] = lambda _: RERUN_HINT,
) -> list[StageStatus]:
    """Status of stages of plan.json.

    warn: told of damaged notes of attempts. rerun_hint: what `run` does about a missing file,
    by kind.
    """
    holder = living_driver(paths)
    driver = driver_id(holder) if holder is not None else None
    statuses = []
    for record in records:
        stage = StagePaths(paths.folder / record.name)
        done = is_done(stage, fingerprint=record.fingerprint, target=record.target)
        state: State = "done" if done else _state(stage, attempts(stage, warn), driver)
        why = None if state == "running" else describe_damage(stage, record, rerun_hint, done=done)
        state = state if why is None else "damaged"
        progress = read_progress(stage) if state != "waiting" else None
        step = None if progress is None else progress.step
        numbers = {} if progress is None else progress.numbers
        statuses.append(
            StageStatus(
                name=record.name,
                kind=record.kind,
                point_id=record.point_id,
                state=state,
                attempts=count_attempts(stage),
                step=step,
                of=None if progress is None else progress.of,
                eta_seconds=progress.eta_seconds if progress and state == "running" else None,
                numbers=numbers,
                warnings=[] if state == "done" else warnings(numbers, step=step),
                why=why,
            )
        )
    return statuses


def describe_damage(
    stage: StagePaths, record: StageRecord, rerun_hint: Callable[[str], str], *, done: bool
) -> str | None:
    """What is wrong with a stage's files, in words; None where nothing is. rerun_hint: as
    `read_stages` takes it."""
    faults = {} if done else damage(stage, fingerprint=record.fingerprint)
    if stage.done.name in faults:
        return faults[stage.done.name]
    if faults:
        return (
            "; ".join(f"{stage.folder / name} {reason}" for name, reason in faults.items())
            + f": `run` {rerun_hint(record.kind)}"
        )
    return _foreign(stage, record, done=done)


def _foreign(stage: StagePaths, record: StageRecord, *, done: bool) -> str | None:
    """done: its marker is its own, which was looked at."""
    if not stage.done.exists():
        return None
    try:
        recorded: dict[Path, str]
        recorded = {} if done else {stage.done: read_marker(stage).fingerprint}
        for name in record.target.get("graders", {}):
            manifest = stage.benchmark(name).manifest
            if manifest.exists():
                recorded[manifest] = read_record(manifest, DrawsRecord).fingerprint
    except ValueError as error:
        return str(error)
    faults = (
        fingerprint_mismatch(path, fingerprint, fingerprint=record.fingerprint)
        for path, fingerprint in recorded.items()
    )
    return next(filter(None, faults), None)


def _state(stage: StagePaths, tried: Sequence[Note], driver: str | None) -> State:
    if not tried:
        return "waiting"
    last = tried[-1]
    ending = last.outcome
    if last.driver is None:  # by the word of a job, which may have died without another one
        if ending is None:
            return "running"
        return cast(State, ending) if ending in get_args(State) else "waiting"
    is_running_here = last.driver == driver
    if ending is None and (is_running_here or is_locked(stage.lock)):
        return "running"
    if driver is not None and not is_running_here:
        return "waiting"  # an earlier driver's attempt; this driver will make the next
    if ending is None or ending == "stopped":
        return "stopped"
    return "failed" if ending == "failed" else "waiting"


def read_progress(stage: StagePaths) -> Progress | None:
    """What the stage last told; None where it told nothing that can be read."""
    return readable_record(stage.progress, Progress)
