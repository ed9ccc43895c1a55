"""A benchmark of tasks in the report: each task's pass@k and what could not be judged of it."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.by_task import task_rows, task_tables
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.verify import verify
from tests.support.report import TASKS, copy, forget, made_of_tasks, rewrite_passk, small_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A small sweep with two seeds on a benchmark of tasks; not to be changed."""
    return made_of_tasks(small_sweep(tmp_path_factory.mktemp("tasks"), "smoke"))


def tables_of(results):
    summary = summarise(results)
    return task_tables(summary, task_rows(summary))


def test_a_task_scores_the_mean_over_its_own_problems_and_seeds(sweep):
    rows = task_rows(summarise(sweep))
    assert rows["task"].unique().sort().to_list() == sorted(TASKS)
    for (method, k), own in rows.filter(task="arrow_maze").group_by("method", "k"):
        points = [point for point in sweep.points if point.method == method]
        values = [
            value
            for point in points
            for name, at, value in point.passk("countdown")
            .select("problem_id", "k", "pass_at_k")
            .iter_rows()
            if at == k and int(name[1:]) % 3 == 1
        ]
        assert own["pass_at_k"].item() == pytest.approx(sum(values) / len(values))
        assert own["n_problems"].item() == 8
        assert own["n_seeds"].item() == len(points)
        assert own["n_draws"].item() == 8 * 64 * len(points)
        assert own["n_unscored"].item() == 0


def test_draws_that_cannot_be_judged_are_counted_with_their_task_and_score_nothing(sweep):
    own = task_rows(summarise(sweep)).filter(task="no | verifier")
    assert own["pass_at_k"].null_count() == len(own) > 0
    assert (own["n_unscored"] == own["n_draws"]).all() and (own["n_draws"] > 0).all()


@pytest.mark.slow
def test_the_report_has_a_row_a_task_in_markdown_latex_and_csv(sweep):
    report = write_report(sweep)
    names = [file.name for file in report.files]
    assert "by-task.csv" in names
    texts = {file.name: file.read_text() for file in report.files[:5]}
    assert texts["by-task.csv"] == render(sweep, "by-task")
    tables = tables_of(sweep)
    assert [table.title for table in tables] == [
        f"countdown: pass@{k} in percent by task" for k in (1, 32)
    ]
    for table in tables:
        assert [row[0] for row in table.rows] == sorted(TASKS)
        assert [row[-1] for row in table.rows] == ["0.00%", "0.00%", "100.00%"]
        assert set(table.rows[2][2:-1]) == {"-"}
        for kind in ("report.md", "table.tex"):
            assert texts[kind].count(table.title) == 1
    assert (
        "<b>" not in texts["report.md"].replace("\\<", "") and "\\textless{}b" in texts["table.tex"]
    )
    assert "no \\| verifier" in texts["report.md"]
    found = verify(report.files[3], root=sweep.paths.root, regrade=False).differences
    assert not [line for line in found if "by-task" in line]


def test_a_problem_that_one_seed_lacks_is_left_out_of_its_task(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    point = next(point for point in results.points if point.group_size is not None)
    first = pl.col("problem_id") == "p001"
    its_task = pl.col("problem_id").str.slice(1).cast(pl.Int64) % 3 == 1
    rewrite_passk(
        point,
        lambda table: table.with_columns(
            pl.when(~first).then(pl.col("pass_at_k")).alias("pass_at_k")
        ),
    )

    def value(of):
        rows = task_rows(summarise(of)).filter(task="arrow_maze", k=1, method=point.method)
        return rows["pass_at_k"].item()

    others = [
        one.passk("countdown").filter(~first, its_task, k=1)["pass_at_k"].mean()
        for one in results.points
        if one.cell == point.cell
    ]
    assert value(results) == pytest.approx(sum(others) / len(others))


def test_a_sweep_without_such_a_benchmark_says_nothing_of_tasks(finished):
    assert tables_of(finished) == []
    assert len(render(finished, "by-task").splitlines()) == 1


def test_a_sweep_with_nothing_done_has_no_tasks(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    results = forget(results, *(point.point_id for point in results.points))
    assert tables_of(results) == []
