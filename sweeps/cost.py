"""What a stage costs in processor seconds: constants measured once, scaled by what is done here.

The constants hold for the embedded engine on one thread of a common server processor. They order
the stages and tell minutes from hours; they promise nothing to the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from sweeps.stages import Kind, Stage

START_SECONDS = 2.5
"""Start of a stage: interpreter, imports, loading a checkpoint."""
ROLLOUT_SECONDS = 0.083 / 256
"""A rollout with its share of the updates; the group size hardly matters."""
DEMONSTRATION_SECONDS = 0.06 / 128
"""A demonstration of the warm-up."""
DRAW_SECONDS = 1 / 60_000
"""A draw of an evaluation, sampled and graded."""


def cpu_seconds(stage: Stage) -> float:
    """Processor seconds of a whole stage on one thread, by the constants above."""
    return START_SECONDS + _work_seconds(stage)


def _work_seconds(stage: Stage) -> float:
    if stage.kind in ("fetch", "likelihood"):
        return 0.0  # likelihood: one pass over a hundredth of the draws
    if stage.kind == "warmup":
        warmup = stage.spec["identity"]["warmup"]
        return float(DEMONSTRATION_SECONDS * warmup["steps"] * warmup["batch_size"])
    if stage.kind in ("evaluate", "rare"):
        evaluation = stage.spec["evaluation"]
        problems = sum(each["n_problems"] or 0 for each in evaluation["benchmarks"].values())
        return float(DRAW_SECONDS * problems * evaluation["n_samples"])
    point = stage.spec["point"]
    train = point["train"]
    a_step = train["rollouts_per_step"] or train["prompts_per_step"] * point["group_size"]
    evaluations = train["steps"] // train["eval_every"] if train["eval_every"] else 0
    draws = evaluations * train["eval_n_problems"] * train["eval_n_samples"]
    return float(ROLLOUT_SECONDS * a_step * train["steps"] + DRAW_SECONDS * draws)


def calibration(measured: Iterable[tuple[Kind, float, float]]) -> dict[Kind, float]:
    """By kind, the factor that the constants are off by here.

    measured: (kind, estimated seconds, measured seconds) of stages that are done. The median is
    taken, because a stage that was interrupted measured only its last attempt.
    """
    ratios: dict[Kind, list[float]] = defaultdict(list)
    for kind, estimated, seconds in measured:
        ratios[kind].append(seconds / estimated)
    return {kind: median(values) for kind, values in ratios.items()}


def scaled(seconds: float, kind: Kind, factors: dict[Kind, float]) -> float:
    """Seconds times the kind's factor; a kind that was not measured takes the mean of the others,
    since a slow machine is slow at everything."""
    if not factors:
        return seconds
    return seconds * factors.get(kind, sum(factors.values()) / len(factors))
