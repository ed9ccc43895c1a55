"""What a report was made from: digests of its files and of the stored results behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.likelihood import stages
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults, declared_digests
from fgrpo_bench.stages.digests import sealed, sha256_file
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.markers import Output, read_marker
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.shapes import DECLARED

NAME = "provenance.json"
"""Stands beside the report's files."""
SHAPE = {
    "sweep": str,
    "experiment": str,
    "version": str,
    "select": str,
    "compare_paper": bool,
    "drawn_with": str,
    "declared": {"first": DECLARED, "now": DECLARED},
    "files": {"*": str},
    "inputs": {"*": str},
    "content_sha256": str,
}
"""Of its content (fgrpo_bench.stages.shapes); there is no other key."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A stored file behind a report."""

    name: str
    """Path from the run's folder."""
    path: Path
    recorded: str | None
    """sha256 that its stage's marker has; None where there is no marker."""
    is_large: bool
    """Draws and weights, which are not read for every report."""

    @property
    def is_listed(self) -> bool:
        """Whether a provenance names it: draws and weights where a marker has their digest."""
        return self.path.exists() if not self.is_large else self.recorded is not None


def read(path: Path) -> dict[str, Any]:
    """The content (SHAPE) of a provenance; ValueError for anything else."""
    try:
        known: dict[str, Any] = read_json(path, SHAPE)
    except ValueError as error:
        raise ValueError(
            f"{path} is no provenance of a report: build the report again, with `python -m "
            f"fgrpo_bench.report <sweep>` ({error})"
        ) from error
    return known


def graded(results: SweepResults) -> Iterator[tuple[PointResult, str, str]]:
    """Every evaluated checkpoint, as its point, with each benchmark and the version of its grader:
    a report may choose among them all, and compares earlier ones at equal rollouts."""
    for point in evaluated(results):
        versions = point.evaluated().asked.graders
        for benchmark in results.benchmarks:
            if benchmark in versions and point.results_on(benchmark) is not None:
                yield point, benchmark, versions[benchmark]


def evaluated(results: SweepResults) -> Iterator[PointResult]:
    """Every evaluated checkpoint as its point."""
    for point in results.points:
        yield from (at for at in map(point.at, point.checkpoints) if at.is_evaluated)


def inputs(results: SweepResults) -> dict[str, Input]:
    """Every file that the numbers and figures of a report rest on, by name: grades, pass@k and
    draws of the evaluated checkpoints, their weights, training metrics, likelihoods."""
    own: dict[Path, tuple[StagePaths, bool]] = {}
    for point, benchmark, grader_version in graded(results):
        of = point.evaluate.benchmark(benchmark)
        own |= dict.fromkeys((of.grades(grader_version), of.passk), (point.evaluate, False))
        for further in point.beside(benchmark).values():
            files = of.grades(further), of.also_passk(further)
            own |= dict.fromkeys(files, (point.evaluate, False))
        own |= dict.fromkeys((of.manifest, of.draws), (point.evaluate, True))
    for point in evaluated(results):
        prefix = point.train.checkpoint(point.step).relative_to(point.train.folder).as_posix()
        for name in _outputs(point.train):
            if name.startswith(f"{prefix}/"):
                own[point.train.folder / name] = point.train, True
    own |= {point.train.metrics: (point.train, False) for point in results.points}
    own |= {stage.likelihoods: (stage, False) for _, _, stage in stages(results)}
    records = (_input(results, path, *of) for path, of in own.items())
    return {each.name: each for each in records if each.path.exists() or each.recorded is not None}


def _input(results: SweepResults, path: Path, stage: StagePaths, is_large: bool) -> Input:
    output = _outputs(stage).get(path.relative_to(stage.folder).as_posix())
    return Input(
        name=path.relative_to(results.paths.folder).as_posix(),
        path=path,
        recorded=None if output is None else output.sha256,
        is_large=is_large,
    )


def _outputs(stage: StagePaths) -> Mapping[str, Output]:
    """What the stage's marker lists; nothing where it is not done."""
    return read_marker(stage).outputs if stage.done.exists() else {}


def drawing_program() -> str:
    """What draws the figures: another one may draw other bytes from the same numbers."""
    return f"matplotlib {version('matplotlib')}"


def record(
    analysis: Analysis, files: Mapping[str, bytes], *, compare_paper: bool
) -> dict[str, Any]:
    """The provenance (SHAPE) of these files of a report, by name.

    Draws and weights have the digests of their stages' markers; those of a stage that lost its
    marker are left out.
    """
    paths = analysis.results.paths
    behind = [each for each in inputs(analysis.results).values() if each.is_listed]
    return sealed(
        {
            "sweep": paths.sweep,
            "experiment": paths.experiment,
            "version": paths.version,
            "select": analysis.rule,
            "compare_paper": compare_paper,
            "drawn_with": drawing_program(),
            "declared": declared_digests(analysis.results.declaration, read_plan(paths)),
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            "inputs": {
                each.name: each.recorded if each.is_large else sha256_file(each.path)
                for each in behind
            },
        }
    )
