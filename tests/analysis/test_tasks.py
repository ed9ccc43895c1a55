"""A benchmark of tasks: each task's pass@k and what could not be judged of it."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from tests.support.report import TASKS, copy, forget, made_of_tasks, rewrite_passk, small_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A small sweep with two seeds on a benchmark of tasks; not to be changed."""
    return made_of_tasks(small_sweep(tmp_path_factory.mktemp("tasks"), "smoke"))


def test_a_task_scores_the_mean_over_its_own_problems_and_seeds(sweep):
    analysis = analyse(sweep)
    assert analysis.tasks["task"].unique().sort().to_list() == sorted(TASKS)
    for row in analysis.tasks.filter(task="arrow_maze").iter_rows(named=True):
        method = analysis.by_cell[row["cell"]].method
        points = [point for point in sweep.points if point.method == method]
        values = [
            value
            for point in points
            for name, at, value in point.passk("countdown")
            .select("problem_id", "k", "pass_at_k")
            .iter_rows()
            if at == row["k"] and int(name[1:]) % 3 == 1
        ]
        assert row["pass_at_k"] == pytest.approx(sum(values) / len(values))
        assert (row["n_problems"], row["n_seeds"]) == (8, len(points))
        assert (row["n_draws"], row["n_unscored"]) == (8 * 64 * len(points), 0)


def test_draws_that_cannot_be_judged_are_counted_with_their_task_and_score_nothing(sweep):
    own = analyse(sweep).tasks.filter(task="no | verifier")
    assert own["pass_at_k"].null_count() == len(own) > 0
    assert (own["n_unscored"] == own["n_draws"]).all() and (own["n_draws"] > 0).all()


def test_a_problem_that_one_seed_lacks_is_left_out_of_its_task(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    point = next(point for point in results.points if point.cell is not None)
    first = pl.col("problem_id") == "p001"
    its_task = pl.col("problem_id").str.slice(1).cast(pl.Int64) % 3 == 1
    rewrite_passk(
        point,
        lambda table: table.with_columns(
            pl.when(~first).then(pl.col("pass_at_k")).alias("pass_at_k")
        ),
    )
    rows = analyse(results).tasks.filter(task="arrow_maze", k=1, cell=point.point_id[:-4])
    others = [
        one.passk("countdown").filter(~first, its_task, k=1)["pass_at_k"].mean()
        for one in results.points
        if one.cell == point.cell
    ]
    assert rows["pass_at_k"].item() == pytest.approx(sum(others) / len(others))


def test_other_benchmarks_and_unfinished_sweeps_have_no_tasks(analysis, tmp_path, sweep):
    assert analysis.tasks.is_empty()
    results = copy(sweep, tmp_path)
    results = forget(results, *(point.point_id for point in results.points))
    assert analyse(results).tasks.is_empty()
