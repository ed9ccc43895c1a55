"""What MLflow should hold, computed from files alone."""

from __future__ import annotations

import math
import subprocess
import sys

import polars as pl
import pytest

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import METRICS, PASSK, read_table, write_table
from fgrpo_bench.tracking import source
from fgrpo_bench.tracking.desired import LARGEST, RunState, desired_experiment
from tests.support import mlflow_store
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY

FINISHED = 1767323045000
"""finished_ms of every marker that tests.support.synthetic writes."""


@pytest.fixture
def results(tmp_path) -> SweepResults:
    return write_sweep(tmp_path, overrides=TINY)


def states(results: SweepResults) -> dict[str, RunState]:
    return mlflow_store.states(results.paths)


def digests(results: SweepResults) -> dict[str, str]:
    return {run.name: run.digest for run in desired_experiment(results.paths).runs}


def history(run: RunState, key: str) -> dict[int, float]:
    return {point.step: point.value for point in run.points if point.key == key}


def test_every_point_and_base_model_is_one_run_of_the_sweeps_experiment_below_its_cell(results):
    experiment = desired_experiment(results.paths)
    assert experiment.name == "groupsize/countdown"
    runs = [run.state() for run in experiment.runs]
    assert [(run.tags["kind"], run.name) for run in runs] == [
        *(("cell", "base"), ("point", "base-s11")),
        *(("cell", "grpo-n2-g0"), ("point", "grpo-n2-g0-s11")),
        *(("cell", "grpo-n2-g0.5"), ("point", "grpo-n2-g0.5-s11")),
    ]


def test_params_name_the_cell_and_the_budget(results):
    assert states(results)["grpo-n2-g0.5-s11"].params == {
        "model": "qwen2-280k",
        "method": "F-GRPO",
        "algorithm": "grpo",
        "group_size": "2",
        "focal_gamma": "0.5",
        "seed": "11",
        "steps": "20",
        "budget": "constant_rollouts",
        "prompts_per_step": "32",
        "rollouts_per_step": "64",
        "updates_per_batch": "2",
        "learning_rate": "0.0003",
        "train_temperature": "1.0",
        "warmup_steps": "40",
        "n_samples": "64",
        "eval_temperature": "1.0",
        "countdown_n_problems": "24",
    }


def test_a_base_model_has_no_params_of_a_training_it_never_had(results):
    params = states(results)["base-s11"].params
    assert params["method"] == "Base"
    assert not {"algorithm", "group_size", "focal_gamma", "budget", "learning_rate"} & set(params)


def test_the_learning_rate_is_that_of_training_also_where_the_algorithm_lowers_it(tmp_path):
    lowered = "sweep.cells=[{algorithm: grpo-lowlr, group_size: 2, focal_gamma: 0.0}]"
    runs = states(write_sweep(tmp_path, overrides=[*TINY, lowered, "sweep.family=null"]))
    (of_control,) = (run for run in runs.values() if run.name.startswith("grpo-lowlr-n2-g0-s"))
    assert float(of_control.params["learning_rate"]) == pytest.approx(0.679 * 3e-4, rel=1e-3)
    assert runs["grpo-n2-g0-s11"].params["learning_rate"] == "0.0003"


def test_tags_tell_where_a_run_comes_from(results):
    point = results.points[1]
    tags = states(results)[point.point_id].tags
    assert tags["fingerprint"] == read_json(point.train.spec)["fingerprint"]
    assert tags["evaluation_fingerprint"] == read_json(point.evaluate.spec)["fingerprint"]
    assert tags["git_commit"] == tags["mlflow.source.git.commit"] == "0" * 40
    assert (tags["sweep"], tags["experiment"], tags["version"]) == ("groupsize", "countdown", "v1")
    assert "GRPO, group size N = 2" in tags["mlflow.note.content"]


def test_a_sweep_run_outside_a_checkout_has_no_commit(results):
    recorded = read_json(results.paths.sweep_json) | {"git_commit": None, "git_dirty": None}
    write_json(results.paths.sweep_json, recorded)
    assert not {"git_commit", "git_dirty"} & set(states(results)["base-s11"].tags)


def test_training_curves_stand_by_step_with_the_times_of_the_files(results):
    point = results.points[1]
    run = states(results)[point.point_id]
    metrics = read_table(point.train.metrics, METRICS)
    logged = [p for p in run.points if p.key == "train/reward"]
    assert [(p.step, p.timestamp, p.value) for p in logged] == list(
        metrics.select("step", "time_ms", "reward").iter_rows()
    )
    assert history(run, "eval/pass_at_1") == dict.fromkeys((5, 10, 15, 20), 0.2)


def test_a_run_begins_with_its_first_step_and_ends_with_its_evaluation(results):
    point = results.points[1]
    first = read_table(point.train.metrics, METRICS).row(0, named=True)
    run = states(results)[point.point_id]
    assert run.start == int(first["time_ms"] - 1000 * first["seconds"])
    assert run.end == FINISHED
    assert states(results)["base-s11"].start == FINISHED - 12500


def test_pass_at_k_is_the_mean_over_problems_by_k_and_plain_at_both_ends(results):
    for point in results.points:
        run = states(results)[point.point_id]
        means = {
            k: point.passk("countdown").filter(pl.col("k") == k)["pass_at_k"].mean()
            for k in (1, 8, 32)
        }
        assert history(run, "countdown/pass_at_k") == {k: float(f"{means[k]:.4g}") for k in means}
        for k in (1, 32):
            key = f"countdown/pass_at_{k}"
            assert history(run, key) == {point.step: float(f"{means[k]:.4g}")}
        assert history(run, "countdown/pass_at_8") == {}
    assert {p.timestamp for p in run.points if p.key.startswith("countdown/")} == {FINISHED}


