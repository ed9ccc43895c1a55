"""Every number of every view is the frames' own: read off the view, and looked up in a frame.

What is printed is expected from the frame's columns with the digits that the view has, written down
here once more. The sweep has all that views used to disagree about: an average, several
checkpoints, an incomplete cell and draws that could not be judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from dashboards.charts import rate_steps
from dashboards.page import Page
from dashboards.pages import BUILDERS
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.table import Table, plain_text
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.states import RunState

COLUMNS = ("average in-domain", "countdown", "other")
KS = (1, 8, 32)
TOTALS = ["retained", "lost", "gained", "neither"]


def test_the_sweep_is_one_that_views_could_disagree_about(mixed):
    assert mixed.columns == COLUMNS and mixed.ks == KS
    rows = mixed.estimates.filter(cell="grpo-n8-g0", column="average in-domain")
    assert set(rows["step"]) == {10, 20} and (rows.filter(step=20)["unscored"] > 0).all()
    assert mixed.estimate("countdown", "grpo-n8-g1", 1).lacks == ("2 of 3 seeds",)


# dashboard


def page(analysis: Analysis, view: str, **chosen: Any) -> Page:
    given = {name: [str(value)] for name, value in chosen.items()}
    return BUILDERS[view](analysis.results, given)


def texts(grid: Table) -> list[list[str]]:
    return [list(map(plain_text, row)) for row in grid.rows]


def percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.1f}"


def interval(row: dict[str, Any], middle: str, sign: str = "") -> str:
    mean, low, high = (percent(row[name], sign) for name in (middle, "low", "high"))
    return f"{mean} [{low}, {high}]"


def p_value(value: float | None) -> str:
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def drawn(values: list[float | None]) -> Any:
    """As charts have fractions, in percent."""
    return pytest.approx([100 * value for value in values], abs=1e-4)


def unfinished(row: dict[str, Any]) -> list[str]:
    """What stands in the columns of unfinished text."""
    shares = [row[name] for name in ("cut_off", "correct_cut_off")]  # none by its place here
    return ["-" if share is None else f"{share:.1%}" for share in shares]


@pytest.mark.parametrize("column", COLUMNS)
def test_compare_prints_and_draws_the_estimates(mixed, column):
    chosen = mixed.estimates.filter(column=column, is_chosen=True)
    labels = {name: cell.label for name, cell in mixed.by_cell.items()}
    shown = page(mixed, "compare", benchmark=column, k=8)
    front = {
        cell: f"dominated by {', '.join(labels[name] for name in by)}" if by else "not dominated"
        for cell, by in mixed.front.filter(column=column)
        .drop_nulls("is_on_front")
        .select("cell", "dominated_by")
        .iter_rows()
    }
    assert bool(front) == (column == "average in-domain"), "the question is about the average"
    expected = []
    for name in mixed.by_cell:
        own = {row["k"]: row for row in chosen.filter(cell=name).to_dicts()}
        values = [interval(own[k], "mean") for k in (1, 8)]
        counts = [str(len(own[1]["seeds"])), str(own[1]["n_problems"])]
        expected.append([labels[name], *values, *unfinished(own[1]), *counts, front.get(name, "-")])
    assert texts(shown.context["table"]) == expected
    lines = {t["name"]: t for t in chart(shown, "curves")["data"] if "name" in t}
    points = {t["name"]: t for t in chart(shown, "plane")["data"]}
    for name, label in labels.items():
        own = chosen.filter(cell=name)
        assert lines[label]["y"] == drawn(own["mean"].to_list())
        at = {k: own.filter(k=k).to_dicts()[0] for k in (1, 8)}
        for axis, k in (("x", 1), ("y", 8)):
            assert points[label][axis] == drawn([at[k]["mean"]])
            up = points[label][f"error_{axis}"]["array"]
            assert up == drawn([at[k]["high"] - at[k]["mean"]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "k", "against"), itertools.product(COLUMNS, KS, ["base", "grpo-n8-g0"])
)
def test_compare_prints_the_differences_of_the_frame_and_corrects_nothing_anew(
    mixed, column, k, against
):
    frame = mixed.comparisons.filter(column=column, k=k)
    shown = page(mixed, "compare", benchmark=column, k=k, against=against)
    few = page(mixed, "compare", benchmark=column, k=k, against=against, cell="grpo-n8-g1")
    rows = {row[0]: row[1:] for row in texts(shown.context["differences"])}
    assert texts(few.context["differences"])[0][1:] == rows[mixed.by_cell["grpo-n8-g1"].label]
    for name, cell in mixed.by_cell.items():
        if name == against:
            continue
        turned = frame.filter(new=against, old=name)
        (row,) = (frame.filter(new=name, old=against) if turned.is_empty() else turned).to_dicts()
        if len(turned):
            row |= {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
            row["by_seed"] = [-value for value in row["by_seed"]]
        assert rows.pop(cell.label) == [
            interval(row, "difference", "+"),
            ", ".join(percent(value, "+") for value in row["by_seed"]),
            *(p_value(row[name]) for name in ("p", "p_holm", "p_draws")),
            row["verdict"],
        ]
    assert not rows


@pytest.mark.slow
def test_compare_draws_the_band_and_says_where_it_crosses(mixed):
    for loss in mixed.first_loss.to_dicts():
        shown = page(
            mixed, "compare", benchmark=loss["column"], against=loss["old"], over=loss["new"]
        )
        frame = mixed.bands.filter(column=loss["column"], new=loss["new"], old=loss["old"])
        shade, line = chart(shown, "band")["data"]
        assert line["x"] == frame["k"].to_list()
        assert line["y"] == drawn(frame["difference"].to_list())
        assert shade["y"] == drawn([*frame["high"], *frame["low"].reverse()])
        marked = [shape["x0"] for shape in chart(shown, "band")["layout"]["shapes"]]
        assert marked == [k for k in (loss["low"], loss["high"]) if k is not None]
        (note,) = (each.note for each in shown.charts if each.name == "band")
        assert f": {loss['words']}. " in note
    assert len(mixed.first_loss) > 3


@pytest.mark.parametrize("cost", ["rollouts", "train_cpu_seconds"])
def test_compare_draws_every_checkpoint_at_its_cost(mixed, cost):
    shown = page(mixed, "compare", benchmark="other", k=8, cost=cost)
    lines = {trace["name"]: trace for trace in chart(shown, "compute")["data"]}
    frame = mixed.estimates.filter(column="other", k=8).join(mixed.cost, on=["cell", "step"])
    for name, cell in mixed.by_cell.items():
        own = frame.filter(cell=name).drop_nulls(cost)
        if not cell.is_base:
            assert len(own) == (2 if cost == "rollouts" else 1)
            assert lines[cell.label]["x"] == own[cost].to_list()
            assert lines[cell.label]["y"] == drawn(own["mean"].to_list())


@pytest.mark.parametrize(("column", "k"), itertools.product(COLUMNS, (1, 32)))
def test_the_grid_of_the_sweep_prints_the_estimates(mixed, column, k):
    grids = page(mixed, "sweep", benchmark=column, show=f"pass{k}").context["grids"]
    shades = [cell for grid in grids for row in grid.rows for cell in row[1:] if cell.title]
    rows = mixed.estimates.filter(column=column, is_chosen=True, k=k).to_dicts()
    expected = {row["cell"]: interval(row, "mean") for row in rows}
    shown = {s.title: s.text.partition(" (") for s in shades if s.title != "not in the grid"}
    assert {cell: text for cell, (text, _, _) in shown.items()} == expected
    unscored = {row["cell"] for row in rows if row["unscored"] > 0.01}
    assert {cell for cell, (_, _, beside) in shown.items() if "unscored" in beside} == unscored


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "k"), itertools.product(COLUMNS[1:], KS))
def test_forgetting_prints_the_counts_and_what_became_of_the_problems(mixed, benchmark, k):
    shown = page(mixed, "forgetting", benchmark=benchmark, k=k)
    coverage = mixed.coverage.filter(column=benchmark, k=k)
    for trace in chart(shown, "fates")["data"]:
        counts = coverage[trace["name"]].to_list()
        assert np.abs(trace["x"]) == pytest.approx(counts, abs=0.005)
        assert trace["text"] == [f"{number:.0f}" for number in np.abs(trace["x"])]
    named = {point.point_id: point for point in mixed.results.points}
    by_point = shown.context["counts"].rows
    assert len(by_point) == 11  # of 12 trained points one has no results
    for name in coverage["cell"]:
        rows = [row[1:5] for row in by_point if row[0].startswith(f"{name}-s")]
        means = np.array(rows, dtype=float).mean(axis=0)
        assert means == pytest.approx(coverage.filter(cell=name).select(TOTALS).row(0), abs=0.05)
    problems = mixed.problems.filter(benchmark=benchmark)
    counts = {
        (cell, seed, problem): 100 * right / judged
        for cell, seed, problem, right, judged in problems.select(
            "cell", "seed", "problem_id", "n_correct", "n_scored"
        ).iter_rows()
    }
    table = shown.context["table"]
    (heat,) = chart(shown, "heat")["data"]
    for row in table.rows:
        problem, at = row[1].title, int(row[0]) - 1
        for column, shade in enumerate(row[3:]):
            point_id, _, rest = shade.title.removeprefix(f"{problem}, ").partition(": ")
            cell, _, seed = point_id.rpartition("-s")
            assert table.header[3 + column] == seed and point_id in named
            rate = counts.pop((cell, int(seed), problem))
            assert float(shade.text) == pytest.approx(rate, abs=0.5)
            assert rest.startswith(f"{rate:.2f}%")
            assert heat["customdata"][at][column] == pytest.approx(rate, abs=0.006)
            step = rate_steps(rate / 100)
            assert shade.kind.split()[0] == f"r{step}" == f"r{heat['z'][at][column]}"
    spans = [n for _, n in table.groups]
    assert sum(spans) == len(table.header) and spans[0] == 3
    assert not counts


def chart(shown: Page, name: str) -> dict[str, Any]:
    return next(each.figure for each in shown.charts if each.name == name)


# MLflow


@pytest.fixture(scope="module")
def runs(mixed) -> dict[str, RunState]:
    """By cell and by point_id."""
    cell_of = dict(mixed.completeness.select("point_id", "cell").iter_rows())
    wanted = {run.name: run for run in desired_experiment(mixed.results.paths).runs}
    parents = {run.parent: cell_of[run.name] for run in wanted.values() if run.parent}
    return {parents.get(name, name): run.state() for name, run in wanted.items()}


def logged(run: RunState, columns: Iterable[str]) -> dict[tuple[str, int], float]:
    """Everything that a run has of pass@k, by key and step."""
    points = [point for point in run.points if point.key.partition("/")[2] in columns]
    judged = [point for point in points if not point.key.startswith("unscored_fraction")]
    return {(point.key, point.step): point.value for point in judged}


def shown(values: dict[tuple[str, int], float | None]) -> dict[tuple[str, int], float]:
    """Those that are there, with MLflow's four digits."""
    return {key: float(f"{value:.4g}") for key, value in values.items() if value is not None}


