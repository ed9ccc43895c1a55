"""What the dashboard computes is what the library and the report say of the same files."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pytest

from dashboards.queries import audit, curves, progress, tail
from dashboards.queries.counts import counts
from dashboards.queries.draws import answers, draws, is_gated, problem_text
from dashboards.queries.forgetting import by_cell, fates
from dashboards.queries.memo import remembered
from dashboards.queries.store import Store, cell_id, cells_of, ks_of, points_of
from fgrpo_bench.analysis import analyse
from fgrpo_bench.report import covered
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.results import load_results
from fgrpo_bench.specs import TaskSpec, from_dict
from fgrpo_bench.stages.files import append_line, read_json, write_json, write_text
from fgrpo_bench.stages.watch import NUMBERS, TOKENS_PER_SECOND, step_numbers
from fgrpo_bench.tables import GRADES, METRICS, read_table, write_table
from fgrpo_bench.tasks import make_task
from fgrpo_bench.theory.__main__ import peak
from fgrpo_bench.theory.measured import measure
from tests.support.dashboard import GRADER, sweep_with_draws
from tests.support.report import forget
from tests.support.synthetic import metrics
from tests.support.watched import Training, note


def test_estimates_and_compute_are_those_of_the_report_to_the_last_digit(finished):
    summary = summarise(finished)
    made = curves.estimates(finished, "countdown", ks_of(finished))
    assert len(made) == len(summary.cells) == 5
    costs = curves.compute(finished)
    for cell in summary.cells:
        assert made[cell_id(cell)] == summary.scores["countdown", cell].estimates
        if not cell.is_base:
            theirs = summary.compute[cell]
            ours = costs[cell_id(cell)]
            assert ours["rollouts"] == theirs.rollouts
            assert ours["tokens"] == theirs.tokens
            assert ours["cpu_seconds"] == theirs.train_cpu_seconds
            assert ours["gpu_seconds"] == theirs.train_gpu_seconds


def test_a_cell_with_fewer_seeds_is_estimated_from_those_it_has(tmp_path):
    results = forget(sweep_with_draws(tmp_path), "grpo-n2-g0-s12")
    summary = summarise(results)
    made = curves.estimates(results, "countdown", ks_of(results))
    for cell in summary.cells:
        assert made[cell_id(cell)] == summary.scores["countdown", cell].estimates
    (one,) = curves.differences(results, "countdown", 32, "base", ("grpo-n2-g0",))
    assert one.difference.n_seeds == 1


def test_every_evaluated_checkpoint_stands_at_what_it_cost(tmp_path):
    every = ["experiment.checkpoints=[10,20]", "experiment.train.save_every=10"]
    results = sweep_with_draws(tmp_path, *every)
    found = curves.by_checkpoint(results, "countdown", 32, "rollouts")
    assert set(found) == set(cells_of(results)) - {"base"}
    whole = curves.estimates(results, "countdown", (32,))
    for name, points in found.items():
        assert [one.step for one in points] == [10, 20]
        assert [one.cost for one in points] == [2560, 5120]
        assert points[-1].made == whole[name][0]
    last = curves.by_checkpoint(results, "countdown", 32, "cpu_seconds")
    assert {one.step for points in last.values() for one in points} == {20}


def test_fates_and_losses_are_those_of_the_report_and_the_theory_command(finished):
    summary = summarise(finished)
    ours = by_cell(fates(finished, "countdown", summary.ks[-1]))
    for cell, by_seed in covered.fates(summary, "countdown").items():
        for name in ("lost", "gained", "retained", "neither"):
            assert ours[cell_id(cell)][name] == pytest.approx(covered.mean_count(by_seed, name))
    found = tail.measured(finished, "countdown", summary.ks[-1])
    theirs = measure(analyse(finished))
    assert np.allclose(np.sort(found.success_rates), np.sort(theirs.success_rates))
    assert found.lost == pytest.approx(theirs.lost)
    assert found.histogram.sum() == pytest.approx(1)
    rates = theirs.success_rates
    assert found.peaks == tuple(peak(rates, share) for share in tail.TAIL_SHARES)


def test_problems_are_ordered_by_what_training_lost(finished):
    found = fates(finished, "countdown", 32)
    loss = found.loss[found.order("loss")]
    assert (np.diff(loss) <= 1e-12).all()
    gain = found.shares["gained"].mean(axis=0)[found.order("gain")]
    assert (np.diff(gain) <= 1e-12).all()
    assert found.order("name") == list(range(len(found.counts.problems)))
    assert sorted(found.order("base")) == found.order("name")


def test_draws_come_with_their_grades_and_count_up_to_the_stored_table(finished):
    found = counts(finished, "countdown")
    for row, column in ((0, 0), (3, 5)):
        table = draws(found.points[row], "countdown", found.problems[column])
        assert len(table) == found.n_scored[row, column] == 64
        assert (table["outcome"] == "correct").sum() == found.n_correct[row, column]
        assert answers(table)["count"].sum() == 64
    assert len(draws(found.points[0], "countdown", "no such problem")) == 0


def test_answers_list_the_right_ones_first_then_the_frequent_ones():
    table = pl.DataFrame(
        {
            "extracted": ["1", "1", "2", None, "3"],
            "outcome": ["incorrect", "incorrect", "correct", "incorrect", "incorrect"],
            "n_tokens": [1, 3, 1, 1, 1],
        }
    )
    found = answers(table)
    assert found["extracted"].to_list()[:2] == ["2", "1"]
    assert found["count"].to_list() == [1, 2, 1, 1]


def test_a_problem_is_read_as_the_task_makes_it_and_is_empty_where_files_are_older(finished):
    point = finished.points[0]
    spec = read_json(point.evaluate.spec)
    assert not is_gated(finished, point, "countdown")
    assert problem_text(point, "countdown", "no such").prompt == ""
    task = make_task(from_dict(TaskSpec, spec["identity"]["sampling"]["task"]))
    real = task.heldout_problem(3)
    found = problem_text(point, "countdown", real.problem_id)
    assert (found.prompt, found.gold) == (real.prompt, real.target)


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
        read_json(paths.manifest) | {"engine": {"engine": "embedded", "torch": "2.99"}},
    )
    found = {one.point_id: one for one in audit.audits(results, "countdown")}
    assert found["base-s11"].unscored == 5
    assert found["base-s12"].unscored == 0
    assert found["base-s11"].truncated == 24
    assert found["base-s11"].examples["unscored"][0][0] == "p003"
    (other,) = audit.disagreements(results, "countdown")
    assert (other.versions, other.differing) == ((GRADER, "other-2"), 5)
    assert other.examples[0][0] == "p003"
    engines = audit.engines(results, "countdown")
    assert engines[0][1] == ["base-s11"]
    assert len(engines) == 2


def test_progress_tells_states_costs_and_the_last_lines_of_a_failure(tmp_path):
    results = sweep_with_draws(tmp_path)
    done = progress.progress(results)
    assert done.states["done"] == sum(done.states.values()) > 10
    assert done.projected == done.spent
    assert not done.running
    failed = points_of(results)["grpo-n8-g1-s12"]
    failed.train.done.unlink()
    failed.evaluate.done.unlink()
    write_text(failed.train.log(1), "first\n" * 99 + "\nMemoryError: no room\n")
    event = {"stage": "grpo-n8-g1-s12", "attempt": 1, "pid": 1, "driver": "d", "time": "t"}
    append_line(results.paths.ledger, {"event": "start"} | event)
    append_line(
        results.paths.ledger,
        {"event": "end", "exit_code": 1, "outcome": "failed", "wall_seconds": 1.0} | event,
    )
    found = progress.progress(load_results(results.paths))
    assert found.states["failed"] == 1
    (failure,) = found.failures
    assert failure.lines[-1] == "MemoryError: no room"
    assert len(failure.lines) == progress.LAST_LINES
    assert found.projected is not None
    assert found.projected.cpu == pytest.approx(done.spent.cpu)
    assert found.spent.cpu < done.spent.cpu


@pytest.mark.parametrize("engine", ["embedded", "openrlhf"])
def test_a_run_that_trains_is_seen_as_it_goes_by_both_engines(tmp_path, engine):
    results = sweep_with_draws(tmp_path)
    whole = {name: curves.steps(results, name) for name in NUMBERS}
    first, second = (points_of(results)[f"grpo-n8-g1-s{seed}"] for seed in (11, 12))
    before = second.metrics()
    run = Training(first, engine)
    run.whole = [row | {"gpus": 8} for row in run.whole]
    note(results, first.train, "start")
    run.train(7)
    run.tear()
    for name, table in whole.items():
        found = curves.steps(results, name).filter(cell="grpo-n8-g1")
        assert found["seeds"].to_list() == [2] * 7 + [1] * 13
        assert found.head(7).equals(table.filter(cell="grpo-n8-g1").head(7)), name
    speed = curves.steps(results, TOKENS_PER_SECOND).filter(cell="grpo-n8-g1")[TOKENS_PER_SECOND]
    assert speed[10] == pytest.approx(2048 / before["seconds"][10])
    told = progress.progress(results)
    assert told.training[first.point_id].numbers == step_numbers(run.rows)
    gpu_seconds = 8 * sum(row["seconds"] for row in run.rows)
    assert told.costs[first.point_id].gpu == pytest.approx(gpu_seconds)


def test_a_long_run_has_a_point_for_several_steps(tmp_path):
    results = sweep_with_draws(tmp_path)
    long = metrics(2 * curves.LONGEST + 1, seed=3)
    for point in results.points:
        if point.algorithm is not None:
            write_table(point.train.metrics, long, METRICS)
    found = curves.steps(results, "reward").filter(cell="grpo-n8-g1")
    assert len(found) == 134 <= curves.LONGEST
    assert (found["steps"][0], found["step"][0], found["steps"][-1]) == (3, 3, 2)
    assert found["reward"][1] == pytest.approx(long["reward"][3:6].mean())


def test_what_was_read_is_kept_until_a_file_changes(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    calls = []

    @remembered(lambda name: [path])
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
    store = Store(root=finished.paths.root)
    assert store.open("groupsize", "countdown", "v1").points == finished.points
    for names in [("..", "countdown", "v1"), ("groupsize", "countdown", "v1/../v1"), ("", "", "")]:
        with pytest.raises(LookupError, match="no such sweep"):
            store.open(*names)
    assert next(iter(cells_of(finished))) == "base"


def test_a_plan_that_names_a_folder_outside_its_run_is_refused(tmp_path):
    results = sweep_with_draws(tmp_path)
    plan = read_json(results.paths.plan)
    plan["points"][0]["train"] = "../../../../etc"
    write_json(results.paths.plan, plan)
    with pytest.raises(ValueError, match="outside"):
        Store(root=tmp_path).open("groupsize", "countdown", "v1")
