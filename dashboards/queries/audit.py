"""What a reviewer would ask about a benchmark's draws: unscored, cut off, judged two ways, or made
by engines that differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from dashboards.queries.draws import grades_version, layers
from dashboards.queries.memo import State, remembered, stamp
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.tables import DRAWS, GRADES, reading, scan_table

DRAW = ("problem_id", "draw")
Example = tuple[str, int] | None
"""Problem and draw; None where there is none."""
Engines = list[tuple[dict[str, Any], list[str]]]
"""Fingerprints of engines, each with its points."""


@dataclass(frozen=True, kw_only=True)
class PointAudit:
    """Of one point on one benchmark."""

    name: str
    draws: int
    unscored: int
    truncated: int
    """Draws cut off at the longest response."""
    examples: dict[str, Example] = field(repr=False)
    """By kind: unscored, truncated."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Two layers of grades over the same draws."""

    name: str
    versions: tuple[str, str]
    draws: int
    """Judged by both."""
    differing: int
    """Of these, with another outcome."""
    only_second: int
    """Correct by the second alone."""
    example: Example


def _files(results: Results, benchmark: str) -> State:
    files: list[Path] = []
    for checkpoint in results.checkpoints:
        paths = checkpoint.evaluate.benchmark(benchmark)
        files += (checkpoint.evaluate.done, paths.draws, paths.manifest)
        files += (paths.grades(version) for version in layers(checkpoint, benchmark))
    return stamp(files)


@remembered(_files)
def audits(results: Results, benchmark: str) -> list[PointAudit]:
    """One a point whose draws are complete and graded."""
    point_audits = []
    for checkpoint in results.checkpoints:
        version = grades_version(checkpoint, benchmark)
        paths = checkpoint.evaluate.benchmark(benchmark)
        if version is None or not paths.draws.exists():
            continue
        draws = scan_table(paths.draws, DRAWS)
        grades = scan_table(paths.grades(version), GRADES)
        with reading(paths.draws, paths.grades(version)):
            n_draws, cut_off, not_judged = pl.collect_all(
                [
                    draws.select(pl.len()),
                    draws.filter(finish_reason="length").select(DRAW),
                    grades.filter(outcome="unscored").select(DRAW),
                ]
            )
        point_audits.append(
            PointAudit(
                name=checkpoint.name,
                draws=n_draws.item(),
                unscored=len(not_judged),
                truncated=len(cut_off),
                examples={"truncated": _first(cut_off), "unscored": _first(not_judged)},
            )
        )
    return point_audits


@remembered(_files)
def disagreements(results: Results, benchmark: str) -> list[Disagreement]:
    """Every two layers of grades of every point, where there are several."""
    layer_pairs = []
    for checkpoint in results.checkpoints:
        paths = checkpoint.evaluate.benchmark(benchmark)
        for pair in combinations(_own_first(checkpoint, benchmark), 2):
            first, second = (_layer(checkpoint, benchmark, version) for version in pair)
            both = first.join(second, on=["problem_id", "draw"], suffix="_2")
            differs = pl.col("outcome") != pl.col("outcome_2")
            with reading(*(paths.grades(version) for version in pair)):
                n_both, differing = pl.collect_all(
                    [both.select(pl.len()), both.filter(differs).select(*DRAW, "outcome_2")]
                )
            layer_pairs.append(
                Disagreement(
                    name=checkpoint.name,
                    versions=pair,
                    draws=n_both.item(),
                    differing=len(differing),
                    only_second=len(differing.filter(outcome_2="correct")),
                    example=_first(differing.select(DRAW)),
                )
            )
    return layer_pairs


def engines(results: Results, benchmark: str) -> Engines:
    """Fingerprints of the engines that made the draws, each with its points."""
    by_engine: Engines = []
    for checkpoint in results.checkpoints:
        facts = checkpoint.engine(benchmark)
        if facts is None:
            continue
        own = next((points for known, points in by_engine if known == facts), None)
        if own is None:
            by_engine.append((facts, own := []))
        own.append(checkpoint.name)
    return by_engine


def _own_first(checkpoint: EvaluatedCheckpoint, benchmark: str) -> list[str]:
    own = grades_version(checkpoint, benchmark)
    return sorted(layers(checkpoint, benchmark), key=lambda version: (version != own, version))


def _layer(checkpoint: EvaluatedCheckpoint, benchmark: str, version: str) -> pl.LazyFrame:
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    return scan_table(path, GRADES).select("problem_id", "draw", "outcome")


def _first(draws: pl.DataFrame) -> Example:
    """draws: columns DRAW."""
    return next(iter(draws.sort(DRAW).rows()), None)
