"""Links to the draws of a problem: of a point beside its base model, and from a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboards.page import Address, Links, run_of
from dashboards.pages.compare_rows import in_front
from dashboards.queries.analysis import Fates, analysis_of
from fgrpo_bench.analysis.rows import make_cell
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results
from fgrpo_bench.specs.cell import BASE


def compared_checkpoints(results: Results, fates: Fates | None) -> tuple[str, str]:
    """What the page of draws opens on: the two cells that say most of the sweep's question, or a
    base model and the first run, of a seed that both have. fates: None without an analysis."""
    pair = None if fates is None else in_front(analysis_of(results))
    points = {(each.label, each.seed): each.name for each in results.checkpoints}
    first = next((each.label for each in results.checkpoints if each.label != BASE), BASE)
    old, new = (BASE, first) if pair is None else (pair.old, pair.new)
    for cell, seed in points:
        if cell == old and (new, seed) in points:
            return points[old, seed], points[new, seed]
    every = list(points.values())
    return every[0], every[-1]


def label_of(checkpoint: EvaluatedCheckpoint) -> str:
    """e.g. `GRPO N=8, seed 11`; without a seed the label alone."""
    own = checkpoint
    label = make_cell(own.cell, label=own.label, step=own.step, n_planned=1).label
    return label if own.seed is None else f"{label}, seed {own.seed}"


def draws_link(
    results: Results,
    links: Links,
    *,
    benchmark: str,
    problem: str,
    checkpoint: EvaluatedCheckpoint,
    **more: str,
) -> str | None:
    """The page of a problem's draws: the base model of a checkpoint's seed beside it."""
    base = bases_of(results).get(checkpoint.seed, results.checkpoints[0].name)
    return links.page(
        draws_address(results, benchmark, problem=problem, a=base, b=checkpoint.name, **more)
    )


def bases_of(results: Results) -> dict[int | None, str]:
    """Names of the base models by seed."""
    return {each.seed: each.name for each in results.checkpoints if each.label == BASE}


def draws_address(results: Results, benchmark: str, **chosen: str) -> Address:
    """A page of draws, by its parameters beside the benchmark."""
    own = {} if benchmark == results.benchmarks[0] else {"benchmark": benchmark}
    pairs = tuple(sorted((own | chosen).items()))
    return Address(run=run_of(results), view="draws", parameters=pairs)


def draws_clicks(
    results: Results,
    links: Links,
    *,
    benchmark: str,
    problems: Sequence[str],
    checkpoints: Sequence[EvaluatedCheckpoint],
) -> dict[str, Any]:
    """Chart.clicks of a heat map with a row a problem and a column a checkpoint."""
    if not links.is_static:
        chosen = (("benchmark", benchmark),)
        base = links.page(Address(run=run_of(results), view="draws", parameters=chosen))
        bases = bases_of(results)
        pairs = [[bases.get(each.seed, each.name), each.name] for each in checkpoints]
        return {"href": base, "problems": list(problems), "points": pairs}
    at = {}
    for row, problem in enumerate(problems):
        for column, checkpoint in enumerate(checkpoints):
            if href := draws_link(
                results, links, benchmark=benchmark, problem=problem, checkpoint=checkpoint
            ):
                at[f"{row},{column}"] = href
    return {"at": at}
