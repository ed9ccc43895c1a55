"""Audit: in one line whether all is clean, then what is not: draws that were not judged or cut off,
graders that disagree, engines that differ."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade, run_of
from dashboards.pages.draws import SHOWN
from dashboards.pages.draws_links import draws_link
from dashboards.queries.audit import (
    Disagreement,
    Engines,
    Example,
    PointAudit,
    audits,
    disagreements,
    engines,
)
from dashboards.queries.store import checkpoints_of
from dashboards.text import shortened
from fgrpo_bench.results import Results

CUT_OFF = 0.05
"""Share of a point's draws that may be cut off before it is told."""
LISTED = 12
"""Points of an engine that are named."""


def build(results: Results, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark."""
    form = Form(run_of(results), "audit", given, links)
    benchmark = form.value("benchmark", results.benchmarks)
    looked = audits(results, benchmark)
    differing = disagreements(results, benchmark)
    by_engine = engines(results, benchmark)
    grids = [
        _draws(results, links, benchmark, [audit for audit in looked if not _is_clean(audit)]),
        _graders(results, links, benchmark, [pair for pair in differing if pair.differing]),
        *([_engines(by_engine)] if differing_facts(by_engine) else []),
    ]
    return Page(
        address=form.address(),
        title=f"{benchmark}: audit",
        lead=verdict(looked, differing, by_engine, len(results.checkpoints)),
        controls=choices(form.control("benchmark", "Benchmark")),
        context={
            "grids": [grid for grid in grids if grid.rows],
            "whole": [
                _draws(results, links, benchmark, looked),
                _graders(results, links, benchmark, differing),
                _engines(by_engine),
            ],
        },
    )


def _is_clean(audit: PointAudit) -> bool:
    return not audit.unscored and audit.truncated <= CUT_OFF * audit.draws


def verdict(
    looked: Sequence[PointAudit],
    differing: Sequence[Disagreement],
    by_engine: Engines,
    n_points: int,
) -> str:
    """One line: that all is clean, or what is not."""
    trouble = []
    unscored = [audit for audit in looked if audit.unscored]
    if unscored:
        total = sum(audit.unscored for audit in unscored)
        trouble.append(f"{total:,} draws of {len(unscored)} points could not be judged")
    cut = [audit for audit in looked if audit.truncated > CUT_OFF * audit.draws]
    if cut:
        trouble.append(f"more than {CUT_OFF:.0%} of the draws of {len(cut)} points are cut off")
    judged_two_ways = [pair for pair in differing if pair.differing]
    if judged_two_ways:
        total = sum(pair.differing for pair in judged_two_ways)
        trouble.append(f"graders differ on {total:,} draws")
    if facts := differing_facts(by_engine):
        trouble.append(f"the engines differ in {', '.join(facts)}")
    missing = n_points - len(looked)
    so_far = f" {missing} of {n_points} points have no judged draws yet." if missing else ""
    if not looked:
        return "No point has complete, graded draws on this benchmark yet."
    if trouble:
        return f"Not clean: {'; '.join(trouble)}.{so_far}"
    total = sum(audit.draws for audit in looked)
    most = max(audit.truncated / audit.draws for audit in looked if audit.draws)
    return (
        f"Clean: all {total:,} draws of {len(looked)} points are judged, at most {most:.1%} of a "
        f"point's are cut off, graders agree, and engines are alike.{so_far}"
    )


def differing_facts(by_engine: Engines) -> list[str]:
    """What engines differ in."""
    keys = sorted({key for facts, _ in by_engine for key in facts})
    return [key for key in keys if len({str(facts.get(key)) for facts, _ in by_engine}) > 1]


def _draws(results: Results, links: Links, benchmark: str, looked: Sequence[PointAudit]) -> Grid:
    rows: list[Row] = []
    for audit in looked:
        row: list[str | Shade] = [audit.name, f"{audit.draws:,}"]
        for kind, count in (("unscored", audit.unscored), ("truncated", audit.truncated)):
            shown = audit.examples[kind]
            row.append(_share(count, audit.draws))
            row.append(_example(results, links, benchmark, audit.name, kind, shown))
        rows.append(tuple(row))
    return Grid(
        title="Draws that were not judged, or cut off at the longest response",
        header=("point", "draws", "unscored", "e.g.", "truncated", "e.g."),
        rows=tuple(rows),
        notes=() if rows else ("No point has complete, graded draws on this benchmark yet.",),
    )


def _example(
    results: Results, links: Links, benchmark: str, name: str, kind: str, shown: Example
) -> str | Shade:
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
    checkpoint = checkpoints_of(results)[name]
    href = draws_link(
        results, links, benchmark=benchmark, problem=problem, checkpoint=checkpoint, **more
    )
    return Shade(text=shortened(problem, 24), href=href)


def _graders(
    results: Results, links: Links, benchmark: str, differing: Sequence[Disagreement]
) -> Grid:
    rows: list[Row] = []
    for pair in differing:
        first, second = pair.versions
        linked = _example(results, links, benchmark, pair.name, "differing", pair.example)
        counts = (f"{pair.draws:,}", _share(pair.differing, pair.draws), f"{pair.only_second:,}")
        rows.append((pair.name, f"{first}, {second}", *counts, linked))
    return Grid(
        title="Graders that judge the same draws differently",
        header=("point", "graders", "draws", "differing", "right by the second alone", "e.g."),
        rows=tuple(rows),
        n_words=2,
        notes=() if rows else ("Every point has the grades of one grader only.",),
    )


def _engines(by_engine: Engines) -> Grid:
    keys = sorted({key for facts, _ in by_engine for key in facts})
    differing = differing_facts(by_engine)
    rows: list[Row] = []
    for facts, points in by_engine:
        words = ", ".join(points[:LISTED])
        words += f" and {len(points) - LISTED} more" if len(points) > LISTED else ""
        shades = [
            Shade(text=str(facts.get(key, "")), kind="failed" if key in differing else "")
            for key in keys
        ]
        rows.append((f"{len(points)}", *shades, Shade(text=words, kind="wrap")))
    note = (
        f"The engines differ in {', '.join(differing)}: draws of their points may differ in more "
        "than the training."
        if differing
        else "All recorded engines are alike."
        if by_engine
        else "No engine was recorded."
    )
    return Grid(
        title="Engines that made the draws",
        header=("points", *keys, "which"),
        rows=tuple(rows),
        n_words=len(keys) + 2,
        notes=(note,),
    )


def _share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.2%})" if of and count else f"{count:,}"
