"""What the runs of a cell cost and trained on, up to each of their evaluated checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fgrpo_bench.analysis.read import At
from fgrpo_bench.analysis.rows import key_of_cell
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.markers import Marker, read_marker

LAST = 10
"""The entropy that training ends with is a mean over 1 / LAST of its steps."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run of a cell cost up to a checkpoint, and what it trained on, as means over its
    finished runs; null where there is none."""

    cell: str
    step: int
    is_chosen: bool
    n_runs: int
    """Finished training runs."""
    rollouts: float | None
    tokens: float | None
    """Sampled in training."""
    optimizer_steps: float | None
    active_fraction: float | None
    """Share of the groups of a step that have an advantage that is not 0, mean over the steps."""
    entropy: float | None
    """Of the policy as it samples, nats a token, mean over the last tenth of the steps."""
    train_gpu_seconds: float | None
    """Seconds of all steps times the GPUs that they held; 0 on processors."""
    train_cpu_seconds: float | None
    """Of whole runs, so null at earlier checkpoints; like that of the evaluation of a stage's last
    attempt."""
    evaluate_cpu_seconds: float | None
    """Of evaluations that made all their draws; null where each took some from another one."""


def costs(results: SweepResults, chosen: Collection[At]) -> Iterator[Cost]:
    """A row a cell and checkpoint."""
    cells: dict[str, list[PointResult]] = {}
    for point in results.points:
        cells.setdefault(key_of_cell(point.cell), []).append(point)
    for name, points in cells.items():
        trained = [p for p in points if p.is_trained and p.cell is not None]
        metrics = [point.metrics().sort("step") for point in trained]
        steps = sorted({each.step for point in points for each in point.checkpoints})
        for step in steps:
            judged = [
                point.at(each)
                for point in points
                for each in point.checkpoints
                if each.step == step and point.at(each).is_evaluated
            ]
            until = [frame.filter(pl.col("step") <= step) for frame in metrics]
            rows = [frame for frame in until if len(frame)]
            training = [read_marker(point.train) for point in trained] if step == steps[-1] else []
            markers = [read_marker(point.evaluate) for point in judged]
            graded = [marker for marker in markers if not marker.draws_adopted]
            yield Cost(
                cell=name,
                step=step,
                is_chosen=(name, step) in chosen,
                n_runs=len([point for point in points if point.is_trained]),
                rollouts=_mean([frame["rollouts"][-1] for frame in rows]),
                tokens=_mean([frame["tokens"][-1] for frame in rows]),
                optimizer_steps=_mean([frame["optimizer_steps"][-1] for frame in rows]),
                active_fraction=_mean_of(rows, "active_fraction"),
                entropy=_mean_of([frame.tail(-(-len(frame) // LAST)) for frame in rows], "entropy"),
                train_gpu_seconds=_mean(
                    [float((frame["seconds"] * frame["gpus"]).to_numpy().sum()) for frame in rows]
                ),
                train_cpu_seconds=_cpu_seconds(training),
                evaluate_cpu_seconds=_cpu_seconds(graded),
            )


def _mean_of(frames: Sequence[pl.DataFrame], metric: str) -> float | None:
    """Of the steps of each run, then of the runs that have a value."""
    own = [frame[metric].drop_nulls().to_numpy() for frame in frames]
    return _mean([float(values.mean()) for values in own if len(values)])


def _cpu_seconds(markers: Sequence[Marker]) -> float | None:
    recorded = [marker.cpu_seconds for marker in markers]
    return _mean([seconds for seconds in recorded if seconds is not None])


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
