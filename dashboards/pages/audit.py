"""Audit: in one line whether all is clean, what was checked, then what is not clean: draws that
were not judged or cut off, graders that disagree, engines that differ.

In: stored draws and every layer of grades of them. Out: a Page. Next: draws.py, which shows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from dashboards.page import ColoredCell, Form, Given, Page, choices
from dashboards.pages.draws import SHOWN, draws_link, grades_version, layers
from dashboards.queries import FileState, checkpoints_by_name, remembered, stamp
from dashboards.text import shortened
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.documents.table import Table, TableRow
from fgrpo_bench.stages.tables import DRAWS, GRADES, reading, scan_table

CUT_OFF = 0.05
"""Share of a point's draws that may be cut off before the page says so."""
LISTED = 12
"""Points of an engine that are named."""
DRAW = ("problem_id", "draw")
Example = tuple[str, int] | None
"""Problem and draw; None where there is none."""
Engines = list[tuple[dict[str, Any], list[str]]]
"""Fingerprints of engines, each with its points."""


def build(results: Results, given: Given) -> Page:
    """The page; parameters: benchmark."""
    form = Form(results.address, "audit", given)
    benchmark = form.value("benchmark", results.benchmarks)
    point_audits = audits(results, benchmark)
    differing = disagreements(results, benchmark)
    by_engine = engines(results, benchmark)
    grids = [
        _draws(results, benchmark, [audit for audit in point_audits if not _is_clean(audit)]),
        _graders(results, benchmark, [pair for pair in differing if pair.differing]),
        *([_engines(by_engine)] if _differing_facts(by_engine) else []),
    ]
    return Page(
        address=form.address(),
        title=f"{benchmark}: audit",
        lead=verdict(point_audits, differing, by_engine, len(results.checkpoints)),
        controls=choices(form.control("benchmark", "Benchmark")),
        context={
            "checks": _checks(point_audits, differing, by_engine, len(results.checkpoints)),
            "grids": [grid for grid in grids if grid.rows],
            "whole": [
                _draws(results, benchmark, point_audits),
                _graders(results, benchmark, differing),
                _engines(by_engine),
            ],
        },
    )


def _is_clean(audit: PointAudit) -> bool:
    return not audit.unscored and audit.truncated <= CUT_OFF * audit.draws


def verdict(
    point_audits: Sequence[PointAudit],
    differing: Sequence[Disagreement],
    by_engine: Engines,
    n_points: int,
) -> str:
    """One line: that all is clean, or what is not."""
    trouble = []
    unscored = [audit for audit in point_audits if audit.unscored]
    if unscored:
        total = sum(audit.unscored for audit in unscored)
        trouble.append(f"{total:,} draws of {len(unscored)} points could not be judged")
    cut = [audit for audit in point_audits if audit.truncated > CUT_OFF * audit.draws]
    if cut:
        trouble.append(f"more than {CUT_OFF:.0%} of the draws of {len(cut)} points are truncated")
    judged_two_ways = [pair for pair in differing if pair.differing]
    if judged_two_ways:
        total = sum(pair.differing for pair in judged_two_ways)
        trouble.append(f"graders differ on {total:,} draws")
    if facts := _differing_facts(by_engine):
        trouble.append(f"the engines differ in {', '.join(facts)}")
    missing = n_points - len(point_audits)
    so_far = f" {missing} of {n_points} points have no judged draws yet." if missing else ""
    if not point_audits:
        return "No point has complete, graded draws on this benchmark yet."
    if trouble:
        return f"Not clean: {'; '.join(trouble)}.{so_far}"
    total = sum(audit.draws for audit in point_audits)
    most = max(audit.truncated / audit.draws for audit in point_audits if audit.draws)
    cut_off = f"no run has over {most:.1%} truncated" if most else "none is truncated"
    return (
        f"Clean: all {total:,} draws of {len(point_audits)} points are graded, {cut_off}, graders "
        f"agree, and engines are alike.{so_far}"
    )


def _checks(
    point_audits: Sequence[PointAudit],
    differing: Sequence[Disagreement],
    by_engine: Engines,
    n_points: int,
) -> Table:
    """What was looked at, a row a check, also where nothing is wrong."""
    draws = sum(audit.draws for audit in point_audits)
    draws_text = f"{draws:,} draws of {len(point_audits)} points"
    unscored = sum(audit.unscored for audit in point_audits)
    cut = max((a.truncated / a.draws for a in point_audits if a.draws), default=0.0)
    twice, apart = sum(p.draws for p in differing), sum(p.differing for p in differing)
    recorded = len({point for _, points in by_engine for point in points})
    facts = _differing_facts(by_engine)
    keys = sorted({key for engine, _ in by_engine for key in engine})

    def row(check: str, looked_at: str, is_clean: bool, outcome: str) -> TableRow:
        kind = "done" if is_clean else "failed"
        names = (ColoredCell(text=text, kind="words") for text in (check, looked_at))
        return *names, ColoredCell(text=outcome, kind=f"words {kind}")

    return Table(
        title="What was checked",
        header=("check", "looked at", "outcome"),
        rows=(
            row(
                "every point has complete, graded draws",
                f"{n_points} points",
                len(point_audits) == n_points,
                f"{len(point_audits)} of {n_points}",
            ),
            row("every draw is graded", draws_text, not unscored, f"{unscored:,} unscored"),
            row(
                f"at most {CUT_OFF:.0%} of a point's draws are truncated",
                draws_text,
                cut <= CUT_OFF,
                f"at most {cut:.1%}",
            ),
            row(
                "graders agree on every draw",
                f"{twice:,} draws with grades of two graders" if differing else "one grader",
                not apart,
                f"{apart:,} differ" if differing else "nothing to compare",
            ),
            row(
                "one engine made all draws",
                f"{recorded} points, by {', '.join(keys)}" if keys else "none recorded",
                not facts,
                f"differ in {', '.join(facts)}" if facts else "alike",
            ),
        ),
        n_labels=3,
    )


