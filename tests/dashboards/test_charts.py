"""The library call under every chart runs as it stands and gives the chart's numbers."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as graph
import polars as pl
import pytest

from dashboards.page import Page
from dashboards.pages import BUILDERS
from fgrpo_bench.analysis import analysed
from fgrpo_bench.report.words import answer
from fgrpo_bench.stages.tables import METRICS, write_table
from tests.support.on_paths import AT, FOCAL, PLAIN, sweep_on_paths
from tests.support.report import copy

VIEWS = ("sweep", "compare", "forgetting")


@pytest.fixture(scope="module")
def uneven(finished, tmp_path_factory):
    """A sweep whose cells cost differently."""
    results = copy(finished, tmp_path_factory.mktemp("uneven"))
    for point in results.points:
        if point.cell is not None and point.cell.group_size == 8:
            dear = point.metrics().with_columns(pl.col("rollouts") * 2)
            write_table(point.train.metrics, dear, METRICS)
    return results


@pytest.fixture(scope="module")
def sweep(finished, tmp_path_factory):
    """A copy, since `load` stores the analysis that it makes."""
    return copy(finished, tmp_path_factory.mktemp("loaded"))


def build(results: Any, view: str, **given: str | list[str]) -> Page:
    values = {name: [one] if isinstance(one, str) else one for name, one in given.items()}
    return BUILDERS[view](results, values)


def run(call: str, results: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a call gives."""
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(results.paths.root))
    names: dict[str, Any] = {}
    exec(call, names)  # noqa: S102 - the project's own text, which is what is tested
    return names["result"]


def charts(results: Any) -> dict[str, Any]:
    pages = [build(results, view) for view in VIEWS]
    return {chart.name: chart for page in pages for chart in page.charts}


@pytest.mark.slow
def test_every_figure_is_one_that_plotly_takes(finished):
    for name, chart in charts(finished).items():
        graph.Figure(chart.figure)
        assert chart.figure["data"], name
        assert len(chart.data) > 0, name


