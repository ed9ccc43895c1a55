"""What the dashboard computes is what the library and the report say of the same files."""

from __future__ import annotations

import os
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

from dashboards.pages import BUILDERS, audit, compare, sweep
from dashboards.pages.draws import answers, draws, with_answers
from dashboards.pages.problems import problem_summaries, problem_text
from dashboards.queries import (
    SORTED,
    RunRoot,
    by_gain,
    checkpoints_by_name,
    count_lost_solutions,
    load_analysis,
    problem_outcomes,
    remembered,
    stamp,
)
from fgrpo_bench.analysis import analyse, analysed, frames
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json, write_text
from fgrpo_bench.specs import TaskSpec, from_dict
from fgrpo_bench.stages.tables import GRADES, METRICS, read_table, write_table
from fgrpo_bench.stages.watch import NUMBERS, TOKENS_PER_SECOND, step_numbers
from fgrpo_bench.tasks import make_task
from tests.support.dashboard import GRADER, snapshot, sweep_with_draws
from tests.support.report import copy, forget
from tests.support.synthetic import metrics
from tests.support.watched import Training, note


def test_a_finished_sweep_is_read_and_one_that_has_gone_on_is_analysed_in_memory(tmp_path):
    results = sweep_with_draws(tmp_path)
    stored = analysed(results)
    before = snapshot(tmp_path)
    assert load_analysis(results).comparisons.equals(stored.comparisons)
    assert load_analysis(results) is load_analysis(load_results(results.paths))
    less = forget(results, "grpo-n8-g1-s12")
    changed = snapshot(tmp_path)
    assert changed != before
    newer = load_analysis(less)
    assert newer.estimate("countdown", "grpo-n8-g1", 32).seeds == (11,)
    assert snapshot(tmp_path) == changed


def test_compare_computes_what_it_shows_and_nothing_else(finished, monkeypatch):
    def unwanted(*_):
        raise AssertionError("nothing of this is shown")

    for source in ("coverages", "likelihoods", "other_graders", "rows_by_value"):
        monkeypatch.setattr(frames, source, unwanted)
    analysis = analyse(finished)
    monkeypatch.setattr(compare, "load_analysis", lambda _: analysis)
    assert "F-GRPO N=8 gamma=1" in str(BUILDERS["compare"](finished, {}))
    with pytest.raises(AssertionError, match="nothing of this is shown"):
        analysis.rows("coverage")


def test_two_sweeps_with_the_same_results_are_told_apart(finished, tmp_path):
    other = copy(finished, tmp_path)
    assert load_analysis(finished).results.paths == finished.paths
    assert load_analysis(other).results.paths == other.paths


def test_problems_are_ordered_by_what_training_lost(finished):
    found = problem_outcomes(finished, "countdown", 32)
    assert (np.diff(found.means["lost"].gather(found.order("loss"))) <= 0).all()
    assert (np.diff(found.means["gained"].gather(found.order("gain"))) <= 0).all()
    assert (np.diff(found.means["base"].gather(found.order("base"))) >= 0).all()
    assert found.order("name") == list(range(len(found.problems)))
    assert all(sorted(found.order(by)) == found.order("name") for by in SORTED)


def test_problems_are_ordered_by_what_one_checkpoint_gained_over_another(finished):
    base, *_, focal = finished.checkpoints
    ordered = by_gain(finished, "countdown", base.name, focal.name)
    sides = [side.passk("countdown").filter(k=32).sort("problem_id") for side in (base, focal)]
    gains = dict(
        zip(sides[0]["problem_id"], sides[1]["pass_at_k"] - sides[0]["pass_at_k"], strict=True)
    )
    assert sorted(ordered) == list(gains)
    assert (np.diff([gains[name] for name in ordered]) <= 1e-12).all()
    assert gains[ordered[0]] > 0 > gains[ordered[-1]]


def test_draws_come_with_their_grades_and_count_up_to_the_stored_table(finished):
    found = problem_outcomes(finished, "countdown", 32)
    for row, column in ((0, 0), (3, 5)):
        table = draws(found.checkpoints[row], "countdown", found.problems[column])
        assert len(table) == found.matrix("n_scored")[row, column] == 64
        assert (table["outcome"] == "correct").sum() == found.matrix("n_correct")[row, column]
        assert answers(table)["count"].sum() == 64
    assert len(draws(found.checkpoints[0], "countdown", "no such problem")) == 0


