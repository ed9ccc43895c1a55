"""Audit: in one line whether all is clean, then what is not: draws that were not judged or cut off,
graders that disagree, engines that differ."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade
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
from dashboards.queries.store import points_of
from dashboards.text import shortened
from fgrpo_bench.results import SweepResults

CUT_OFF = 0.05
"""Share of a point's draws that may be cut off before it is told."""
LISTED = 12
"""Points of an engine that are named."""


def build(results: SweepResults, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark."""
    form = Form(results.paths, "audit", given, links)
    benchmark = form.one("benchmark", results.benchmarks)
    looked = audits(results, benchmark)
    differing = disagreements(results, benchmark)
    made = engines(results, benchmark)
    grids = [
        _draws(results, links, benchmark, [one for one in looked if not _is_clean(one)]),
        _graders(results, links, benchmark, [one for one in differing if one.differing]),
        *([_engines(made)] if differing_facts(made) else []),
    ]
    return Page(
        address=form.address(),
        title=f"{benchmark}: audit",
        lead=verdict(looked, differing, made, len(results.points)),
        controls=choices(form.control("benchmark", "Benchmark")),
        context={
            "grids": [grid for grid in grids if grid.rows],
            "whole": [
                _draws(results, links, benchmark, looked),
                _graders(results, links, benchmark, differing),
                _engines(made),
            ],
        },
    )


def _is_clean(one: PointAudit) -> bool:
    return not one.unscored and one.truncated <= CUT_OFF * one.draws


def verdict(
    looked: Sequence[PointAudit],
    differing: Sequence[Disagreement],
    made: Engines,
    n_points: int,
) -> str:
    """One line: that all is clean, or what is not."""
    trouble = []
    unscored = [one for one in looked if one.unscored]
    if unscored:
        total = sum(one.unscored for one in unscored)
        trouble.append(f"{total:,} draws of {len(unscored)} points could not be judged")
    cut = [one for one in looked if one.truncated > CUT_OFF * one.draws]
    if cut:
        trouble.append(f"more than {CUT_OFF:.0%} of the draws of {len(cut)} points are cut off")
    judged_two_ways = [one for one in differing if one.differing]
    if judged_two_ways:
        total = sum(one.differing for one in judged_two_ways)
        trouble.append(f"graders differ on {total:,} draws")
    if facts := differing_facts(made):
        trouble.append(f"the engines differ in {', '.join(facts)}")
    missing = n_points - len(looked)
    so_far = f" {missing} of {n_points} points have no judged draws yet." if missing else ""
    if not looked:
        return "No point has complete, graded draws on this benchmark yet."
    if trouble:
        return f"Not clean: {'; '.join(trouble)}.{so_far}"
    total = sum(one.draws for one in looked)
    most = max(one.truncated / one.draws for one in looked if one.draws)
    return (
        f"Clean: all {total:,} draws of {len(looked)} points are judged, at most {most:.1%} of a "
        f"point's are cut off, graders agree, and engines are alike.{so_far}"
    )


def differing_facts(made: Engines) -> list[str]:
    """What engines differ in."""
    keys = sorted({key for facts, _ in made for key in facts})
    return [key for key in keys if len({str(facts.get(key)) for facts, _ in made}) > 1]


def _draws(
    results: SweepResults, links: Links, benchmark: str, looked: Sequence[PointAudit]
) -> Grid:
    rows: list[Row] = []
    for one in looked:
        row: list[str | Shade] = [one.point_id, f"{one.draws:,}"]
        for kind, count in (("unscored", one.unscored), ("truncated", one.truncated)):
            shown = one.examples[kind]
            row.append(_share(count, one.draws))
            row.append(_example(results, links, benchmark, one.point_id, kind, shown))
        rows.append(tuple(row))
    return Grid(
        title="Draws that were not judged, or cut off at the longest response",
        header=("point", "draws", "unscored", "e.g.", "truncated", "e.g."),
        rows=tuple(rows),
        notes=() if rows else ("No point has complete, graded draws on this benchmark yet.",),
    )


def _example(
    results: SweepResults, links: Links, benchmark: str, point_id: str, kind: str, shown: Example
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
    href = draws_link(
        results, links, benchmark=benchmark, problem=problem, point=points_of(results)[point_id],
        **more,
    )  # fmt: skip
    return Shade(text=shortened(problem, 24), href=href)


def _graders(
    results: SweepResults, links: Links, benchmark: str, differing: Sequence[Disagreement]
) -> Grid:
    rows: list[Row] = []
    for one in differing:
        first, second = one.versions
        linked = _example(results, links, benchmark, one.point_id, "differing", one.example)
        counts = (f"{one.draws:,}", _share(one.differing, one.draws), f"{one.only_second:,}")
        rows.append((one.point_id, f"{first}, {second}", *counts, linked))
    return Grid(
        title="Graders that judge the same draws differently",
        header=("point", "graders", "draws", "differing", "right by the second alone", "e.g."),
        rows=tuple(rows),
        n_words=2,
        notes=() if rows else ("Every point has the grades of one grader only.",),
    )


def _engines(made: Engines) -> Grid:
    keys, differing = sorted({key for facts, _ in made for key in facts}), differing_facts(made)
    rows: list[Row] = []
    for facts, points in made:
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
        if made
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
