"""In which order stages run, and how long that takes: pure functions of their seconds."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from fgrpo_bench.kinds import KINDS, Stage


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
    n_missing = [sum(need in places for need in stage.needs) for stage in waiting.values()]
    needed_by: dict[str, list[int]] = defaultdict(list)
    for place, stage in enumerate(waiting.values()):
        for need in stage.needs:
            needed_by[need].append(place)
    # asking `ready` at every end would look at all that wait, as often as there are stages
    free = [place for place, count in enumerate(n_missing) if not count]  # rising, so a heap
    running: list[tuple[float, str]] = []
    clock = 0.0
    while free or running:
        while free and len(running) < workers:
            name = names[heapq.heappop(free)]
            heapq.heappush(running, (clock + seconds[name], name))
        clock, finished = heapq.heappop(running)
        for place in needed_by[finished]:
            n_missing[place] -= 1
            if not n_missing[place]:
                heapq.heappush(free, place)
    return clock
