"""Cells as parent runs, checkpoints as logged models, the report as a run; from files alone."""

from __future__ import annotations

import json

import pytest

from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.results import SweepResults, load_results
from fgrpo_bench.stages.files import read_json, write_json, write_text
from fgrpo_bench.tracking.describe import LONGEST, shortened, words
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.state import ExperimentState, RunState
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY

TWO_SEEDS = [*TINY, "sweep.grid.seed=[11,12]"]


@pytest.fixture
def results(tmp_path) -> SweepResults:
    return write_sweep(tmp_path, overrides=TWO_SEEDS)


def named(experiment: ExperimentState) -> dict[str, RunState]:
    return {run.name: run for run in experiment.runs}


def history(run: RunState, key: str) -> dict[int, float]:
    return {point.step: point.value for point in run.points if point.key == key}


def test_a_cell_has_the_reports_mean_and_interval_over_its_seeds(results):
    summary = summarise(results)
    runs = named(desired_experiment(results.paths))
    for cell, name in zip(summary.cells, ("base", "grpo-n2-g0", "grpo-n2-g0.5"), strict=True):
        run = runs[name]
        assert (run.tags["kind"], run.tags["seeds"]) == ("cell", "11, 12")
        found = summary.scores["countdown", cell].estimates
        for k, estimate in zip(summary.ks, found, strict=True):
            assert history(run, "countdown/pass_at_k")[k] == estimate.mean
            assert history(run, "countdown/pass_at_k_low")[k] == estimate.low
            assert history(run, "countdown/pass_at_k_high")[k] == estimate.high
        assert history(run, "countdown/pass_at_32_low") == {cell.step: found[-1].low}


def test_the_seeds_of_a_cell_stand_below_it(results):
    experiment = desired_experiment(results.paths)
    parents = {run.identity: run.name for run in experiment.runs if run.parent is None}
    assert {run.name: parents[run.parent] for run in experiment.runs if run.parent} == {
        f"{cell}-s{seed}": cell
        for cell in ("base", "grpo-n2-g0", "grpo-n2-g0.5")
        for seed in (11, 12)
    }


def test_a_cells_params_are_what_its_points_share(results):
    runs = named(desired_experiment(results.paths))
    point = dict(runs["grpo-n2-g0.5-s12"].params)
    assert point.pop("seed") == "12"
    assert runs["grpo-n2-g0.5"].params == point


def test_a_cell_says_which_seeds_its_mean_is_of_and_stays_the_same_run(results):
    late = next(point for point in results.points if point.point_id == "grpo-n2-g0-s12")
    whole = named(desired_experiment(results.paths))["grpo-n2-g0"]
    late.evaluate.done.unlink()
    run = named(desired_experiment(results.paths))["grpo-n2-g0"]
    assert (run.tags["seeds"], run.end, run.tags["state"]) == ("11", None, "training")
    assert run.identity == whole.identity
    assert run.digest != whole.digest


def test_keys_are_bounded_however_many_k_there_are(tmp_path):
    ks = list(range(1, 33))
    many = [one for one in TINY if "ks=" not in one] + [f"experiment.evaluation.ks={ks}"]
    write = write_sweep(tmp_path, overrides=many)
    keys = {
        run.tags["kind"]: {p.key for p in run.points if p.key.startswith("countdown/")}
        for run in desired_experiment(write.paths).runs
    }
    assert len(keys["point"]) == 4
    assert len(keys["cell"]) == 9
    trained = named(desired_experiment(write.paths))["grpo-n2-g0-s11"]
    assert len({point.key for point in trained.points}) <= 4 + 30


def test_a_checkpoint_is_a_model_with_its_path_and_its_scores_by_benchmark(results):
    point = results.points[-1]
    done = read_json(point.evaluate.done)
    write_json(point.evaluate.done, done | {"weights_sha256": "ab" * 32})
    run = named(desired_experiment(results.paths))[point.point_id]
    [model] = run.models
    assert model.name == f"{point.point_id}-step-00020".replace(".", "_")
    assert model.tags["checkpoint"] == str(point.train.checkpoint(20).resolve())
    assert (model.params["weights_sha256"], model.params["step"]) == ("ab" * 32, "20")
    assert model.params["point_id"] == point.point_id
    assert model.tags["mlflow.source.name"] == run.tags["mlflow.source.name"], "Logged from"
    keys = ["countdown/pass_at_1", "countdown/pass_at_32", "countdown/unscored_fraction"]
    assert [score.point.key for score in model.scores] == keys
    assert {score.point for score in model.scores} <= set(run.points)
    [dataset] = run.datasets
    assert (dataset.name, json.loads(dataset.profile)) == ("countdown", {"num_rows": 24})
    assert json.loads(dataset.source)["task"]["name"] == "countdown"


