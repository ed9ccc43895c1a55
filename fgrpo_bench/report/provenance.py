"""What a report was made from: digests of its files and of the stored results behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.results import PointResult, Results, SweepResults
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record
from fgrpo_bench.stages.digests import sha256_file, with_checksum
from fgrpo_bench.stages.markers import Output, read_marker
from fgrpo_bench.stages.plan import DeclaredDigests, declared_digests, read_plan

NAME = "provenance.json"
"""Stands beside the report's files."""


@dataclass(frozen=True, kw_only=True)
class Provenance(Record):
    """provenance.json; nobody writes other keys than these and the seal."""

    sweep: str
    experiment: str
    version: str
    select: str
    """What chose the checkpoint of every run (fgrpo_bench.analysis.checkpoints.RULES)."""
    by: str | None = None
    """The column that pass@k is told by too (fgrpo_bench.analysis.analyse)."""
    compare_paper: bool
    """Whether the published figures stand beside ours."""
    drawn_with: str
    """As `drawing_program`."""
    declared: DeclaredDigests | None
    """Of a sweep; None for evaluations without one."""
    files: dict[str, str]
    """sha256 of the report's files by name."""
    inputs: dict[str, str]
    """The same of the stored results behind them, by path from the folder of the run, or of all
    evaluations."""
    remote_code: tuple[str, ...] = ()
    """Models whose own code was allowed to run."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A stored file behind a report."""

    name: str
    """Path from the folder of the run, or of all evaluations."""
    path: Path
    recorded: str | None
    """sha256 that its stage's marker has; None where there is no marker."""
    is_large: bool
    """Draws and weights, which are not read for every report."""

    @property
    def is_listed(self) -> bool:
        """Whether a provenance names it: draws and weights where a marker has their digest."""
        return self.path.exists() if not self.is_large else self.recorded is not None


def read(path: Path) -> Provenance:
    """A provenance; ValueError for anything else."""
    try:
        return read_record(path, Provenance)
    except ValueError as error:
        raise ValueError(
            f"{path} is no provenance of a report: build the report again, with `fgrpo-bench "
            f"report <sweep>` ({error})"
        ) from error


def graded(results: Results) -> Iterator[tuple[EvaluatedCheckpoint, str, str]]:
    """Every evaluated checkpoint with each benchmark and the version of its grader:
    a report may choose among them all, and compares earlier ones at equal rollouts."""
    for checkpoint in results.every:
        if not checkpoint.is_evaluated:
            continue
        versions = checkpoint.evaluated().evaluation_target.graders
        for benchmark in results.benchmarks:
            if benchmark in versions and checkpoint.results_on(benchmark) is not None:
                yield checkpoint, benchmark, versions[benchmark]


def evaluated(results: SweepResults | None) -> Iterator[PointResult]:
    """Every evaluated checkpoint of a sweep as its point."""
    for point in () if results is None else results.points:
        yield from (item for item in point.run_checkpoints if item.is_evaluated)


def inputs(results: Results) -> dict[str, Input]:
    """Every file that the numbers and figures of a report rest on, by name: grades, pass@k and
    draws of the evaluated checkpoints, their weights, training metrics, likelihoods."""
    listed: dict[Path, tuple[StagePaths, bool]] = {}
    for checkpoint, benchmark, grader_version in graded(results):
        stage = checkpoint.evaluate
        of = stage.benchmark(benchmark)
        listed |= dict.fromkeys((of.grades(grader_version), of.passk()), (stage, False))
        for further in checkpoint.extra_grader_versions(benchmark).values():
            files = of.grades(further), of.passk(further)
            listed |= dict.fromkeys(files, (stage, False))
        listed |= dict.fromkeys((of.manifest, of.draws), (stage, True))
    for point in evaluated(results.sweep):
        prefix = point.train.checkpoint(point.step).relative_to(point.train.folder).as_posix()
        for name in _outputs(point.train):
            if name.startswith(f"{prefix}/"):
                listed[point.train.folder / name] = point.train, True
    if (sweep := results.sweep) is not None:
        listed |= {point.train.metrics: (point.train, False) for point in sweep.points}
        listed |= {stage.likelihoods: (stage, False) for _, _, stage in likelihood_stages(sweep)}
    records = (_input(results, path, *of) for path, of in listed.items())
    return {
        record.name: record
        for record in records
        if record.path.exists() or record.recorded is not None
    }


def _input(results: Results, path: Path, stage: StagePaths, is_large: bool) -> Input:
    output = _outputs(stage).get(path.relative_to(stage.folder).as_posix())
    return Input(
        name=path.relative_to(results.folder).as_posix(),
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


def declared(results: Results) -> DeclaredDigests | None:
    """Of what a sweep declares and plans; None for evaluations without one."""
    sweep = results.sweep
    return None if sweep is None else declared_digests(sweep.record, read_plan(sweep.paths))


def record(
    analysis: Analysis, files: Mapping[str, bytes], *, compare_paper: bool
) -> dict[str, Any]:
    """The provenance, sealed, of these files of a report, by name.

    Draws and weights have the digests of their stages' markers; those of a stage that lost its
    marker are left out.
    """
    results, paths = analysis.results, analysis.results.address
    behind = [item for item in inputs(results).values() if item.is_listed]
    record = Provenance(
        sweep=paths.sweep,
        experiment=paths.experiment,
        version=paths.version,
        select=analysis.rule,
        by=analysis.by,
        compare_paper=compare_paper,
        drawn_with=drawing_program(),
        declared=declared(results),
        remote_code=results.remote_code,
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        inputs={
            source.name: source.recorded
            if source.is_large and source.recorded is not None
            else sha256_file(source.path)
            for source in behind
        },
    )
    return with_checksum(record.as_json())
