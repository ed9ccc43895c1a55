"""How far the estimate of the time left was off, of finished sweeps under a run root
(FGRPO_RUN_ROOT, else runs): at each fifth of the time, by their journals' own times, and played
again by processor seconds, without what else the machine did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

from fgrpo_bench.kinds import Stage
from fgrpo_bench.runs import default_root, find_runs
from fgrpo_bench.stages.attempts import Attempts
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.markers import machine_load
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from tests.support.replay import PARTS, Spans, errors, played

NEXT = 2.0
"""Seconds in which one stage may follow another in a worker: notes have whole seconds."""


def measure() -> Iterator[str]:
    """A line a sweep and way."""
    root = default_root().absolute()
    runs = [run for folder in sorted(root.glob("*/")) for run in find_runs(root, folder.name)]
    finished = [run for run in runs if _is_finished(run)]
    if not finished:
        yield f"no finished sweep under {root}: run one, or name another folder by FGRPO_RUN_ROOT"
    for run in finished:
        stages, notes = _stages(run), Attempts(run)
        tried = {stage.name: notes.of(stage.name) for stage in stages}
        markers = {s.name: read_json(StagePaths(run.folder / s.name).done) for s in stages}
        seconds = {name: float(marker["cpu_seconds"]) for name, marker in markers.items()}
        where = f"{run.sweep} {run.experiment} {run.version}"
        yield _line(where, "processor seconds, 2 workers", stages, played(stages, seconds, 2), 2)
        if all(len(each) == 1 and "wall_seconds" in each[0] for each in tried.values()):
            begun = {n: datetime.fromisoformat(each[0]["begun"]).timestamp()
                     for n, each in tried.items()}  # fmt: skip
            spans = {n: (begun[n], begun[n] + tried[n][0]["wall_seconds"]) for n in begun}
            workers = _at_once(spans)
            own = [stage.name for stage in stages if stage.environment == "base"]
            measured = {name: machine_load(markers[name]) for name in own}
            loads = {name: each for name, each in measured.items() if each is not None}
            yield _line(where, f"journal, {workers} workers", stages, spans, workers, loads)


def _line(
    where: str,
    how: str,
    stages: list[Stage],
    spans: Spans,
    workers: int,
    loads: Mapping[str, float] = MappingProxyType({}),
) -> str:
    off = errors(stages, spans, workers, loads)
    told = ", ".join(f"{part:.0%}: {each:+.0%}" for part, each in zip(PARTS, off, strict=True))
    return f"{where} ({how}): {told}"


def _is_finished(run: RunPaths) -> bool:
    names = [stage["name"] for stage in read_json(run.plan)["stages"]]
    paths = [StagePaths(run.folder / name) for name in names]
    return all(each.done.exists() and "cpu_seconds" in read_json(each.done) for each in paths)


def _stages(run: RunPaths) -> list[Stage]:
    """As they were planned, with what their specs say."""
    return [
        Stage(
            name=each["name"],
            kind=each["kind"],
            fingerprint=each["fingerprint"],
            target=each["target"],
            spec=read_json(StagePaths(run.folder / each["name"]).spec),
            needs=tuple(each["needs"]),
            point_id=each["point_id"],
            environment=each.get("environment", "base"),
            step=0 if each["point_id"].startswith("base-") else None,
        )
        for each in read_json(run.plan)["stages"]
    ]


def _at_once(spans: Spans) -> int:
    """Most stages that were at work together."""
    moments = [(begun + NEXT, 1) for begun, _ in spans.values()]
    moments += [(ended, -1) for _, ended in spans.values()]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


if __name__ == "__main__":
    for line in measure():
        print(json.dumps({"estimate of the time left": line}))
