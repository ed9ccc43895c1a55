"""Compare: pass@k curves, the pass@1 and pass@k plane, differences, and equal compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboards.page import (
    Address,
    Control,
    Grid,
    Links,
    Page,
    Params,
    Row,
    Shade,
    control,
    parameters,
)
from dashboards.pages.compare_charts import COSTS, Drawing
from dashboards.queries import curves
from dashboards.queries.curves import Difference
from dashboards.queries.store import cells_of, ks_of
from fgrpo_bench.documents.numbers import p_value, with_interval
from fgrpo_bench.documents.numbers import points as signed
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.intervals import LEVEL, Estimate


def build(results: SweepResults, params: Params, links: Links) -> Page:
    """The page; parameters: benchmark, k, against, cost, and any number of cell."""
    cells, ks = cells_of(results), ks_of(results)
    defaults = {
        "benchmark": results.benchmarks[0],
        "k": str(ks[-1]),
        "against": next(iter(cells)),
        "cost": "rollouts",
    }
    benchmark = params.one("benchmark", results.benchmarks, defaults["benchmark"])
    k = int(params.one("k", map(str, ks), defaults["k"]))
    against = params.one("against", cells, defaults["against"])
    cost = params.one("cost", COSTS, defaults["cost"])
    picked = params.many("cell", cells)
    chosen = {name: cells[name] for name in picked or cells}
    address = Address(
        run=results.paths,
        view="compare",
        parameters=parameters(
            defaults, benchmark=benchmark, k=k, against=against, cost=cost, cell=picked
        ),
    )

    def choose(name: str, text: str, values: Mapping[str, str], now: str) -> Control:
        return control(name, text, values, chosen=now, links=links, page=address, defaults=defaults)

    labels = {name: cell.label for name, cell in cells.items()}
    controls = [
        choose("k", "k", {str(k): str(k) for k in ks}, str(k)),
        choose("against", "Differences against", labels, against),
        choose("cost", "Compute in", {name: name.replace("_", " ") for name in COSTS}, cost),
    ]
    if len(results.benchmarks) > 1:
        named = {name: name for name in results.benchmarks}
        controls.insert(0, choose("benchmark", "Benchmark", named, benchmark))
    made = curves.estimates(results, benchmark, ks)
    shown = {name: one for name, one in made.items() if name in chosen}
    found = curves.differences(results, benchmark, k, against, tuple(chosen))
    drawing = Drawing(results=results, benchmark=benchmark, ks=ks, cells=cells)
    return Page(
        address=address,
        title=f"{benchmark}: comparing cells",
        lead="Means over problems and seeds with 95% intervals, the same numbers as in the report.",
        controls=tuple(controls),
        charts=(
            drawing.curves(shown),
            drawing.plane(shown, k),
            drawing.differences(found, k, against),
            drawing.compute(shown, k, cost),
        ),
        context={
            "cells": [(name, cell.label, name in chosen) for name, cell in cells.items()],
            "kept": [pair for pair in address.parameters if pair[0] != "cell"],
            "table": _table(shown, cells, ks, k),
            "differences": _differences(found, k, cells[against]),
            "missing": [cells[name].label for name in chosen if name not in made],
        },
    )


def _table(
    shown: Mapping[str, Sequence[Estimate]],
    cells: Mapping[str, Cell],
    ks: Sequence[int],
    k: int,
) -> Grid:
    wanted = list(dict.fromkeys((ks[0], k)))
    return Grid(
        title="pass@k in percent with 95% intervals",
        header=("cell", *(f"pass@{one}" for one in wanted), "seeds", "problems"),
        rows=tuple(
            (
                cells[name].label,
                *(
                    with_interval(one.mean, one.low, one.high)
                    for one in (made[list(ks).index(k)] for k in wanted)
                ),
                str(made[0].n_seeds),
                str(made[0].n_problems),
            )
            for name, made in shown.items()
        ),
    )


def _differences(found: Sequence[Difference], k: int, reference: Cell) -> Grid:
    rows: list[Row] = []
    for one in found:
        d = one.difference
        shown = d.low is not None and d.high is not None and (d.low > 0 or d.high < 0)
        corrected = shown and one.p_holm is not None and one.p_holm < 1 - LEVEL
        words = "shown, also after Holm" if corrected else "shown" if shown else "not shown"
        rows.append(
            (
                one.cell.label,
                f"{signed(d.mean)} [{signed(d.low)}, {signed(d.high)}]",
                ", ".join(signed(value) for value in d.by_seed),
                *map(p_value, (d.p_value, one.p_holm, one.p_draws)),
                Shade(text=words, kind="shown" if shown else "unshown"),
            )
        )
    return Grid(
        title=f"pass@{k} minus that of {reference.label}, in percentage points",
        header=("cell", "difference [95%]", "by seed", "p", "p Holm", "p draws", "verdict"),
        rows=tuple(rows),
        notes=(
            "p is two-sided, over problems and seeds as the interval; p Holm is corrected over the "
            "rows of this table; p draws takes models and problems as given.",
        ),
    )
