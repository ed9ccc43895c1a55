"""In which order stages run, and how long that takes: pure functions over names and seconds."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from fgrpo_bench.kinds import KINDS, Stage


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
