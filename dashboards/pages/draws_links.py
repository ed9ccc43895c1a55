"""Links to the draws of a problem: of a point beside its base model, and from a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards.page import Address, Links
from dashboards.pages.compare_rows import in_front
from dashboards.queries.analysis import Fates, analysis_of
from fgrpo_bench.analysis.read import key_of
from fgrpo_bench.analysis.rows import make_cell
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults


def compared_points(results: SweepResults, fates: Fates | None) -> tuple[str, str]:
    """What the page of draws opens on: the two cells that say most of the sweep's question, or a
    base model and the first run, of a seed that both have. fates: None without an analysis."""
    pair = None if fates is None else in_front(analysis_of(results))
    points = {(key_of(point)[0], point.seed): point.point_id for point in results.points}
    first = next((key_of(point)[0] for point in results.points if point.cell), "base")
    old, new = ("base", first) if pair is None else (pair.old, pair.new)
    for cell, seed in points:
        if cell == old and (new, seed) in points:
            return points[old, seed], points[new, seed]
    every = list(points.values())
    return every[0], every[-1]


def label_of(point: PointResult) -> str:
    """e.g. `GRPO N=8, seed 11`."""
    return f"{make_cell(point.cell, step=point.step, n_planned=1).label}, seed {point.seed}"


def draws_link(
    results: SweepResults,
    links: Links,
    *,
    benchmark: str,
    problem: str,
    point: PointResult,
    **more: str,
) -> str | None:
    """The page of a problem's draws: the base model of a point's seed beside the point."""
    base = next(
        (p.point_id for p in results.points if p.cell is None and p.seed == point.seed),
        results.points[0].point_id,
    )
    return links.page(
        draws_address(results, benchmark, problem=problem, a=base, b=point.point_id, **more)
    )


def draws_address(results: SweepResults, benchmark: str, **chosen: str) -> Address:
    """A page of draws, by its parameters beside the benchmark."""
    own = {} if benchmark == results.benchmarks[0] else {"benchmark": benchmark}
    pairs = tuple(sorted((own | chosen).items()))
    return Address(run=results.paths, view="draws", parameters=pairs)


def draws_clicks(
    results: SweepResults,
    links: Links,
    *,
    benchmark: str,
    problems: Sequence[str],
    points: Sequence[PointResult],
) -> dict[str, Any]:
    """Chart.clicks of a heat map with a row a problem and a column a point."""
    if not links.is_static:
        chosen = (("benchmark", benchmark),)
        base = links.page(Address(run=results.paths, view="draws", parameters=chosen))
        bases = {p.seed: p.point_id for p in results.points if p.cell is None}
        pairs = [[bases.get(p.seed, p.point_id), p.point_id] for p in points]
        return {"href": base, "problems": list(problems), "points": pairs}
    at = {}
    for row, problem in enumerate(problems):
        for column, point in enumerate(points):
            if href := draws_link(
                results, links, benchmark=benchmark, problem=problem, point=point
            ):
                at[f"{row},{column}"] = href
    return {"at": at}
