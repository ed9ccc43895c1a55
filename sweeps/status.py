"""Where a sweep stands, from its files alone: no configuration is composed, nothing is asked.

A stage is done when its marker covers what the plan asks for; else the ledger's last line about it,
its lock and its progress file tell. Imports stay light: this answers in a blink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fgrpo_bench.files import is_locked, lock_holder, read_json
from fgrpo_bench.paths import RunPaths, StagePaths
from fgrpo_bench.stage import is_done
from sweeps import ledger
from sweeps.slurm.notes import attempts
from sweeps.text import counted, duration, table

State = Literal["done", "running", "waiting", "failed", "stopped"]


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
    reward: float | None = None
    eta_seconds: float | None = None


def on_slurm(paths: RunPaths) -> bool:
    """Whether the sweep was last run on SLURM."""
    if not paths.submissions.exists():
        return False
    profile = read_json(paths.sweep_json)["declaration"]["profile"]
    return bool(profile["dispatcher"] == "slurm")


def driver_of(paths: RunPaths) -> dict[str, Any] | None:
    """pid, host and since of the living driver; None where there is none."""
    return lock_holder(paths.driver_lock) if is_locked(paths.driver_lock) else None


def read_stages(paths: RunPaths, records: Iterable[Mapping[str, Any]]) -> list[StageStatus]:
    """Status of stages given as in plan.json: name, kind, point_id, fingerprint, target."""
    events = ledger.read(paths.ledger)
    attempts = Counter(event.stage for event in events if event.event == "start")
    last = ledger.latest(events)
    holder = driver_of(paths)
    driver = ledger.driver_id(holder) if holder is not None else None
    found = []
    for record in records:
        stage = StagePaths(paths.folder / record["name"])
        state = _state(stage, record, last.get(record["name"]), driver)
        progress = read_progress(stage) if state != "waiting" else {}
        found.append(
            StageStatus(
                name=record["name"],
                kind=record["kind"],
                point_id=record["point_id"],
                state=state,
                attempts=attempts[record["name"]],
                step=progress.get("step"),
                of=progress.get("of"),
                reward=progress.get("reward"),
                eta_seconds=progress.get("eta_seconds") if state == "running" else None,
            )
        )
    return found


def _state(
    stage: StagePaths, record: Mapping[str, Any], last: ledger.Event | None, driver: str | None
) -> State:
    if is_done(stage, fingerprint=record["fingerprint"], target=record["target"]):
        return "done"
    if last is None:
        return _noted(stage)
    of_this_driver = last.driver == driver
    if last.event == "start" and (of_this_driver or is_locked(stage.lock)):
        return "running"
    if driver is not None and not of_this_driver:
        return "waiting"  # an earlier driver's attempt; this driver will make the next
    if last.event == "start" or last.outcome == "stopped":
        return "stopped"
    return "failed" if last.outcome == "failed" else "waiting"


def _noted(stage: StagePaths) -> State:
    """By the word of the last job that had the stage, where one had."""
    notes = attempts(stage)
    if not notes:
        return "waiting"
    outcome: State | None = notes[-1].get("outcome")
    if outcome is None:
        return "running"
    return outcome if outcome in get_args(State) else "waiting"


def read_progress(stage: StagePaths) -> dict[str, Any]:
    """What the stage last told; empty where it told nothing that can be read."""
    try:
        progress = read_json(stage.progress)
    except (OSError, ValueError):
        return {}
    return progress if isinstance(progress, dict) else {}


def is_point_done(stages: Iterable[StageStatus]) -> bool:
    """Whether everything that a point needs by itself is done."""
    return all(stage.state == "done" for stage in stages)


def report(paths: RunPaths) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words."""
    plan = read_json(paths.plan)
    stages = read_stages(paths, plan["stages"])
    by_name = {stage.name: stage for stage in stages}
    by_point = {
        cell["point_id"]: [
            by_name[name]
            for name in (
                cell["train"],
                *(each["evaluate"] for each in cell.get("checkpoints", [cell])),
            )
        ]
        for cell in plan["points"]
    }
    of_points = {stage.name for own in by_point.values() for stage in own}
    by_point |= {stage.name: [stage] for stage in stages if stage.name not in of_points}
    trained = [cell["point_id"] for cell in plan["points"] if cell["algorithm"] is not None]
    counts = Counter(stage.state for stage in stages)
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "folder": str(paths.folder),
        "driver": driver_of(paths),
        "points_done": sum(is_point_done(by_point[point_id]) for point_id in trained),
        "points_total": len(trained),
        "stages": {state: counts[state] for state in get_args(State)},
        "points": [
            {"point_id": point_id, "stages": [_as_json(stage) for stage in of_point]}
            for point_id, of_point in by_point.items()
        ],
    }


def first_undone(states: Sequence[State]) -> State:
    """The state of several stages in a word: done where all are."""
    return next((state for state in states if state != "done"), "done")


def _as_json(stage: StageStatus) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in StageStatus.__slots__ if name != "point_id"}


def render(found: Mapping[str, Any]) -> str:
    """The answer as a table, a row a point, and a summary."""
    rows = []
    for point in found["points"]:
        making, *judging = point["stages"]
        active = next((s for s in point["stages"] if s["state"] in ("running", "stopped")), making)
        reward, eta = active.get("reward"), active.get("eta_seconds")
        rows.append(
            [
                point["point_id"],
                making["state"],
                first_undone([stage["state"] for stage in judging]) if judging else "",
                f"{active['step']}/{active['of']}" if active.get("of") else "",
                "" if reward is None else f"{reward:.3f}",
                "" if eta is None else duration(eta),
                " + ".join(str(stage["attempts"]) for stage in point["stages"]),
            ]
        )
    header = ["point", "train", "evaluate", "step", "reward", "left", "attempts"]
    driver = found["driver"]
    counts = ", ".join(f"{count} {state}" for state, count in found["stages"].items())
    return "\n".join(
        [
            f"{found['sweep']}  experiment={found['experiment']}  version={found['version']}",
            f"{found['folder']}",
            "",
            table(header, rows),
            "",
            f"{found['points_done']} of {counted(found['points_total'], 'point')} done; "
            f"stages: {counts}",
            f"driver: process {driver.get('pid')} on {driver.get('host')} since "
            f"{driver.get('since')}"
            if driver
            else "no driver is running",
        ]
    )