@pytest.mark.slow
def test_every_cell_in_mlflow_holds_the_estimates_and_first_losses(mixed, runs):
    for cell, step in mixed.cells.select("cell", "step").iter_rows():
        expected: dict[tuple[str, int], float | None] = {}
        for row in mixed.estimates.filter(cell=cell, is_chosen=True).to_dicts():
            for suffix, name in (("", "mean"), ("_low", "low"), ("_high", "high")):
                expected[f"pass_at_k{suffix}/{row['column']}", row["k"]] = row[name]
                if row["k"] != 8:
                    expected[f"pass_at_{row['k']}{suffix}/{row['column']}", step] = row[name]
        for row in mixed.first_loss.filter(new=cell, old="base").to_dicts():
            for end in ("low", "high"):
                key = f"pass_at_k_first_loss_{end}/{row['column']}"
                expected[key, step] = row[end]
        present = shown(expected)
        assert logged(runs[cell], COLUMNS) == present
        ends = {key for key, _ in expected if "first_loss" in key}
        closed = {key for key, _ in present if "first_loss" in key}
        assert {key for key in runs[cell].tags if "first_loss" in key} == ends - closed


def test_every_point_in_mlflow_holds_its_seed_of_the_estimates(mixed, runs):
    found = 0
    for point, cell, seed in mixed.completeness.select("point_id", "cell", "seed").unique().rows():
        expected = {}
        for row in mixed.estimates.filter(cell=cell).to_dicts():
            for value in [
                v for s, v in zip(row["seeds"], row["by_seed"], strict=False) if s == seed
            ]:
                if row["k"] != 8:
                    expected[f"pass_at_{row['k']}/{row['column']}", row["step"]] = value
                if row["is_chosen"]:
                    expected[f"pass_at_k/{row['column']}", row["k"]] = value
        assert (logged(runs[point], COLUMNS) if point in runs else {}) == shown(expected)
        found += len(expected)
    assert found