def test_answers_list_the_right_ones_by_solution_first_then_the_frequent_ones():
    rows = [
        ("1", "incorrect"),
        ("1", "incorrect"),
        ("9*3-2*1", "correct"),
        (None, "incorrect"),
        ("1*3*9-2", "correct"),
        ("9+3", "incorrect"),
        ("3+9", "incorrect"),
    ]
    table = pl.DataFrame(rows, schema=["extracted", "outcome"], orient="row").with_columns(
        grader_version=pl.lit("countdown-1"), n_tokens=pl.lit(1)
    )
    listed = answers(with_answers(table))
    assert listed["answer"].to_list()[:2] == ["9*3-2", "1"]
    assert listed["count"].to_list() == [2, 2, 1, 1, 1]


@pytest.mark.slow
def test_a_problem_that_is_still_solved_is_framed_where_it_lost_solutions(tmp_path):
    results = sweep_with_draws(tmp_path, texts=("9*3-2*1", "3*9-1*2", "9+8+8"))
    point = next(p for p in results.points if p.point_id == "grpo-n8-g1-s11")
    path = point.evaluate.benchmark("countdown").grades(GRADER)
    grades = read_table(path, GRADES)
    is_right = pl.col("outcome") == "correct"
    right = grades.filter(is_right).group_by("problem_id").len().sort("len", "problem_id")
    problem = right["problem_id"][-1]
    is_one = is_right & (pl.col("problem_id") == problem)
    alike = grades.with_columns(
        extracted=pl.when(is_one).then(pl.lit("9+8+8")).otherwise("extracted")
    )
    write_table(path, alike, GRADES)
    lost = count_lost_solutions(results, "countdown", 32)
    others = [n for (cell, seed, name), (n, _) in lost.items() if name == problem and seed == 12]
    assert others == [0] * len(others) and others
    n_lost, n_solutions = lost[point.label, 11, problem]
    assert (n_lost, n_solutions) == (2, 3), "two expressions and the answer that was not extracted"
    page = BUILDERS["forgetting"](results, {"seed": ["11"], "order": ["name"], "k": ["32"]})
    cells = [
        cell for row in page.context["table"].rows for cell in row if not isinstance(cell, str)
    ]
    (framed,) = (cell for cell in cells if cell.title.endswith("2 of 3 solutions lost"))
    assert "fewer" in framed.kind.split() and problem in framed.title and point.name in framed.title


def test_a_problem_is_read_as_the_task_makes_it_and_is_empty_where_files_are_older(finished):
    point = finished.points[0]
    spec = read_json(point.evaluate.spec)
    assert problem_text(point, "countdown", "no such").prompt == ""
    task = make_task(from_dict(TaskSpec, spec["identity"]["sampling"]["task"]))
    real = task.problem(task.n_train + 3)
    target, digits = real.target.split("-")[::-1]
    words = problem_summaries(finished, "countdown")[real.problem_id]
    assert words == f"reach {int(target)} from {', '.join(digits)}"
    found = problem_text(point, "countdown", real.problem_id)
    assert (found.prompt, found.gold) == (real.prompt, real.target)
    assert found.right == f"{int(target)}, from {', '.join(digits)} each once with + - *"


def test_an_audit_counts_unscored_truncated_and_disagreeing_draws(tmp_path):
    results = sweep_with_draws(tmp_path)
    point = results.points[0]
    paths = point.evaluate.benchmark("countdown")
    table = read_table(paths.grades(GRADER), GRADES)
    own = (pl.col("problem_id") == "p003") & (pl.col("draw") < 5)
    changed = table.with_columns(
        pl.when(own).then(pl.lit("unscored")).otherwise(pl.col("outcome")).alias("outcome")
    )
    write_table(paths.grades(GRADER), changed, GRADES)
    write_table(paths.grades("other-2"), table, GRADES)
    write_json(
        paths.manifest,
        read_json(paths.manifest) | {"engines": [{"engine": "embedded", "torch": "2.99"}]},
    )
    found = {one.name: one for one in audit.audits(results, "countdown")}
    assert found["base-s11"].unscored == 5
    assert found["base-s12"].unscored == 0
    assert found["base-s11"].truncated == 24
    assert found["base-s11"].examples["unscored"] == ("p003", 0)
    (other,) = audit.disagreements(results, "countdown")
    assert (other.versions, other.differing) == ((GRADER, "other-2"), 5)
    assert other.example == ("p003", 0)
    engines = audit.engines(results, "countdown")
    assert engines[0][1] == ["base-s11"]
    assert len(engines) == 2
    checks = audit.build(results, {}).context["checks"].rows
    outcomes = [(outcome.text, outcome.kind.split()[-1]) for _, _, outcome in checks]
    assert outcomes == [
        ("10 of 10", "done"),
        ("5 unscored", "failed"),
        ("at most 1.6%", "done"),
        ("5 differ", "failed"),
        ("differ in torch", "failed"),
    ]


