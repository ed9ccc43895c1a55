"""The frames of a sweep as files beside it, read for as long as its results are what they were.

In: a run by its name (`load`) or its results (`analysed`). Out: its `Analysis`, read or computed
anew. Stored are <run>/analysis/<frame>.parquet and analysis.json, which is written last; a rule
other than the default has a folder of its own below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.analysis.checkpoints import LAST, at_steps, check_rule
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.frames import Analysis, analyse
from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.readings import readings
from fgrpo_bench.analysis.results import Results, SweepResults, find_results
from fgrpo_bench.analysis.rows import FRAMES, ON_DEMAND, ReadingRow, Rows
from fgrpo_bench.command.runs import default_root
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record, write_json, write_whole
from fgrpo_bench.stages.digests import checksum_mismatch, sha256_file, with_checksum

VERSION = 18
"""Of the frames and of how they are computed; another one computes them anew."""
FACTS = "analysis.json"
STORED = tuple(name for name in FRAMES if name not in ON_DEMAND)
"""Frames with a file."""


def load(
    sweep: str,
    *,
    experiment: str | None = None,
    version: str | None = None,
    root: Path | None = None,
    rule: str = LAST,
    by: str | None = None,
) -> Analysis:
    """The analysis of a run by its names (as of fgrpo_bench.command.runs.choose_run), or of
    evaluations, `evals/<name>+<name>`.

    rule: which checkpoint stands for every run. by: as of `analyse`. root: None is the usual folder
    of all runs. Raises FileNotFoundError where there is no such run and ValueError where several
    may be meant.
    """
    parts = {"experiment": experiment, "version": version}
    return analysed(find_results(root or default_root(), sweep, **parts), rule, by=by)


def analysed(
    results: Results, rule: str = LAST, *, by: str | None = None, is_kept: bool = True
) -> Analysis:
    """The stored analysis of a sweep where the results are those that it was made of, else a new
    one, which without a sweep is stored nowhere.

    by: as of `analyse`; what is told by a column that somebody names is stored nowhere. is_kept:
    whether a new one is stored; a folder that cannot be written to is left as it is.
    """
    check_rule(results, rule)
    if (sweep := results.sweep) is None:
        return analyse(results, rule, by)
    if by is not None:
        anew = analyse(results, rule, by)  # computes what is asked of it alone
        by_value = {name: anew.tables[name] for name in ("by_value", "by_value_comparisons")}
        analysis = analysed(results, rule, is_kept=is_kept)
        return replace(analysis, by=by, tables={**analysis.tables, **by_value})
    digest = analysis_digest(sweep)
    stored = _stored(sweep, rule, digest)
    if stored is not None:
        return stored
    analysis = analyse(sweep, rule)
    # A stage that ended meanwhile would be stored under a digest that it is not of.
    if is_kept and digest == analysis_digest(sweep):
        with suppress(PermissionError):
            _write(frames_folder(sweep.paths, rule), analysis, digest)
    return analysis


@dataclass(frozen=True, kw_only=True)
class AnalysisRecord(Record):
    """analysis.json: what stored frames were computed by and of."""

    version: int
    """Of the frames (VERSION)."""
    rule: str
    family: str
    """The family of comparisons in words."""
    inputs: str
    """Digest of what was read (`analysis_digest`)."""
    files: dict[str, str]
    """Digests of the frames, by name."""


def stored_comparisons(paths: RunPaths) -> pl.DataFrame | None:
    """The frame of comparisons that was stored last, by the last checkpoints, whether or not
    results have come in since; None where none of this version stands there whole. Nothing else is
    read, nothing computed."""
    folder = frames_folder(paths, LAST)
    path = folder / "comparisons.parquet"
    try:
        record = read_record(folder / FACTS, AnalysisRecord)
        is_whole = not checksum_mismatch(record.as_json())
        is_whole = is_whole and record.files.get("comparisons") == sha256_file(path)
        if not is_whole or record.version != VERSION:
            return None
        return pl.read_parquet(path, glob=False)
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None


def frames_folder(paths: RunPaths, rule: str) -> Path:
    """Where the frames of a rule are."""
    return paths.analysis if rule == LAST else paths.analysis / rule


def analysis_digest(results: SweepResults) -> str:
    """sha256 over what an analysis is made of: plan, declaration, the marker of every stage, and
    the tables that are read of it, so that one that was damaged since is noticed."""
    digest = hashlib.sha256()
    for path in (results.paths.plan, results.paths.sweep_json):
        digest.update(path.read_bytes())
    for stage, tables in _stages(results):
        digest.update(stage.done.relative_to(results.paths.folder).as_posix().encode())
        if stage.done.exists():
            for path in (stage.done, *tables):
                digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def input_files(results: Results) -> list[Path]:
    """The files that an analysis is made of, those that are not there yet too."""
    if results.sweep is None:
        stages, declared = _evaluations(results, results.checkpoints), []
    else:
        paths = results.sweep.paths
        stages, declared = _stages(results.sweep), [paths.plan, paths.sweep_json]
    return declared + [path for stage, tables in stages for path in (stage.done, *tables)]


def _stages(results: SweepResults) -> Iterator[tuple[StagePaths, list[Path]]]:
    """Every stage behind an analysis, and what is read of it beside its marker."""
    for point in results.points:
        yield point.train, [point.train.metrics]
        yield from _evaluations(results, point.run_checkpoints)
    for _, _, stage in likelihood_stages(results):
        yield stage, []


def _evaluations(
    results: Results, checkpoints: Sequence[EvaluatedCheckpoint]
) -> Iterator[tuple[StagePaths, list[Path]]]:
    """The same of evaluations alone."""
    for checkpoint in checkpoints:
        stage = checkpoint.evaluate
        tables = [stage.benchmark(name).passk() for name in results.benchmarks]
        tables += [
            stage.benchmark(name).passk(version)
            for name in results.judged_twice
            for version in checkpoint.extra_grader_versions(name).values()
        ]
        yield stage, tables


def _stored(results: SweepResults, rule: str, digest: str) -> Analysis | None:
    folder = frames_folder(results.paths, rule)
    try:
        record = read_record(folder / FACTS, AnalysisRecord)
        if checksum_mismatch(record.as_json()):
            return None
        if (record.version, record.rule, record.inputs) != (VERSION, rule, digest):
            return None
        stored = {name: (folder / f"{name}.parquet").read_bytes() for name in STORED}
    except (FileNotFoundError, ValueError):
        return None
    # A frame that was edited or damaged is computed again, never shown.
    if record.files != {name: hashlib.sha256(frame).hexdigest() for name, frame in stored.items()}:
        return None
    tables: dict[str, Rows[Any]] = {
        name: Rows(FRAMES[name], frame=partial(pl.read_parquet, frame))
        for name, frame in stored.items()
    }
    # Which checkpoint stood for each run is part of what was stored.
    steps = {row.cell: row.step for row in tables["cells"].rows if not row.is_base}
    chosen = at_steps(results, steps)
    tables["readings"] = Rows(ReadingRow, rows=lambda: _readings(chosen, tables))
    return Analysis(results=chosen, rule=rule, family=record.family, tables=tables)


def _readings(results: SweepResults, tables: Mapping[str, Rows[Any]]) -> Iterator[ReadingRow]:
    """Of the problems and checkpoints that the other frames are of."""
    problems = tables["problems"].frame.group_by("benchmark").agg(pl.col("problem_id").unique())
    chosen = [(row.cell, row.step) for row in tables["cells"].rows]
    return readings(results, chosen, dict(problems.iter_rows()))


def _write(folder: Path, analysis: Analysis, digest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # The record goes first and comes last: frames of a write that is cut off are never read.
    (folder / FACTS).unlink(missing_ok=True)
    files = {}
    for name in STORED:
        path = folder / f"{name}.parquet"
        write_whole(path, analysis.tables[name].frame.write_parquet)
        files[name] = sha256_file(path)
    record = AnalysisRecord(
        version=VERSION, rule=analysis.rule, family=analysis.family, inputs=digest, files=files
    )
    write_json(folder / FACTS, with_checksum(record.as_json()))
