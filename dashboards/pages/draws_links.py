"""Links to the draws of a problem: of a point beside its base model, and from a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards.page import Address, Links, parameters
from fgrpo_bench.results import PointResult, SweepResults


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
        (p.point_id for p in results.points if p.algorithm is None and p.seed == point.seed),
        results.points[0].point_id,
    )
    chosen = parameters(
        {"benchmark": results.benchmarks[0]},
        benchmark=benchmark, problem=problem, a=base, b=point.point_id, **more,
    )  # fmt: skip
    return links.page(Address(run=results.paths, view="draws", parameters=chosen))


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
        bases = {p.seed: p.point_id for p in results.points if p.algorithm is None}
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