def test_problems_with_too_few_scored_draws_are_left_out_and_their_share_is_said(results):
    point = results.points[1]
    passk = point.passk("countdown")
    first = pl.col("problem_id") == "p000"
    few = first.and_(pl.col("k") == 32)
    path = point.evaluate.benchmark("countdown").passk
    passk = passk.with_columns(
        n_scored=pl.when(first).then(16).otherwise("n_scored"),
        n_correct=pl.when(first).then(4).otherwise("n_correct"),
        pass_at_k=pl.when(few).then(None).otherwise("pass_at_k"),
    )
    write_table(path, passk.cast({"n_scored": pl.Int64, "n_correct": pl.Int64}), PASSK)
    run = states(results)[point.point_id]
    others = passk.filter((pl.col("k") == 32) & (pl.col("problem_id") != "p000"))
    assert history(run, "countdown/pass_at_k")[32] == pytest.approx(
        others["pass_at_k"].mean(), abs=1e-4
    )
    share = history(run, "countdown/unscored_fraction")[point.step]
    assert share == float(f"{48 / (24 * 64):.4g}")
    assert run.tables["countdown/pass_at_k.json"].row(2)[2] == 23


def test_the_artifacts_are_the_specs_and_the_pass_at_k_tables(results):
    point = results.points[1]
    run = states(results)[point.point_id]
    artifacts, tables = run.artifacts, run.tables
    assert set(artifacts) == {
        "spec.json",
        "evaluation.json",
        "countdown/passk.parquet",
        "draws.txt",
        "log-tail.txt",
    }
    where = point.evaluate.benchmark("countdown").draws.relative_to(results.paths.root)
    assert f"countdown: {where.as_posix()} under the run root" in artifacts["draws.txt"].decode()
    assert artifacts["spec.json"] == point.train.spec.read_bytes()
    assert set(tables) == {"countdown/pass_at_k.json", "countdown/pass_at_k_by_problem.json"}
    problems = tables["countdown/pass_at_k_by_problem.json"]
    assert problems.columns == [
        *("problem_id", "n_drawn", "n_scored", "n_correct", "pass_at_1", "pass_at_8", "pass_at_32")
    ]
    assert len(problems) == 24


def test_the_end_of_a_log_is_an_artifact_without_what_a_terminal_obeys(results):
    point = results.points[1]
    log = point.train.log(1)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"line {i}\n" for i in range(100)) + "red \x1b[31m\n")
    said = states(results)[point.point_id].artifacts["log-tail.txt"].decode()
    assert said.startswith(f"==> {point.point_id}/logs/attempt-001.log\n")
    assert "line 99\nred  [31m\n" in said
    assert "line 9\n" not in said


def test_the_same_files_give_the_same_digest_and_other_values_another(results):
    point = results.points[1]
    before = digests(results)
    assert digests(results) == before
    metrics = read_table(point.train.metrics, METRICS)
    changed = metrics.with_columns(pl.col("reward") + 1e-12)
    write_table(point.train.metrics, changed, METRICS)
    after = digests(results)
    assert {name for name in before if before[name] != after[name]} == {point.point_id}


def test_a_file_that_its_marker_lists_is_not_read_for_a_digest(results):
    point = results.points[1]
    rewritten(point.train, [point.train.metrics])

    def digests() -> list[str | None]:
        return source._digests(point.train, [point.train.metrics])

    before = digests()
    whole = point.train.metrics.read_bytes()
    point.train.metrics.write_bytes(whole[:-1] + b"x")
    assert digests() == before
    point.train.metrics.write_bytes(whole + b"x")
    assert digests() != before, "of another number of bytes"


def test_a_point_that_trains_has_curves_but_no_end_and_no_pass_at_k(results):
    point = results.points[1]
    point.train.done.unlink()
    point.evaluate.done.unlink()
    run = states(results)[point.point_id]
    assert (run.end, run.tags["state"]) == (None, "training")
    assert {p.key.partition("/")[0] for p in run.points} == {"train", "eval"}
    assert set(run.artifacts) == {"spec.json"}


def test_a_trained_point_that_awaits_its_evaluation_says_so(results):
    results.points[1].evaluate.done.unlink()
    run = states(results)[results.points[1].point_id]
    assert (run.end, run.tags["state"]) == (None, "trained")


def test_a_point_that_has_not_begun_has_no_run(results):
    base, point, _ = results.points
    for path in (base.train.done, base.evaluate.done, point.train.metrics, point.train.done):
        path.unlink()
    assert list(states(results)) == ["grpo-n2-g0.5", "grpo-n2-g0.5-s11"]


def test_nan_is_kept_and_infinity_becomes_the_largest_number(results):
    point = results.points[1]
    metrics = read_table(point.train.metrics, METRICS).with_columns(
        loss=pl.Series([math.nan, math.inf, -math.inf, *[0.0] * 17])
    )
    write_table(point.train.metrics, metrics, METRICS)
    loss = history(states(results)[point.point_id], "train/loss")
    assert math.isnan(loss[1])
    assert (loss[2], loss[3]) == (LARGEST, -LARGEST)


def test_a_sweep_that_was_never_run_is_refused(results):
    results.paths.plan.unlink()
    with pytest.raises(FileNotFoundError, match="holds no plan"):
        desired_experiment(results.paths)


def test_neither_mlflow_nor_its_database_is_loaded_before_a_sync():
    modules = "fgrpo_bench.tracking.sync, dashboards.mlflow_ui"
    code = f"import {modules}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "polars" in done.stdout.split()
    assert not {"mlflow", "sqlalchemy"} & set(done.stdout.split())
