"""What a report was made from: digests of its files and of the stored results behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fgrpo_bench.files import sha256_file
from fgrpo_bench.markers import read_marker
from fgrpo_bench.report.rare import stages
from fgrpo_bench.results import PointResult, SweepResults

NAME = "provenance.json"
"""Stands beside the report's files."""


def graded(results: SweepResults) -> Iterator[tuple[PointResult, str, str]]:
    """Every evaluated checkpoint, as its point, with each benchmark and the version of its grader:
    a report may choose among them all, and compares earlier ones at equal rollouts."""
    for point in results.points:
        for at in map(point.at, point.checkpoints):
            if at.is_evaluated:
                versions = read_marker(at.evaluate)["target"]["graders"]
                for benchmark in results.benchmarks:
                    if at.results_on(benchmark) is not None:
                        yield at, benchmark, versions[benchmark]


def inputs(results: SweepResults) -> dict[str, str]:
    """sha256 of the grades, the pass@k and the likelihoods behind a report, by path from the run's
    folder."""
    paths = [
        path
        for point, benchmark, version in graded(results)
        for of in [point.evaluate.benchmark(benchmark)]
        for path in (of.grades(version), of.passk)
    ]
    paths += [stage.likelihoods for _, _, stage in stages(results)]
    return {_named(path, results): sha256_file(path) for path in paths if path.exists()}


def record(
    results: SweepResults, texts: Mapping[str, str], *, compare_paper: bool
) -> dict[str, Any]:
    """The provenance of these files of a report, by name."""
    paths = results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "select": results.rule,
        "compare_paper": compare_paper,
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        "inputs": inputs(results),
    }


def _named(path: Path, results: SweepResults) -> str:
    return path.relative_to(results.paths.folder).as_posix()
