"""What a stage costs in processor seconds: constants measured once, scaled by what is done here.

The constants (of each kind, fgrpo_bench.kinds) hold for the embedded engine on one thread of a
common server processor. They order the stages and tell minutes from hours; they promise nothing to
the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
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
