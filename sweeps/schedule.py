"""What stages cost in processor seconds, in which order they run, and how long that takes: pure
functions.

The constants (of each kind, fgrpo_bench.kinds) hold for the embedded engine on one thread of a
common server processor. They order the stages and tell minutes from hours; they promise nothing to
the second, and are scaled by what is done here.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from statistics import median

from fgrpo_bench.kinds import KINDS, Stage

START_SECONDS = 2.5
"""Start of a stage: interpreter, imports, loading a checkpoint."""


def cpu_seconds(stage: Stage) -> float:
    """Processor seconds of a whole stage on one thread, by its kind's constants; its start alone
    where nobody can tell."""
    return START_SECONDS + (KINDS[stage.kind].cost(stage) or 0.0)


def calibration(measured: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """By kind, the factor that the constants are off by here.

    measured: (kind, estimated seconds, measured seconds) of stages that are done. The median is
    taken, because a stage that was interrupted measured only its last attempt.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for kind, estimated, seconds in measured:
        ratios[kind].append(seconds / estimated)
    return {kind: median(values) for kind, values in ratios.items()}


def scaled(seconds: float, kind: str, factors: dict[str, float]) -> float:
    """Seconds times the kind's factor; a kind that was not measured takes the mean of the others,
    since a slow machine is slow at everything."""
    if not factors:
        return seconds
    return seconds * factors.get(kind, sum(factors.values()) / len(factors))


def in_order(stages: Iterable[Stage], seconds: Mapping[str, float]) -> dict[str, Stage]:
    """By name: what everything waits for first (fetched files, warm-ups), then the longest, so that
    no long one is left to run alone at the end."""
    order = sorted(
        stages, key=lambda stage: (not KINDS[stage.kind].comes_first, -seconds[stage.name])
    )
    return {stage.name: stage for stage in order}


def ready(waiting: Mapping[str, Stage], done: Collection[str]) -> Iterator[Stage]:
    """Those whose needs are done, in the order given."""
    return (stage for stage in waiting.values() if all(need in done for need in stage.needs))


def wall_seconds(stages: Iterable[Stage], seconds: Mapping[str, float], workers: int) -> float:
    """Time until all of `stages` are done: the very schedule, played through.

    seconds: what each still takes. A need that is not among `stages` counts as done.
    """
    waiting = in_order(stages, seconds)
    done = {need for stage in waiting.values() for need in stage.needs if need not in waiting}
    running: list[tuple[float, str]] = []
    clock = 0.0
    while waiting or running:
        for stage in list(islice(ready(waiting, done), workers - len(running))):
            del waiting[stage.name]
            heapq.heappush(running, (clock + seconds[stage.name], stage.name))
        clock, finished = heapq.heappop(running)
        done.add(finished)
    return clock