def test_the_digest_of_a_dataset_is_that_of_the_prompts(results):
    point = results.points[0]
    before = named(desired_experiment(results.paths))[point.point_id].datasets
    facts = {"fingerprint": point.evaluate_fingerprint, "prompts_sha256": "cd" * 32}
    write_json(point.evaluate.benchmark("countdown").manifest, facts)
    after = named(desired_experiment(results.paths))[point.point_id].datasets
    assert (len(before), [dataset.digest for dataset in after]) == (1, ["cd" * 8])
    assert before[0].digest != after[0].digest


def test_every_evaluated_checkpoint_is_a_model_and_a_step_of_the_plain_metrics(tmp_path):
    every = [*TINY, "experiment.checkpoints=every", "experiment.train.save_every=5"]
    results = write_sweep(tmp_path, overrides=every)
    run = named(desired_experiment(results.paths))["grpo-n2-g0-s11"]
    assert [model.step for model in run.models] == [5, 10, 15, 20]
    assert list(history(run, "countdown/pass_at_32")) == [5, 10, 15, 20]
    assert list(history(run, "countdown/pass_at_k")) == [1, 8, 32], "of the last one alone"
    results.points[1].at(results.points[1].checkpoints[-1]).evaluate.done.unlink()
    run = named(desired_experiment(results.paths))["grpo-n2-g0-s11"]
    assert ([model.step for model in run.models], run.end) == ([5, 10, 15], None)
    assert history(run, "countdown/pass_at_k") == {}


def test_the_report_is_a_run_whose_artifacts_are_its_files(results):
    assert "report" not in named(desired_experiment(results.paths))
    for name in ("report.md", "table.tex", "results.csv", "figure.png", ".report.md.tmp"):
        write_text(results.paths.report / name, name)
    run = named(desired_experiment(results.paths))["report"]
    assert set(run.artifacts) == {"report.md", "table.tex", "results.csv", "figure.png"}
    assert run.tags["kind"] == "report"
    assert "**Answer.**" in run.tags["mlflow.note.content"]


def test_notes_hold_question_and_verdict_with_every_name_escaped(results):
    recorded = read_json(results.paths.sweep_json)
    recorded["declaration"]["sweep"]["question"] = "<img src=x onerror=alert(1)> [a](javascript:b)"
    write_json(results.paths.sweep_json, recorded)
    results = load_results(results.paths)
    summary = summarise(results)
    answer = words(summary, compare(summary))
    assert "**Question.** \\<img src=x onerror=alert(1)> [a\\](javascript:b)" in answer
    assert "against" in answer
    note = desired_experiment(results.paths).tags["mlflow.note.content"]
    assert answer in note
    assert "<img" not in note.replace("\\<img", "")


def test_a_note_that_is_too_long_ends_at_a_line_and_says_where_to_read_on():
    text = "\n".join(f"- line {i}" for i in range(2000))
    note = shortened(text, LONGEST)
    assert len(note) <= LONGEST
    assert note.endswith("\n\nThe report has the rest.")
    assert note.removesuffix("\n\nThe report has the rest.").splitlines()[-1] in text.splitlines()


def test_the_views_show_cells_or_points(results):
    tags = desired_experiment(results.paths).tags
    cells, points = (
        json.loads(tags[f"mlflow.sharedViewState.{name}"]) for name in ("overview", "points")
    )
    assert cells["searchFilter"] == "tags.kind = 'cell'"
    assert points["searchFilter"] == "tags.kind = 'point'"
    assert [name.rpartition("/")[2] for name in cells["selectedColumns"][2:8]] == [
        *("pass_at_1`", "pass_at_32`", "pass_at_1_low`", "pass_at_32_low`"),
        *("pass_at_1_high`", "pass_at_32_high`"),
    ], "the means first, where a narrow screen still shows them"
    assert points["selectedColumns"] == [
        *("params.`group_size`", "params.`focal_gamma`"),
        *("metrics.`countdown/pass_at_1`", "metrics.`countdown/pass_at_32`"),
        *("params.`method`", "params.`seed`"),
    ]
    assert {view["orderByKey"] for view in (cells, points)} == {"metrics.`countdown/pass_at_32`"}


def test_the_version_that_was_run_last_speaks_for_the_experiment(results, tmp_path):
    write_sweep(tmp_path, overrides=[*TWO_SEEDS, "version=v2"])
    other = results.paths
    recorded = read_json(other.sweep_json)
    write_json(other.sweep_json, recorded | {"created": "2000-01-01T00:00:00+00:00"})
    assert desired_experiment(other).tags == {}
    write_json(other.sweep_json, recorded | {"created": "2100-01-01T00:00:00+00:00"})
    assert "countdown/v1" in desired_experiment(other).tags["mlflow.note.content"]
