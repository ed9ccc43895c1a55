"""Cells as parent runs, every checkpoint's scores, the report as a run; from files alone."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.bands import FirstLoss
from fgrpo_bench.analysis.rows import to_frame
from fgrpo_bench.report import provenance
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.looks import looks
from fgrpo_bench.results import SweepResults, load_results
from fgrpo_bench.stages.files import read_json, write_json, write_text
from fgrpo_bench.tracking import source
from fgrpo_bench.tracking.describe import LONGEST, shortened, words
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.state import RunState
from tests.support.mlflow_store import states
from tests.support.report import rewrite_passk
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY

TWO_SEEDS = [*TINY, "sweep.grid.seed=[11,12]"]


@pytest.fixture
def results(tmp_path) -> SweepResults:
    return write_sweep(tmp_path, overrides=TWO_SEEDS)


def digests(results: SweepResults) -> dict[str, str]:
    return {run.name: run.digest for run in desired_experiment(results.paths).runs}


def history(run: RunState, key: str) -> dict[int, float]:
    return {point.step: point.value for point in run.points if point.key == key}


def test_a_cell_has_the_mean_and_interval_of_the_analysis(results):
    analysis = analysed(results)
    runs = states(results.paths)
    for cell in analysis.by_cell.values():
        run = runs[cell.cell if cell.focal_gamma is None else f"grpo-n2-g{cell.focal_gamma:g}"]
        assert (run.tags["kind"], run.tags["seeds"]) == ("cell", "11, 12")
        for row in analysis.over_k("countdown", cell):
            assert history(run, "countdown/pass_at_k")[row.k] == row.mean
            assert history(run, "uncertainty/countdown/pass_at_k_low")[row.k] == row.low
            assert history(run, "uncertainty/countdown/pass_at_k_high")[row.k] == row.high
        assert history(run, "uncertainty/countdown/pass_at_32_low") == {cell.step: row.low}


def test_points_average_to_their_cell_also_where_draws_are_unscored(tmp_path):
    name = "experiment.evaluation.benchmarks.aime25"
    second = [f"+benchmark@{name}=aime25", f"{name}.n_problems=24"]
    results = write_sweep(tmp_path, overrides=[*TWO_SEEDS, *second])
    few = pl.col("problem_id").eq("p000") & pl.col("k").eq(32)
    lacking = pl.when(few).then(None).otherwise("pass_at_k").alias("pass_at_k")
    rewrite_passk(results.points[-1], lambda table: table.with_columns(lacking))
    runs, analysis = states(results.paths), analysed(results)
    assert analysis.columns == ("average in-domain", "aime25", "countdown")
    for column in analysis.columns:
        cell, *seeds = (
            history(runs[f"grpo-n2-g0.5{of}"], f"{column}/pass_at_k") for of in ("", "-s11", "-s12")
        )
        assert list(cell) == [1, 8, 32]
        assert cell == pytest.approx({k: sum(seed[k] for seed in seeds) / 2 for k in cell})


def test_the_ends_of_the_first_loss_are_metrics_and_open_ones_tags(results, monkeypatch):
    planted = [
        FirstLoss(column="countdown", new="grpo-n2-g0", old="base", low=4, high=None, words=""),
        FirstLoss(
            column="countdown", new="grpo-n2-g0", old="grpo-n2-g0.5", low=1, high=1, words=""
        ),
    ]
    analysis = analysed(results)
    planted = replace(analysis, first_loss=to_frame(FirstLoss, planted))
    monkeypatch.setattr(source, "analysed", lambda *_: planted)
    run = states(results.paths)["grpo-n2-g0"]
    name = "uncertainty/countdown/pass_at_k_first_loss"
    assert (history(run, f"{name}_low"), history(run, f"{name}_high")) == ({20: 4.0}, {})
    assert (run.tags.get(f"{name}_low"), run.tags[f"{name}_high"]) == (None, "open")


def test_the_seeds_of_a_cell_stand_below_it(results):
    runs = desired_experiment(results.paths).runs
    assert {run.name: run.parent for run in runs if run.parent} == {
        f"{cell}-s{seed}": cell
        for cell in ("base", "grpo-n2-g0", "grpo-n2-g0.5")
        for seed in (11, 12)
    }


def test_a_cells_params_are_what_its_points_share(results):
    runs = states(results.paths)
    point = dict(runs["grpo-n2-g0.5-s12"].params)
    assert point.pop("seed") == "12"
    assert runs["grpo-n2-g0.5"].params == point


def test_a_cell_says_which_seeds_its_mean_is_of_and_stays_the_same_run(results):
    late = next(point for point in results.points if point.point_id == "grpo-n2-g0-s12")
    whole, before = states(results.paths)["grpo-n2-g0"], digests(results)
    late.evaluate.done.unlink()
    run = states(results.paths)["grpo-n2-g0"]
    assert (run.tags["seeds"], run.end, run.tags["state"]) == ("11", None, "training")
    assert run.identity == whole.identity
    changed = {name for name, digest in digests(results).items() if digest != before[name]}
    assert changed == {"grpo-n2-g0", "grpo-n2-g0-s12"}


def test_keys_are_bounded_however_many_k_there_are(tmp_path):
    ks = list(range(1, 33))
    many = [one for one in TINY if "ks=" not in one] + [f"experiment.evaluation.ks={ks}"]
    write = write_sweep(tmp_path, overrides=many)
    keys = {
        run.tags["kind"]: {p.key for p in run.points if "countdown/" in p.key}
        for run in states(write.paths).values()
    }
    assert len(keys["point"]) == 4
    assert len(keys["cell"]) == 9 + 1
    trained = states(write.paths)["grpo-n2-g0-s11"]
    assert len({point.key for point in trained.points}) <= 4 + 30


def test_every_evaluated_checkpoint_is_a_step_of_the_plain_metrics(tmp_path):
    every = [*TINY, "experiment.checkpoints=every", "experiment.train.save_every=5"]
    results = write_sweep(tmp_path, overrides=every)
    run = states(results.paths)["grpo-n2-g0-s11"]
    assert list(history(run, "countdown/pass_at_32")) == [5, 10, 15, 20]
    assert list(history(run, "countdown/pass_at_k")) == [1, 8, 32], "of the last one alone"
    results.points[1].at(results.points[1].checkpoints[-1]).evaluate.done.unlink()
    run = states(results.paths)["grpo-n2-g0-s11"]
    assert (list(history(run, "countdown/unscored_fraction")), run.end) == ([5, 10, 15], None)
    assert history(run, "countdown/pass_at_k") == {}


def test_the_report_is_a_run_whose_artifacts_are_its_files(results):
    assert "report" not in states(results.paths)
    written = write_report(results)
    write_text(results.paths.report / "former.md", "of a report with other formats")
    run = states(results.paths)["report"]
    assert run.artifacts == {path.name: path.read_bytes() for path in written.files}
    assert provenance.NAME in run.artifacts
    assert run.tags["kind"] == "report"
    assert "## Does a focal weight at N = " in run.tags["mlflow.note.content"]


def test_cells_words_and_attached_files_are_of_the_checkpoints_of_the_report(tmp_path):
    every = [*TWO_SEEDS, "experiment.checkpoints=every", "experiment.train.save_every=5"]
    results = write_sweep(tmp_path, overrides=every)
    last = states(results.paths)["grpo-n2-g0"]
    write_report(results, "step=10")
    runs = states(results.paths)
    rule = "step 10 of every run"
    for name in ("grpo-n2-g0", "grpo-n2-g0.5"):
        assert set(history(runs[name], "countdown/pass_at_1")) == {10}
    assert set(history(last, "countdown/pass_at_1")) == {20}
    assert rule in runs["report"].tags["mlflow.note.content"]
    assert rule in desired_experiment(results.paths).tags()["mlflow.note.content"]
    assert rule in runs["report"].artifacts["report.md"].decode()
    seeds = [history(runs[f"grpo-n2-g0-s{seed}"], "countdown/pass_at_k")[32] for seed in (11, 12)]
    assert history(runs["grpo-n2-g0"], "countdown/pass_at_k")[32] == pytest.approx(sum(seeds) / 2)


def test_notes_hold_question_and_verdict_with_every_name_escaped(results):
    recorded = read_json(results.paths.sweep_json)
    recorded["declaration"]["sweep"]["question"] = "<img src=x onerror=alert(1)> [a](javascript:b)"
    write_json(results.paths.sweep_json, recorded)
    results = load_results(results.paths)
    answer = words(analysed(results))
    assert "## Question\n\n\\<img src=x onerror=alert(1)> [a\\](javascript:b)" in answer
    assert "against" in answer
    note = desired_experiment(results.paths).tags()["mlflow.note.content"]
    assert answer in note
    assert "<img" not in note.replace("\\<img", "")


def test_a_note_that_is_too_long_ends_at_a_line_and_says_where_to_read_on():
    text = "\n".join(f"- line {i}" for i in range(2000))
    note = shortened(text, LONGEST)
    assert len(note) <= LONGEST
    assert note.endswith("\n\nThe report has the rest.")
    assert note.removesuffix("\n\nThe report has the rest.").splitlines()[-1] in text.splitlines()


def test_the_views_show_cells_or_points(results):
    tags = desired_experiment(results.paths).tags()
    cells, points = (
        json.loads(tags[f"mlflow.sharedViewState.{name}"]) for name in ("overview", "points")
    )
    assert cells["searchFilter"] == "tags.kind = 'cell'"
    assert points["searchFilter"] == "tags.kind = 'point'"
    assert cells["selectedColumns"][:6] == [
        f"metrics.`{name}`"
        for k in (1, 32)
        for name in (
            f"countdown/pass_at_{k}",
            f"uncertainty/countdown/pass_at_{k}_low",
            f"uncertainty/countdown/pass_at_{k}_high",
        )
    ], "each mean beside its interval, where a narrow screen still shows them"
    assert points["selectedColumns"] == [
        *("metrics.`countdown/pass_at_1`", "metrics.`countdown/pass_at_32`"),
        *("params.`group_size`", "params.`focal_gamma`", "params.`method`", "params.`seed`"),
    ]
    assert {view["orderByKey"] for view in (cells, points)} == {"metrics.`countdown/pass_at_32`"}


def test_the_charts_are_pass_at_k_over_k_and_the_plane_of_its_ends(results):
    tags = desired_experiment(results.paths).tags()
    view = json.loads(tags["mlflow.sharedViewState.charts"])
    over_k, plane = view["compareRunCharts"]
    assert (over_k["metricKey"], over_k["xAxisScaleType"]) == ("countdown/pass_at_k", "log")
    assert (plane["xaxis"]["key"], plane["yaxis"]["key"]) == (
        *("countdown/pass_at_1", "countdown/pass_at_32"),
    )
    (section,) = view["compareRunSections"]
    assert {each["metricSectionId"] for each in (over_k, plane)} == {section["uuid"]}
    stored = states(results.paths)
    for chart in (over_k["metricKey"], plane["xaxis"]["key"], plane["yaxis"]["key"]):
        assert chart in {point.key for point in stored["grpo-n2-g0"].points}
    curves = json.loads(tags["mlflow.sharedViewState.training"])["compareRunCharts"]
    logged = {point.key for point in stored["grpo-n2-g0-s11"].points}
    assert {"train/success_rate", "train/entropy"} <= {c["metricKey"] for c in curves} & logged


def test_runs_have_the_names_and_colours_of_tables_and_figures(results):
    stored, cells = states(results.paths), list(analysed(results).by_cell.values())
    colors = {each.cell: look.color for each, look in looks(cells).items()}
    cell = stored["grpo-n2-g0"]
    assert cell.title == "GRPO N=2"
    assert stored["grpo-n2-g0-s11"].title == "GRPO N=2, seed 11"
    for name in ("grpo-n2-g0", "grpo-n2-g0-s11"):
        assert stored[name].tags["mlflow.runColor"] == colors["grpo-n2-g0"]


def test_the_version_that_was_run_last_speaks_for_the_experiment(results, tmp_path):
    write_sweep(tmp_path, overrides=[*TWO_SEEDS, "version=v2"])
    other = results.paths
    recorded = read_json(other.sweep_json)
    write_json(other.sweep_json, recorded | {"created": "2000-01-01T00:00:00+00:00"})
    assert desired_experiment(other).digest is None
    write_json(other.sweep_json, recorded | {"created": "2100-01-01T00:00:00+00:00"})
    assert "countdown/v1" in desired_experiment(other).tags()["mlflow.note.content"]