FRAMES = {
    "compare": {"curves", "plane", "differences", "band"},
    "forgetting": {"heat", "fates"},
}
"""Charts whose data are rows of the analysis."""
CHOICES = [
    ("compare", {}),
    ("compare", {"k": "8", "against": "grpo-n2-g0", "cost": "tokens"}),
    ("compare", {"against": "grpo-n8-g0", "over": "grpo-n8-g1"}),
    ("forgetting", {}),
    ("forgetting", {"k": "8", "seed": "12", "order": "gain"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("view", "chosen"), CHOICES)
def test_a_call_gives_the_rows_that_its_chart_shows(sweep, monkeypatch, view, chosen):
    page = build(sweep, view, **chosen)
    charts = {chart.name: chart for chart in page.charts}
    missing = {"band"} - charts.keys() if chosen.get("against") == "grpo-n2-g0" else set()
    assert charts.keys() == FRAMES[view] - missing
    for name, chart in charts.items():
        assert run(chart.call, sweep, monkeypatch).equals(chart.data), name


@pytest.mark.slow
def test_paths_are_drawn_with_their_steps_and_the_gap_at_equal_pass_at_1(tmp_path, monkeypatch):
    results = sweep_on_paths(tmp_path, AT)
    page = build(results, "compare", over=f"{FOCAL}:{PLAIN}")
    charts = {chart.name: chart for chart in page.charts}
    gap, *paths = charts["paths"].figure["data"]
    assert gap["fill"] == "toself"
    assert [trace["text"] for trace in paths] == [["base", "4", "8", "12", "16", "20"]] * 2
    assert "points of pass@32 at pass@1 = " in charts["paths"].note
    assert run(charts["paths"].call, results, monkeypatch).equals(charts["paths"].data)
    assert graph.Figure(charts["paths"].figure)
    table = page.context["on_paths"]
    assert len(table.rows) == 5 and table.rows[1][-1].text == "significant"
    assert page.lead.startswith("Which of 2 cells keeps more of pass@32 than GRPO N=8 at equal")
    forest = charts["differences"]
    assert forest.title == "Difference in pass@32 to GRPO N=8, at equal pass@1"
    assert forest.figure["data"][1]["x"] == [
        100 * row for row in forest.data["difference"].round(6)
    ]
    assert run(forest.call, results, monkeypatch).equals(forest.data)
    at_1 = build(results, "compare", k="1")
    assert "differences" not in {chart.name for chart in at_1.charts} and at_1.context["apart"]


@pytest.mark.slow
def test_forgetting_says_in_a_sentence_and_on_its_bars_how_many_problems_were_lost(sweep):
    page, analysis = build(sweep, "forgetting"), analysed(sweep)
    (chart,) = (each for each in page.charts if each.name == "fates")
    lost, *_ = chart.figure["data"]
    rows = analysis.coverage.filter(column="countdown", k=32)
    assert lost["text"] == [f"{value:.0f}" for value in rows["lost"]]
    by_cell = dict(rows.select("cell", "lost").iter_rows())
    assert page.lead == (
        f"GRPO N=8 lost {by_cell['grpo-n8-g0']:.0f} of 24 problems, "
        f"F-GRPO N=8 gamma=1 lost {by_cell['grpo-n8-g1']:.0f}."
    )


@pytest.mark.slow
def test_compute_is_drawn_where_cells_cost_differently_and_said_where_they_cost_the_same(
    sweep, uneven, monkeypatch
):
    even = build(sweep, "compare")
    assert even.context["same_cost"] and "cost" not in {each.name for each in even.controls}
    page = build(uneven, "compare", cost="tokens")
    (chart,) = (each for each in page.charts if each.name == "compute")
    assert run(chart.call, uneven, monkeypatch).equals(chart.data)
    assert not page.context["same_cost"] and "cost" in {each.name for each in page.controls}


def test_compare_opens_on_what_the_sweep_declares(sweep):
    page, analysis = build(sweep, "compare"), analysed(sweep)
    own = analysis.comparisons.filter(pl.col("family").is_not_null())
    (chart,) = (each for each in page.charts if each.name == "differences")
    keys = ["new", "old", "k"]
    assert set(chart.data.select(keys).rows()) == set(own.select(keys).rows())
    seeds, means = chart.figure["data"]
    assert means["x"] == pytest.approx(
        [100 * value for value in chart.data["difference"]], abs=1e-4
    )
    assert sorted(seeds["x"]) == pytest.approx(
        sorted(100 * value for row in own["by_seed"] for value in row), abs=1e-4
    )
    assert page.lead == " ".join(answer(analysis))


def test_the_two_in_front_have_bands_and_the_others_lines(sweep):
    page = build(sweep, "compare", against="grpo-n2-g0", over="grpo-n8-g1")
    charts = {chart.name: chart.figure["data"] for chart in page.charts}
    banded = [trace["legendgroup"] for trace in charts["curves"] if "fill" in trace]
    front = {"GRPO N=2", "F-GRPO N=8 gamma=1"}
    assert set(banded) == front and len(charts["curves"]) > 2 * len(front)
    barred = {trace["name"] for trace in charts["plane"] if trace["error_x"]["visible"]}
    assert barred == front


@pytest.mark.slow
def test_a_call_leaves_out_the_cells_that_are_not_ticked(uneven, monkeypatch):
    sweep, picked = uneven, ["base", "grpo-n2-g0", "grpo-n8-g1"]
    chosen = {"cell": picked, "against": "base"}
    charts = {chart.name: chart for chart in build(sweep, "compare", **chosen).charts}
    for name in ("curves", "plane", "compute"):
        said = run(charts[name].call, sweep, monkeypatch)
        assert said.equals(charts[name].data)
        assert set(said["cell"]) <= set(picked)
    every = run(charts["differences"].call, sweep, monkeypatch)
    assert every.filter(pl.col("new").is_in(picked)).equals(charts["differences"].data)
    assert len(every) > len(charts["differences"].data)


def test_calls_of_training_give_what_their_charts_show(sweep, monkeypatch):
    found = charts(sweep)
    said = {name: run(found[name].call, sweep, monkeypatch) for name in ("learning", "steps")}
    learned = sum(len(frame) for frame in said["learning"].values())
    assert learned == found["learning"].data["seeds"].sum()
    for row in found["steps"].data.iter_rows(named=True):
        frames = (said["steps"][p] for p in said["steps"] if p.startswith(f"{row['cell']}-s"))
        values = pl.concat(frames).filter(step=row["step"])["reward"]
        assert (values.mean(), len(values)) == (pytest.approx(row["reward"]), row["seeds"])
