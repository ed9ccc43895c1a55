"""A sweep that goes on while MLflow is away."""

from __future__ import annotations

from pathlib import Path

from fgrpo_bench.report.build import write_report
from fgrpo_bench.results import SweepResults
from fgrpo_bench.tables import METRICS, read_table, write_table


def hold_back(results: SweepResults) -> dict[Path, bytes]:
    """Let the second point still train and the third await its evaluation; the files as they were,
    for `finish`."""
    training, trained = results.points[1:3]
    paths = [training.train.metrics, training.train.done, training.evaluate.done]
    kept = {path: path.read_bytes() for path in [*paths, trained.evaluate.done]}
    write_table(paths[0], read_table(paths[0], METRICS).head(7), METRICS)
    for path in [*paths[1:], trained.evaluate.done]:
        path.unlink()
    return kept


def finish(results: SweepResults, kept: dict[Path, bytes]) -> None:
    """Let both come to their end, with a report."""
    for path, content in kept.items():
        path.write_bytes(content)
    write_report(results)