def _differing_facts(by_engine: Engines) -> list[str]:
    """What engines differ in."""
    keys = sorted({key for facts, _ in by_engine for key in facts})
    return [key for key in keys if len({str(facts.get(key)) for facts, _ in by_engine}) > 1]


def _draws(results: Results, benchmark: str, point_audits: Sequence[PointAudit]) -> Table:
    rows: list[TableRow] = []
    for audit in point_audits:
        row: list[str | ColoredCell] = [audit.name, f"{audit.draws:,}"]
        for kind, count in (("unscored", audit.unscored), ("truncated", audit.truncated)):
            shown = audit.examples[kind]
            row.append(_share(count, audit.draws))
            row.append(_example(results, benchmark, audit.name, kind, shown))
        rows.append(tuple(row))
    return Table(
        title="Draws that were not judged, or cut off at the longest response",
        header=("point", "draws", "unscored", "e.g.", "truncated", "e.g."),
        rows=tuple(rows),
        notes=() if rows else ("No point has complete, graded draws on this benchmark yet.",),
    )


def _example(
    results: Results, benchmark: str, name: str, kind: str, shown: Example
) -> str | ColoredCell:
    """A link to a draw, with the filter or the page of draws that shows it."""
    if shown is None:
        return ""
    problem, draw = shown
    more = {
        "truncated": {"finish": "length"},
        "unscored": {"outcome": "unscored"},
        "differing": {"order": "draw"}
        | ({"page": str(1 + draw // SHOWN)} if draw >= SHOWN else {}),
    }[kind]
    checkpoint = checkpoints_by_name(results)[name]
    href = draws_link(results, benchmark=benchmark, problem=problem, checkpoint=checkpoint, **more)
    return ColoredCell(text=shortened(problem, 24), href=href)


def _graders(results: Results, benchmark: str, differing: Sequence[Disagreement]) -> Table:
    rows: list[TableRow] = []
    for pair in differing:
        first, second = pair.versions
        linked = _example(results, benchmark, pair.name, "differing", pair.example)
        counts = (f"{pair.draws:,}", _share(pair.differing, pair.draws), f"{pair.only_second:,}")
        rows.append((pair.name, f"{first}, {second}", *counts, linked))
    return Table(
        title="Graders that judge the same draws differently",
        header=("point", "graders", "draws", "differing", "right by the second alone", "e.g."),
        rows=tuple(rows),
        n_labels=2,
        notes=() if rows else ("Every point has the grades of one grader only.",),
    )


def _engines(by_engine: Engines) -> Table:
    keys = sorted({key for facts, _ in by_engine for key in facts})
    differing = _differing_facts(by_engine)
    rows: list[TableRow] = []
    for facts, points in by_engine:
        text = ", ".join(points[:LISTED])
        text += f" and {len(points) - LISTED} more" if len(points) > LISTED else ""
        shades = [
            ColoredCell(text=str(facts.get(key, "")), kind="failed" if key in differing else "")
            for key in keys
        ]
        rows.append((f"{len(points)}", *shades, ColoredCell(text=text, kind="wrap")))
    if differing:
        note = (
            f"The engines differ in {', '.join(differing)}: draws of their points may differ in "
            "more than the training."
        )
    elif by_engine:
        note = "All recorded engines are alike."
    else:
        note = "No engine was recorded."
    return Table(
        title="Engines that made the draws",
        header=("points", *keys, "which"),
        rows=tuple(rows),
        n_labels=len(keys) + 2,
        notes=(note,),
    )


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / total:.2%})" if total and count else f"{count:,}"


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


def _files(results: Results, benchmark: str) -> FileState:
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
        for pair in combinations(_main_first(checkpoint, benchmark), 2):
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
        for facts in checkpoint.engines(benchmark):
            for other_facts, points in by_engine:
                if other_facts == facts:
                    points.append(checkpoint.name)
                    break
            else:
                by_engine.append((facts, [checkpoint.name]))
    return by_engine


def _main_first(checkpoint: EvaluatedCheckpoint, benchmark: str) -> list[str]:
    main = grades_version(checkpoint, benchmark)
    return sorted(layers(checkpoint, benchmark), key=lambda version: (version != main, version))


def _layer(checkpoint: EvaluatedCheckpoint, benchmark: str, version: str) -> pl.LazyFrame:
    path = checkpoint.evaluate.benchmark(benchmark).grades(version)
    return scan_table(path, GRADES).select("problem_id", "draw", "outcome")


def _first(draws: pl.DataFrame) -> Example:
    """draws: columns DRAW."""
    return next(iter(draws.sort(DRAW).rows()), None)
