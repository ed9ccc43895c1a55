"""The library call under every chart runs as it stands and gives the chart's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as graph
import polars as pl
import pytest

from dashboards.app import ServerLinks
from dashboards.page import Page, Params
from dashboards.pages import BUILDERS
from dashboards.queries.store import cells_of

VIEWS = ("sweep", "compare", "forgetting", "theory")


def build(results: Any, view: str, **given: str) -> Page:
    parameters = Params({name: [value] for name, value in given.items()})
    return BUILDERS[view](results, parameters, ServerLinks())


def names_of(call: str, results: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a call defines."""
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(results.paths.root))
    names: dict[str, Any] = {}
    exec(call, names)  # noqa: S102 - the project's own text, which is what is tested
    return names


def run(call: str, results: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return names_of(call, results, monkeypatch)["result"]


def charts(results: Any) -> dict[str, Any]:
    pages = [build(results, view) for view in VIEWS]
    return {chart.name: chart for page in pages for chart in page.charts}


def test_every_figure_is_one_that_plotly_takes(finished):
    for name, chart in charts(finished).items():
        graph.Figure(chart.figure)
        assert chart.figure["data"], name
        assert len(chart.data) > 0, name


def test_every_call_gives_what_its_chart_shows(finished, monkeypatch):
    found = charts(finished)
    labels = {name: cell.label for name, cell in cells_of(finished).items()}
    said = {name: run(chart.call, finished, monkeypatch) for name, chart in found.items()}
    for row in found["curves"].data.iter_rows(named=True):
        one = said["curves"][labels[row["cell"]]][(1, 8, 32).index(row["k"])]
        assert (one.mean, one.low, one.high) == (row["pass_at_k"], row["ci_low"], row["ci_high"])
    for row in found["plane"].data.iter_rows(named=True):
        one = said["plane"][labels[row["cell"]]][(1, 32).index(row["k"])]
        assert one.mean == row["pass_at_k"]
    for row in found["differences"].data.iter_rows(named=True):
        one = said["differences"][labels[row["cell"]]]
        assert (one.mean, one.p_value) == (row["difference"], row["p"])
    for row in found["compute"].data.iter_rows(named=True):
        cost, one = said["compute"][labels[row["cell"]]]
        assert (cost, one.mean) == (row["value"], row["pass_at_k"])
    for row in found["heat"].data.iter_rows(named=True):
        assert said["heat"][row["point_id"]][row["problem_id"]] == row["success_rate"]
    for row in found["fates"].data.iter_rows(named=True):
        assert said["fates"][labels[row["cell"]]]["lost"] == pytest.approx(row["lost"])
    learned = sum(len(frame) for frame in said["learning"].values())
    assert learned == found["learning"].data["seeds"].sum()
    tail = found["tail"].data.filter(success_rate=0.3, tail_share=0.1)
    by_size = dict(tail.select("group_size", "tail_miss_probability").iter_rows())
    for size, value in said["tail"].items():
        assert by_size[size] == pytest.approx(value)
    for row in found["steps"].data.iter_rows(named=True):
        frames = (said["steps"][p] for p in said["steps"] if p.startswith(f"{row['cell']}-s"))
        values = pl.concat(frames).filter(step=row["step"])["reward"]
        assert (values.mean(), len(values)) == (pytest.approx(row["reward"]), row["seeds"])
    half = found["advantage"].data.filter(focal_gamma=0.5)["mean_advantage"]
    assert np.allclose(said["advantage"], half)


def test_a_call_follows_the_controls(finished, monkeypatch):
    page = build(finished, "compare", k="8", against="grpo-n2-g0", cost="cpu_seconds")
    chart = next(one for one in page.charts if one.name == "differences")
    said = run(chart.call, finished, monkeypatch)
    labels = {name: cell.label for name, cell in cells_of(finished).items()}
    for row in chart.data.iter_rows(named=True):
        assert said[labels[row["cell"]]].mean == row["difference"]
    assert "base" in chart.data["cell"]


def test_what_the_sweep_measured_of_the_theory_is_in_the_data_and_in_the_call(
    finished, monkeypatch
):
    found = {chart.name: chart for chart in build(finished, "theory").charts}
    tail, advantage = (names_of(c.call, finished, monkeypatch) for c in found.values())
    data = found["tail"].data
    own = data.filter(pl.col("success_rate").is_null(), tail_share=0.1)
    averaged = dict(own.select("group_size", "tail_miss_probability").iter_rows())
    assert {n: averaged[n] for n in tail["averaged"]} == pytest.approx(tail["averaged"])
    lost = data.drop_nulls("share_lost").select("group_size", "share_lost")
    assert dict(lost.iter_rows()) == pytest.approx(tail["lost"])
    assert set(tail["lost"]) == {2, 8}
    shares = found["advantage"].data["share_of_problems"].drop_nulls()
    assert np.allclose(shares, advantage["shares"])
    assert shares.sum() == pytest.approx(1)
