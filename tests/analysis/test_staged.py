"""Analyses of draws that stop: every number against all sequences that a small design lets end."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

from dashboards.rendering import html
from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.checkpoints import read_scores
from fgrpo_bench.analysis.coverage import outcomes
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.paper.theory.__main__ import measure
from fgrpo_bench.stages.tables import PASSK, read_table
from fgrpo_bench.stats.bands import grid
from fgrpo_bench.stats.significance import normal_test
from fgrpo_bench.tracking.desired import desired_experiment
from tests.analysis import test_same_digits
from tests.analysis.test_same_digits import interval, page, texts
from tests.stats.test_staged_sequences import sequences
from tests.support.dashboard import Reader
from tests.support.report import TASKS, copy, made_of_tasks, rewrite_passk
from tests.support.staged import ALL_DRAWN, DESIGN, OPEN, OTHER, UNDER_OTHER, made, verdicts

PLAIN, FOCAL = "grpo-n8-g0", "grpo-n8-g1"
POINTS = [f"{cell}-s{seed}" for cell in ("base", PLAIN, FOCAL) for seed in (11, 12)]
PROBLEMS = [f"p{i:03d}" for i in range(24)]


@pytest.fixture(scope="module")
def analysis(staged):
    return analyse(staged)


def design_of(point_id):
    return OTHER if point_id == UNDER_OTHER else DESIGN


def draws_of(point_id, problem):
    """Verdicts up to where a problem stopped; None where draws are missing."""
    if (point_id, problem) == ("grpo-n8-g0-s11", OPEN):
        return None
    return tuple(made(design_of(point_id), verdicts(point_id, 24)[problem]))


@cache
def all_sequences(design):
    return sequences(design, ("right", "wrong"))


@cache
def fails(design, draws, k):
    """Share of the sequences that end with as many correct ones, and lack the same draws, whose
    first k judged draws are all wrong; None where there are fewer."""
    left_out = {i for i, draw in enumerate(draws) if draw == "unscored"}
    if len(draws) == design.stages[-1] and k > len(draws) - len(left_out):
        return None
    alike = failing = 0
    for sequence in all_sequences(design):
        own = [draw for i, draw in enumerate(sequence) if i not in left_out]
        ends_there = len(sequence) == len(draws) and own.count("right") == draws.count("correct")
        if ends_there and all(sequence[i] == "wrong" for i in left_out):
            alike += 1
            failing += "right" not in own[:k]
    return failing / alike


def value(point_id, problem, k):
    """pass@k by counting; nan without one."""
    draws = draws_of(point_id, problem)
    share = None if draws is None else fails(design_of(point_id), draws, k)
    return np.nan if share is None else 1 - share


def values(cell, k):
    """[seeds, problems]."""
    return np.array([[value(f"{cell}-s{seed}", p, k) for p in PROBLEMS] for seed in (11, 12)])


def test_the_sweep_has_all_that_could_go_wrong(staged):
    assert [point.point_id for point in staged.points] == POINTS
    ends = {(len(d), "unscored" in d) for p in POINTS for q in PROBLEMS if (d := draws_of(p, q))}
    assert ends == {(2, False), *((n, unscored) for n in (4, 8) for unscored in (False, True))}
    assert staged.stopping == DESIGN and staged.points[-1].stopping() == OTHER


@pytest.mark.parametrize("cell", ["base", PLAIN, FOCAL])
def test_estimates_are_means_over_the_problems_that_have_stopped(analysis, cell):
    for k in (1, 4, 8):
        row = analysis.estimate("countdown", cell, k)
        own = values(cell, k)
        complete = ~np.isnan(own).any(axis=0)
        assert row.n_problems == complete.sum() > 12
        assert row.by_seed == pytest.approx(own[:, complete].mean(axis=1), abs=1e-12)
        stopped = [
            draws
            for p in POINTS
            if p.startswith(cell)
            for q in PROBLEMS
            if (draws := draws_of(p, q))
        ]
        drawn = sum(map(len, stopped))
        assert row.n_samples == 8 and row.n_draws == pytest.approx(drawn / len(stopped))
        lost = sum(draws.count("unscored") for draws in stopped)
        assert row.unscored == pytest.approx(lost / drawn) and lost
        said = {PLAIN: " (the judgements of 1 ask for more draws)"}.get(cell, "")
        few = [f"{row.n_problems} of 24 problems{said}"] * (row.n_problems < 24)
        other = ["1 of 2 seeds with the declared design"] * (cell == FOCAL)
        assert row.lacks == (*other, *few)
        assert row.designs == ((DESIGN.text, OTHER.text) if cell == FOCAL else (DESIGN.text,))
        assert row.is_redesigned == (cell == FOCAL)
    assert DESIGN.text == (
        "at most 8 draws per problem, in stages 2, 4 and 8; a problem stops after a stage with 2 "
        "correct"
    )


def test_bands_are_of_every_k_also_above_the_draws_of_problems_that_stopped(analysis):
    """At the last one those problems have none there that reached it with an unscored draw."""
    rows = dict(analysis.bands.filter(new=FOCAL, old=PLAIN).select("k", "difference").iter_rows())
    assert set(rows) >= set(range(1, 8)) and grid((1, 4, 8)) == tuple(range(1, 9))
    for k, difference in rows.items():
        own = values(FOCAL, k) - values(PLAIN, k)
        own = own[:, ~np.isnan(own).any(axis=0)]
        assert difference == pytest.approx(own.mean(), abs=1e-12)


def test_the_draws_alone_are_tested_up_to_half_of_the_last_stage(analysis):
    for k in (1, 4, 8):
        row = analysis.comparison("countdown", k, FOCAL, "base")
        pairs = [(f"{cell}-s{seed}", p) for cell in (FOCAL, "base") for seed in (11, 12)
                 for p in PROBLEMS]  # fmt: skip
        twice = [fails(design_of(point), draws_of(point, p), 2 * k) for point, p in pairs]
        if k == 8:
            assert row.p_draws is None and "k=8 with 8 draws" in DESIGN.no_variance(8)
        elif None not in twice:
            once = [1 - value(point, p, k) for point, p in pairs]
            variances = np.square(once) - twice
            half = len(pairs) // 2
            wanted = normal_test(
                (values(FOCAL, k) - values("base", k)).ravel(), variances[:half] + variances[half:]
            )
            assert row.p_draws == pytest.approx(wanted.p_value, rel=1e-9)
    assert analysis.comparison("countdown", 1, FOCAL, "base").p_draws is not None


def test_the_variance_of_draws_is_counted_too(staged):
    scores = read_scores(staged)["countdown"]
    for (cell, _), own in scores.items():
        for k in (1, 2, 4):
            wanted = [
                np.nan
                if draws is None or (twice := fails(design_of(p), draws, 2 * k)) is None
                else fails(design_of(p), draws, k) ** 2 - twice
                for p in POINTS
                if p.startswith(cell)
                for draws in (draws_of(p, q) for q in PROBLEMS)
            ]
            np.testing.assert_allclose(own.draw_variance(k).ravel(), wanted, atol=1e-12)
        assert np.isnan(own.draw_variance(5)).all()
        half = own.selection_split(for_selection=True)
        kept = [own.problems.index(name) for name in half.problems]
        np.testing.assert_array_equal(half.pass_at_ks((3,)), own.pass_at_ks((3,))[:, kept])


def test_success_rates_are_pass_at_1_and_not_shares_of_stopped_draws(analysis):
    rows = analysis.problems.to_dicts()
    assert len(rows) == len(POINTS) * 24
    for row in rows:
        point = f"{row['cell']}-s{row['seed']}"
        draws, own = draws_of(point, row["problem_id"]), value(point, row["problem_id"], 1)
        assert row["n_drawn"] == (None if draws is None else len(draws))
        if draws is None or np.isnan(own):
            assert row["success_rate"] is None
        else:
            assert row["success_rate"] == pytest.approx(own, abs=1e-12)
            assert row["n_correct"] == draws.count("correct")
    told = outcomes(analysis.problems, "countdown", 4).filter(cell=PLAIN).drop_nulls("success_rate")
    (base,) = [values("base", 1)]
    for row in told.to_dicts():
        place = (11, 12).index(row["seed"]), PROBLEMS.index(row["problem_id"])
        assert row["drop"] == pytest.approx(np.nan_to_num(base[place]) - row["success_rate"])
    rates = np.nanmean(base, axis=0)
    inner = rates[(rates > 0) & (rates < 1)]
    assert measure(analysis).success_rates == pytest.approx(inner, abs=1e-12)


def test_tasks_count_the_draws_up_to_where_problems_stopped(staged, tmp_path):
    tasks = analyse(made_of_tasks(copy(staged, tmp_path))).by_value
    for number, task in enumerate(TASKS):
        stopped = [draws_of(f"base-s{seed}", p) for seed in (11, 12) for p in PROBLEMS[number::3]]
        row = tasks.filter(value=task, cell="base", k=4).row(0, named=True)
        n_drawn = sum(map(len, stopped))
        assert row["n_draws"] == pytest.approx(n_drawn / len(stopped))
        n_unscored = sum(draws.count("unscored") for draws in stopped)
        assert row["unscored"] == pytest.approx(n_unscored / n_drawn)


def test_checkpoints_are_judged_by_pass_at_1(analysis):
    rows = analysis.checkpoints
    for cell in (PLAIN, FOCAL):
        own = values(cell, 1)
        assert rows.filter(cell=cell)["pass_at_1"].item() == pytest.approx(
            np.nanmean(own, axis=1).mean()
        )


@pytest.mark.parametrize("problem", ["p000", "p003", OPEN])
def test_the_page_of_draws_says_where_a_problem_stopped(analysis, problem):
    for left, right in (POINTS[:2], POINTS[2:4]):
        shown = page(analysis, "draws", problem=problem, a=left, b=right)
        text = Reader(html(shown, [])).text
        for point in (left, right):
            draws, of = draws_of(point, problem), verdicts(point, 24)[problem]
            if draws is None:
                assert "0 of 4 judged draws correct; the next run of the sweep makes more" in text
                continue
            judged = len(draws) - draws.count("unscored")
            said = f"{draws.count('correct')} of {judged} judged draws correct"
            said += f", {len(draws) - judged} not judged" * (judged < len(draws))
            is_short = point == ALL_DRAWN and len(draws) < len(of)
            said += f"; stopped after {len(draws)} of 8 stored draws" * is_short
            assert said in text
            last = f"draw {len(of) - 1}, after the stop, 5 tokens"
            assert (last in text) == is_short or point != ALL_DRAWN


@pytest.mark.parametrize("k", [1, 8])
def test_other_pages_print_the_estimates(analysis, k):
    shown = texts(page(analysis, "compare", benchmark="countdown", k=8).context["table"])
    for name, row in zip(analysis.by_cell, shown, strict=True):
        own = analysis.estimates.filter(cell=name, k=k).to_dicts()[0]
        assert row[1 if k == 1 else 2].startswith(interval(own, "mean"))
    test_same_digits.test_the_grid_of_the_sweep_prints_the_estimates(analysis, "countdown", k)


@pytest.mark.slow
def test_mlflow_has_the_share_of_unscored_draws_and_the_design(staged, analysis):
    runs = {run.name: run.state() for run in desired_experiment(staged.paths).runs}
    for point in POINTS:
        stopped = [draws for p in PROBLEMS if (draws := draws_of(point, p))]
        lost, drawn = sum(d.count("unscored") for d in stopped), sum(map(len, stopped))
        state, asked = runs[point], design_of(point)
        (share,) = [p.value for p in state.points if p.key == "unscored_fraction/countdown"]
        assert share == pytest.approx(lost / drawn, abs=1e-4)
        if asked == staged.stopping:
            assert (state.params["design_stages"], state.params["design_enough"]) == (
                "2, 4, 8",
                "2",
            )
        rows = state.tables["countdown/pass_at_k_by_problem.json"]
        own = {p: draws and len(draws) for p in PROBLEMS for draws in [draws_of(point, p)]}
        assert dict(rows.select("problem_id", "n_drawn").iter_rows()) == own


def test_a_table_of_another_design_than_its_marker_is_refused_by_name(staged, tmp_path):
    results = copy(staged, tmp_path)
    point = results.points[0]
    marker = read_json(point.evaluate.done)
    marker["target"]["design"] = {"stages": [4, 8], "enough": 2}
    write_json(point.evaluate.done, marker)
    with pytest.raises(
        ValueError, match=r"passk.parquet: n_unscored is not by the stages \(4, 8\)"
    ):
        analyse(results)


def test_all_problems_may_wait_for_draws(staged, tmp_path):
    results = copy(staged, tmp_path)
    waiting = {"pass_at_k": None, "pass_at_k_low": None, "pass_at_k_high": None, "n_unscored": None}
    for point in results.points[:2]:
        rewrite_passk(
            point,
            lambda table: table.with_columns(
                pl.lit(value, PASSK[name]).alias(name) for name, value in waiting.items()
            ),
        )
        table = read_table(point.evaluate.benchmark("countdown").passk(), PASSK)
        assert table["n_unscored"].null_count() == len(table)
    row = analyse(results).estimate("countdown", "base", 4)
    assert (row.mean, row.n_draws, row.unscored) == (None, None, 0.0)
    assert row.lacks == ("0 of 24 problems (the judgements of 24 ask for more draws)",)
