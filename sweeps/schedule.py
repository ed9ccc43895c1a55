"""What stages cost in processor seconds, in which order they run, and how long that takes: pure
functions.

The constants (of each kind, fgrpo_bench.kinds) hold for the embedded engine on one thread of a
common server processor. They order the stages and tell minutes from hours; they promise nothing to
the second, and are scaled by what is done here.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fgrpo_bench.kinds import KINDS, Stage

TOLD_SECONDS = 10.0
"""After so long a worker knows how fast it is."""
FINISH_SECONDS, FINISHED_STAGE_SECONDS = 10.0, 0.1
"""Of the report and the sync behind the last stage, and how much longer they take for each stage of
the sweep."""
START_SECONDS = 2.5
"""Start of a stage: interpreter, imports, loading a checkpoint."""
PLACED_START_SECONDS = 120.0
"""Of one by Ray or vLLM on processors, assumed."""


def cpu_seconds(stage: Stage) -> float:
    """Processor seconds of a whole stage on one thread, by its kind's constants; its start alone
    where nobody can tell."""
    start = START_SECONDS if stage.environment == "base" else PLACED_START_SECONDS
    return start + (KINDS[stage.kind].cost(stage) or 0.0)


Measured = tuple[str, float, float]
"""Kind, estimated seconds and measured seconds of a stage."""


def calibration(measured: Iterable[Measured]) -> dict[str, float]:
    """By kind, the factor that the constants are off by here.

    measured: of stages that are done. The median is taken, because a stage that was interrupted
    measured only its last attempt. All count: stages of one method follow each other, and a method
    may be slow.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for kind, estimated, seconds in measured:
        ratios[kind].append(seconds / estimated)
    return {kind: median(values) for kind, values in ratios.items()}


def at_mean_load(walls: Mapping[str, float], loads: Mapping[str, float]) -> dict[str, float]:
    """Wall seconds that stages would take under the mean load so far, by name: a kind's only one
    may have run while the machine did much else, or nothing. What it will do is not known, and the
    load of the last stages alone says less of hours than the mean does.

    walls: of stages that are done. loads: wall over processor seconds of those whose worker knows
    both; the others stay as they are.
    """
    if not loads:
        return dict(walls)
    mean = sum(walls[name] for name in loads) / sum(walls[name] / loads[name] for name in loads)
    return {name: wall * mean / loads.get(name, mean) for name, wall in walls.items()}


def scaled(seconds: float, kind: str, factors: dict[str, float]) -> float:
    """Seconds times the kind's factor; a kind that was not measured takes the mean of the others,
    since a slow machine is slow at everything."""
    if not factors:
        return seconds
    return seconds * factors.get(kind, sum(factors.values()) / len(factors))


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """A stage that has begun."""

    elapsed: float
    """Seconds."""
    left: float | None
    """Seconds that its worker says it still needs; None before it has said anything."""


def seconds_left(
    stages: Sequence[Stage],
    estimated: Mapping[str, float],
    measured: Sequence[Measured],
    at_work: Mapping[str, AtWork],
    workers: int,
) -> float:
    """Until all of `stages` are done and reported, at the speed of what was measured here.

    stages: those at work and those that can still begin. estimated: seconds by the constants, of
    every stage of the sweep. measured: as for `calibration`; what a worker at work says of itself
    is measured too, once it has run for a while.
    """
    kinds = {stage.name: stage.kind for stage in stages}
    projected = [
        (kinds[name], estimated[name], worker_status.elapsed + worker_status.left)
        for name, worker_status in at_work.items()
        if worker_status.left is not None and worker_status.elapsed >= TOLD_SECONDS
    ]
    factors = calibration([*measured, *projected])
    seconds = {stage.name: scaled(estimated[stage.name], stage.kind, factors) for stage in stages}
    for name, worker_status in at_work.items():
        expected = max(seconds[name] - worker_status.elapsed, 1.0)
        seconds[name] = expected if worker_status.left is None else worker_status.left
    return wall_seconds(stages, seconds, workers) + finish_seconds(len(estimated))


def finish_seconds(n_stages: int) -> float:
    """Of the report and the sync behind the last of so many stages."""
    return FINISH_SECONDS + FINISHED_STAGE_SECONDS * n_stages


def in_order(stages: Iterable[Stage], seconds: Mapping[str, float]) -> dict[str, Stage]:
    """By name: what everything waits for first (fetched files, warm-ups); then one of each kind
    that needs nothing else, which tells what the others of its kind take, and whether they work;
    then the longest, so that no long one is left to run alone at the end."""
    longest_first = sorted(stages, key=lambda stage: -seconds[stage.name])
    first = {stage.name for stage in longest_first if KINDS[stage.kind].comes_first}
    pilots = {
        stage.kind: stage.name for stage in reversed(longest_first) if first.issuperset(stage.needs)
    }
    order = sorted(longest_first, key=lambda s: (s.name not in first, s.name != pilots.get(s.kind)))
    return {stage.name: stage for stage in order}


def ready(waiting: Mapping[str, Stage], done: Collection[str]) -> Iterator[Stage]:
    """Those whose needs are done, in the order given."""
    return (stage for stage in waiting.values() if all(need in done for need in stage.needs))


def wall_seconds(stages: Iterable[Stage], seconds: Mapping[str, float], workers: int) -> float:
    """Time until all of `stages` are done: the very schedule, played through.

    seconds: what each still takes. A need that is not among `stages` counts as done.
    """
    waiting = in_order(stages, seconds)
    places = {name: place for place, name in enumerate(waiting)}
    names = list(waiting)
    lacks = [sum(need in places for need in stage.needs) for stage in waiting.values()]
    needed_by: dict[str, list[int]] = defaultdict(list)
    for place, stage in enumerate(waiting.values()):
        for need in stage.needs:
            needed_by[need].append(place)
    # asking `ready` at every end would look at all that wait, as often as there are stages
    free = [place for place, lacking in enumerate(lacks) if not lacking]  # rising, so a heap
    running: list[tuple[float, str]] = []
    clock = 0.0
    while free or running:
        while free and len(running) < workers:
            name = names[heapq.heappop(free)]
            heapq.heappush(running, (clock + seconds[name], name))
        clock, finished = heapq.heappop(running)
        for place in needed_by[finished]:
            lacks[place] -= 1
            if not lacks[place]:
                heapq.heappush(free, place)
    return clock
