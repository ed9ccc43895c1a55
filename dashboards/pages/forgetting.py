"""Forgetting: problems by points as a heat map of success rates, sorted by what training lost."""

from __future__ import annotations

from typing import Any

from dashboards.page import Address, Links, Page, Params, control, parameters
from dashboards.pages.forgetting_charts import Drawing
from dashboards.queries.forgetting import fates
from dashboards.queries.store import ks_of, seeds_of
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stats.coverage import least_rate

ROWS = 40
"""Problems on a page of the table; the heat map has all."""
ORDERS = {
    "loss": "largest loss first",
    "gain": "largest gain first",
    "base": "hardest for the base model first",
    "name": "by name",
}
ALL = "all"


def build(results: SweepResults, params: Params, links: Links) -> Page:
    """The page; parameters: benchmark, k, seed, order, page."""
    ks, seeds = ks_of(results), seeds_of(results)
    defaults = {
        "benchmark": results.benchmarks[0],
        "k": str(ks[-1]),
        "seed": ALL,
        "order": "loss",
        "page": "1",
    }
    benchmark = params.one("benchmark", results.benchmarks, defaults["benchmark"])
    k = int(params.one("k", map(str, ks), defaults["k"]))
    seed = params.one("seed", [ALL, *map(str, seeds)], ALL)
    order = params.one("order", ORDERS, "loss")
    found = fates(results, benchmark, k)
    n_pages = max(1, -(-len(found.counts.problems) // ROWS))
    at = int(params.one("page", map(str, range(1, n_pages + 1)), "1"))
    chosen = parameters(defaults, benchmark=benchmark, k=k, seed=seed, order=order, page=at)
    address = Address(run=results.paths, view="forgetting", parameters=chosen)

    def choose(name: str, text: str, values: dict[str, str], now: str, **more: Any) -> Any:
        return control(
            name, text, values, chosen=now, links=links, page=address, defaults=defaults, **more
        )

    controls = [
        choose("order", "Order", ORDERS, order, forget=("page",)),
        choose("k", "Within reach at k", {str(k): str(k) for k in ks}, str(k)),
    ]
    if len(results.benchmarks) > 1:
        named = {name: name for name in results.benchmarks}
        controls.insert(0, choose("benchmark", "Benchmark", named, benchmark, forget=("page",)))
    if len(seeds) > 1:
        named = {ALL: ALL} | {str(one): str(one) for one in seeds}
        controls.append(choose("seed", "Seed", named, seed, forget=("page",)))
    pages = {str(i): str(i) for i in range(1, n_pages + 1)}
    rows = [i for i, p in enumerate(found.counts.points) if seed in (ALL, str(p.seed))]
    columns = found.order(order)
    shown = columns[(at - 1) * ROWS : at * ROWS]
    drawing = Drawing(results=results, links=links, benchmark=benchmark, found=found, rows=rows)
    return Page(
        address=address,
        title=f"{benchmark}: which problems were forgotten",
        lead=(
            f"A problem is within reach at k = {k} where one of {k} draws is more likely right "
            f"than none (a success rate of {least_rate(k):.2g} and more)."
        ),
        controls=tuple(controls),
        charts=(drawing.heat(columns), drawing.fates(k)),
        context={
            "table": drawing.table(shown, (at - 1) * ROWS),
            "pages": choose("page", "Page of the table", pages, str(at), long=n_pages > 12)
            if n_pages > 1
            else None,
            "counts": drawing.counts(),
        },
    )
