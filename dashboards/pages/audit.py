"""Audit: unscored and truncated draws, graders that disagree, engines that differ."""

from __future__ import annotations

from dashboards.form import Form, Given, choices
from dashboards.page import Grid, Links, Page, Row, Shade
from dashboards.pages.draws import SHOWN
from dashboards.pages.draws_links import draws_link
from dashboards.queries.audit import Example, audits, disagreements, engines
from dashboards.queries.store import points_of
from dashboards.text import shortened
from fgrpo_bench.results import SweepResults

LISTED = 12
"""Points of an engine that are named."""


def build(results: SweepResults, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark."""
    form = Form(results.paths, "audit", given, links)
    benchmark = form.one("benchmark", results.benchmarks)
    grids = [
        _draws(results, links, benchmark),
        _graders(results, links, benchmark),
        _engines(results, benchmark),
    ]
    return Page(
        address=form.address(),
        title=f"{benchmark}: audit",
        lead="What a reviewer would ask before believing a difference.",
        controls=choices(form.control("benchmark", "Benchmark")),
        context={"grids": grids},
    )


def _draws(results: SweepResults, links: Links, benchmark: str) -> Grid:
    rows: list[Row] = []
    for one in audits(results, benchmark):
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


def _graders(results: SweepResults, links: Links, benchmark: str) -> Grid:
    rows: list[Row] = []
    for one in disagreements(results, benchmark):
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


def _engines(results: SweepResults, benchmark: str) -> Grid:
    found = engines(results, benchmark)
    keys = sorted({key for facts, _ in found for key in facts})
    differing = [key for key in keys if len({str(facts.get(key)) for facts, _ in found}) > 1]
    rows: list[Row] = []
    for facts, points in found:
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
        if found
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
