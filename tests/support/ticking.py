"""Bringing a sweep on SLURM up to date until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable

from fgrpo_bench.stages.paths import RunPaths
from sweeps.commands import StageCommand, stage_command
from sweeps.slurm import tick
from sweeps.slurm.decide import Decision


def tick_until(
    paths: RunPaths,
    ended: Callable[[Decision], bool],
    *,
    patience: float,
    command: StageCommand = stage_command,
) -> Decision:
    """Tick until a condition holds; AssertionError after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        decision = tick.tick(paths, say=print, command=command)
        if ended(decision):
            return decision
        assert time.monotonic() < deadline, decision.standings
        time.sleep(0.5)


def all_done(decision: Decision) -> bool:
    """Whether every stage is done."""
    return {each.state for each in decision.standings.values()} == {"done"}
