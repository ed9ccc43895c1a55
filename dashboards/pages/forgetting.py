"""Forgetting: problems by points as a heat map of success rates, sorted by what training lost."""

from __future__ import annotations

from dashboards.form import Form, Given, choices
from dashboards.page import Links, Page, run_of
from dashboards.pages.forgetting_charts import Drawing
from dashboards.queries.analysis import analysis_of, fates_of
from dashboards.queries.draws import is_gated
from dashboards.queries.problems import words_of
from fgrpo_bench.analysis.coverage import least_rate
from fgrpo_bench.results import Results

ROWS = 40
"""Problems on a page of the table; the heat map has all."""
ORDERS = {
    "loss": "largest loss first",
    "gain": "largest gain first",
    "base": "hardest for the base model first",
    "name": "by name",
}
ALL = "all"


def build(results: Results, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark, k, seed, order, page."""
    form = Form(run_of(results), "forgetting", given, links)
    benchmark = form.value("benchmark", results.benchmarks)
    ks = results.evaluation["ks"]
    k = int(form.value("k", ks, str(ks[-1])))
    seeds = {each.seed for each in results.checkpoints if each.seed is not None}
    seed = form.value("seed", [ALL, *sorted(seeds)])
    order = form.value("order", ORDERS)
    fates = fates_of(results, benchmark, k)
    n_pages = max(1, -(-len(fates.problems) // ROWS))
    at = int(form.value("page", range(1, n_pages + 1)))
    before = (at - 1) * ROWS
    hidden = links.is_static and any(
        is_gated(results, each, benchmark) for each in fates.checkpoints
    )
    drawing = Drawing(
        analysis_of(results),
        links,
        benchmark=benchmark,
        k=k,
        fates=fates,
        seed=None if seed == ALL else int(seed),
        words=words_of(results, benchmark, withheld=hidden),
    )
    columns = fates.order(order)
    return Page(
        address=form.address(),
        title=f"{benchmark}: which problems were forgotten",
        lead=(
            f"A problem is within reach at k = {k} where one of {k} draws is more likely right "
            f"than none (a success rate of {least_rate(k):.2g} and more)."
        ),
        controls=choices(
            form.control("benchmark", "Benchmark", forgotten=["page"]),
            form.control("order", "Order", ORDERS, forgotten=["page"]),
            form.control("k", "Within reach at k"),
            form.control("seed", "Seed", forgotten=["page"]),
        ),
        charts=(drawing.heat(columns), drawing.covered()),
        context={
            "table": drawing.table(columns[before : before + ROWS], before),
            "pages": choices(form.control("page", "Page of the table", long=n_pages > 12)),
            "counts": drawing.counts(),
        },
    )
