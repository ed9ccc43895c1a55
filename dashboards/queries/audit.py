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
from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.tables import DRAWS, GRADES, reading, scan_table

EXAMPLES = 3
"""Draws shown of a kind and point, of different problems."""

Example = tuple[str, int]
"""Problem and draw."""


@dataclass(frozen=True, kw_only=True)
class PointAudit:
    """Of one point on one benchmark."""

    point_id: str
    draws: int
    unscored: int
    truncated: int
    """Draws cut off at the longest response."""
    examples: dict[str, tuple[Example, ...]] = field(repr=False)
    """By kind: unscored, truncated."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Two layers of grades over the same draws."""

    point_id: str
    versions: tuple[str, str]
    draws: int
    """Judged by both."""
    differing: int
    """Of these, with another outcome."""
    only_second: int
    """Correct by the second alone."""
    examples: tuple[Example, ...]


def _files(results: SweepResults, benchmark: str) -> State:
    files: list[Path] = []
    for point in results.points:
        paths = point.evaluate.benchmark(benchmark)
        files += (point.evaluate.done, paths.draws, paths.manifest)
        files += (paths.grades(version) for version in layers(point, benchmark))
    return stamp(files)


@remembered(_files)
def audits(results: SweepResults, benchmark: str) -> list[PointAudit]:
    """One a point whose draws are complete and graded."""
    found = []
    for point in results.points:
        version = grades_version(point, benchmark)
        paths = point.evaluate.benchmark(benchmark)
        if version is None or not paths.draws.exists():
            continue
        draws = scan_table(paths.draws, DRAWS)
        grades = scan_table(paths.grades(version), GRADES)
        cut, unjudged = pl.col("finish_reason") == "length", pl.col("outcome") == "unscored"
        with reading(paths.draws, paths.grades(version)):
            of_draws, of_grades, shown_cut, shown_unjudged = pl.collect_all(
                [
                    draws.select(draws=pl.len(), truncated=cut.sum()),
                    grades.select(unscored=unjudged.sum()),
                    _examples(draws.filter(cut)),
                    _examples(grades.filter(unjudged)),
                ]
            )
        found.append(
            PointAudit(
                point_id=point.point_id,
                **of_draws.to_dicts()[0],
                **of_grades.to_dicts()[0],
                examples={"truncated": _pairs(shown_cut), "unscored": _pairs(shown_unjudged)},
            )
        )
    return found


@remembered(_files)
def disagreements(results: SweepResults, benchmark: str) -> list[Disagreement]:
    """Every two layers of grades of every point, where there are several."""
    found = []
    for point in results.points:
        paths = point.evaluate.benchmark(benchmark)
        for pair in combinations(_own_first(point, benchmark), 2):
            first, second = (_layer(point, benchmark, version) for version in pair)
            both = first.join(second, on=["problem_id", "draw"], suffix="_2")
            differs = pl.col("outcome") != pl.col("outcome_2")
            with reading(*(paths.grades(version) for version in pair)):
                facts, shown = pl.collect_all(
                    [
                        both.select(
                            draws=pl.len(),
                            differing=differs.sum(),
                            only_second=(differs & (pl.col("outcome_2") == "correct")).sum(),
                        ),
                        _examples(both.filter(differs)),
                    ]
                )
            found.append(
                Disagreement(
                    point_id=point.point_id,
                    versions=pair,
                    **facts.to_dicts()[0],
                    examples=_pairs(shown),
                )
            )
    return found


def engines(results: SweepResults, benchmark: str) -> list[tuple[dict[str, Any], list[str]]]:
    """Fingerprints of the engines that made the draws, each with its points."""
    found: list[tuple[dict[str, Any], list[str]]] = []
    for point in results.points:
        facts = point.engine(benchmark)
        if facts is None:
            continue
        own = next((points for known, points in found if known == facts), None)
        if own is None:
            found.append((facts, own := []))
        own.append(point.point_id)
    return found


def _own_first(point: PointResult, benchmark: str) -> list[str]:
    own = grades_version(point, benchmark)
    return sorted(layers(point, benchmark), key=lambda version: (version != own, version))


def _layer(point: PointResult, benchmark: str, version: str) -> pl.LazyFrame:
    path = point.evaluate.benchmark(benchmark).grades(version)
    return scan_table(path, GRADES).select("problem_id", "draw", "outcome")


def _examples(found: pl.LazyFrame) -> pl.LazyFrame:
    return (
        found.select("problem_id", "draw")
        .unique("problem_id", keep="first")
        .sort("problem_id", "draw")
        .head(EXAMPLES)
    )


def _pairs(frame: pl.DataFrame) -> tuple[Example, ...]:
    return tuple(frame.select("problem_id", "draw").rows())
