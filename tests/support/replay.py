"""A sweep that was run, played again through the estimate of the time that is left."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from fgrpo_bench.kinds import Stage
from sweeps import schedule

PARTS = (0.2, 0.4, 0.6, 0.8)
"""Parts of a sweep's time at which its estimates are looked at."""
Spans = Mapping[str, tuple[float, float]]
"""When each stage began and ended, in seconds, by name."""


def played(stages: Sequence[Stage], seconds: Mapping[str, float], workers: int) -> Spans:
    """The spans of stages that take so long, as the pool starts them on an idle machine."""
    waiting = schedule.in_order(stages, {s.name: schedule.cpu_seconds(s) for s in stages})
    spans: dict[str, tuple[float, float]] = {}
    done: set[str] = set()
    running: list[tuple[float, str]] = []
    clock = 0.0
    while waiting or running:
        for stage in list(islice(schedule.ready(waiting, done), workers - len(running))):
            del waiting[stage.name]
            spans[stage.name] = (clock, clock + seconds[stage.name])
            heapq.heappush(running, (spans[stage.name][1], stage.name))
        clock, ended = heapq.heappop(running)
        done.add(ended)
    return spans


def errors(
    stages: Sequence[Stage],
    spans: Spans,
    workers: int,
    loads: Mapping[str, float] = MappingProxyType({}),
) -> list[float]:
    """How far the estimate was off at each of PARTS: 0.1 is 10% too long.

    A worker is taken to know its own end once it may tell (schedule.TOLD_SECONDS); the report and
    the sync behind the last stage take the seconds that the estimate says. loads: wall over
    processor seconds, by name.
    """
    begun, end = min(b for b, _ in spans.values()), max(e for _, e in spans.values())
    estimated = {stage.name: schedule.cpu_seconds(stage) for stage in stages}
    kinds = {stage.name: stage.kind for stage in stages}
    off = []
    for part in PARTS:
        now = begun + part * (end - begun)
        done = sorted((e, name) for name, (_, e) in spans.items() if e <= now)
        names = {name for _, name in done}
        walls = schedule.at_present_load(
            {n: spans[n][1] - spans[n][0] for _, n in done},
            {n: loads[n] for _, n in done if n in loads},
        )
        measured = [(kinds[n], estimated[n], wall) for n, wall in walls.items()]
        at_work = {
            name: schedule.AtWork(
                elapsed=now - b, left=e - now if now - b >= schedule.TOLD_SECONDS else None
            )
            for name, (b, e) in spans.items()
            if b <= now < e
        }
        left = [stage for stage in stages if stage.name not in names]
        told = schedule.seconds_left(left, estimated, measured, at_work, workers)
        off.append(told / (end - now + schedule.FINISH_SECONDS) - 1)
    return off