def test_progress_tells_states_costs_and_the_last_lines_of_a_failure(tmp_path):
    results = sweep_with_draws(tmp_path)
    done = sweep.progress(results)
    assert done.states["done"] == sum(done.states.values()) > 10
    assert done.projected == done.spent
    assert not done.running
    failed = checkpoints_by_name(results)["grpo-n8-g1-s12"]
    failed.train.done.unlink()
    failed.evaluate.done.unlink()
    write_text(failed.train.log(1), "first\n" * 99 + "\nMemoryError: no room\n")
    note(failed.train, exit_code=1, outcome="failed", wall_seconds=1.0)
    found = sweep.progress(load_results(results.paths))
    assert found.states["failed"] == 1
    ((_, lines),) = found.failures
    assert lines[-1] == "MemoryError: no room"
    assert len(lines) == sweep.LAST_LINES
    assert found.projected is not None
    assert found.projected.cpu == pytest.approx(done.spent.cpu)
    assert found.spent.cpu < done.spent.cpu


@pytest.mark.parametrize("engine", ["embedded", "openrlhf"])
def test_a_run_that_trains_is_seen_as_it_goes_by_both_engines(tmp_path, engine):
    results = sweep_with_draws(tmp_path)
    whole = {name: sweep.steps_by_cell(results, name) for name in NUMBERS}
    first, second = (checkpoints_by_name(results)[f"grpo-n8-g1-s{seed}"] for seed in (11, 12))
    before = second.metrics()
    run = Training(first, engine)
    run.whole = [row | {"gpus": 8} for row in run.whole]
    note(first.train)
    run.train(7)
    run.tear()
    for name, table in whole.items():
        found = sweep.steps_by_cell(results, name).filter(cell="grpo-n8-g1")
        assert found["seeds"].to_list() == [2] * 7 + [1] * 13
        assert found.head(7).equals(table.filter(cell="grpo-n8-g1").head(7)), name
    speed = sweep.steps_by_cell(results, TOKENS_PER_SECOND).filter(cell="grpo-n8-g1")[
        TOKENS_PER_SECOND
    ]
    assert speed[10] == pytest.approx(2048 / before["seconds"][10])
    told = sweep.progress(results)
    assert told.training[first.point_id].numbers == step_numbers(run.rows)
    gpu_seconds = 8 * sum(row["seconds"] for row in run.rows)
    assert told.costs[first.point_id].gpu == pytest.approx(gpu_seconds)


def test_a_page_reads_every_table_of_metrics_once(tmp_path):
    results = sweep_with_draws(tmp_path)
    load_analysis(results)  # which reads them for itself
    with patch("fgrpo_bench.analysis.results.read_table", wraps=read_table) as reads:
        for _ in ("first", "again"):
            BUILDERS["sweep"](results, {})
    trained = [point.train.metrics for point in results.points if point.cell is not None]
    assert [call.args[0] for call in reads.call_args_list] == trained


def test_a_long_run_has_a_point_for_several_steps(tmp_path):
    results = sweep_with_draws(tmp_path)
    long = metrics(2 * sweep.MOST_PLACES + 2, seed=3)
    for point in results.points:
        if point.cell is not None:
            write_table(point.train.metrics, long, METRICS)
    found = sweep.steps_by_cell(results, "reward").filter(cell="grpo-n8-g1")
    assert len(found) == 28 <= sweep.MOST_PLACES
    assert (found["steps"][0], found["step"][0], found["steps"][-1]) == (3, 3, 1)
    assert found["reward"][1] == pytest.approx(long["reward"][3:6].mean())


def test_what_was_read_is_kept_until_a_file_changes(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    calls = []

    @remembered(lambda name: stamp([path]))
    def read(name: str) -> str:
        calls.append(name)
        return path.read_text()

    assert read("a") == read("a") == "one"
    assert read("b") == "one"
    assert calls == ["a", "b"]
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    assert read("a") == "two"


def test_a_run_is_opened_by_names_of_the_listing_alone(finished):
    store = RunRoot(root=finished.paths.root)
    assert store.open("groupsize", "countdown", "v1").points == finished.points
    for names in [("..", "countdown", "v1"), ("groupsize", "countdown", "v1/../v1"), ("", "", "")]:
        with pytest.raises(LookupError, match="no such sweep"):
            store.open(*names)


def test_a_plan_that_names_a_folder_outside_its_run_is_refused(tmp_path):
    results = sweep_with_draws(tmp_path)
    plan = read_json(results.paths.plan)
    plan["points"][0]["train"] = "../../../../etc"
    write_json(results.paths.plan, plan)
    with pytest.raises(ValueError, match="outside"):
        RunRoot(root=tmp_path).open("groupsize", "countdown", "v1")
