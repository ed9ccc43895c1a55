"""What MLflow should hold, computed from files alone: points and base models as runs below those of
their cells, every checkpoint's scores, and the report as a run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import pairwise

import polars as pl
import pytest

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import OPEN_AND_CUT_OFF, FirstLoss, to_frame
from fgrpo_bench.documents.markdown import markdown_blocks
from fgrpo_bench.files.whole import read_json, write_json, write_text
from fgrpo_bench.report import build, provenance
from fgrpo_bench.report.cell_styles import cell_styles
from fgrpo_bench.report.narrative import answered, effect
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import METRICS, read_table, write_table
from fgrpo_bench.tracking import points as tracking_points
from fgrpo_bench.tracking import source
from fgrpo_bench.tracking.desired import ANSWER, LONGEST, VIEW, _shortened, desired_experiment
from fgrpo_bench.tracking.points import LARGEST
from fgrpo_bench.tracking.states import TABLE, RunState
from tests.support import mlflow_store
from tests.support.report import rewrite_passk, with_frames
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY

FINISHED = 1767323045000
"""finished_ms of every marker that tests.support.synthetic writes."""
TWO_SEEDS = [*TINY, "sweep.grid.seed=[11,12]"]
EVERY = ["experiment.checkpoints=every", "experiment.train.save_every=5"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> SweepResults:
    """A finished sweep of two seeds, analysed; not to be changed."""
    results = write_sweep(tmp_path_factory.mktemp("whole"), overrides=TWO_SEEDS)
    analysed(results)
    return results


@pytest.fixture(scope="module")
def stored(whole) -> dict[str, RunState]:
    """Its runs by name."""
    return states(whole)


@pytest.fixture
def results(tmp_path) -> SweepResults:
    """One of one seed, to be changed."""
    return write_sweep(tmp_path, overrides=TINY)


def states(results: SweepResults) -> dict[str, RunState]:
    return mlflow_store.states(results.paths)


def digests(results: SweepResults) -> dict[str, str]:
    return {run.name: run.digest for run in desired_experiment(results.paths).runs}


def history(run: RunState, key: str) -> dict[int, float]:
    return {point.step: point.value for point in run.points if point.key == key}


def test_every_point_and_base_model_is_one_run_of_the_sweeps_experiment_below_its_cell(
    whole, stored
):
    experiment = desired_experiment(whole.paths)
    assert experiment.name == "groupsize/countdown"
    parents = {run.name: run.parent for run in experiment.runs}
    assert [(run.tags["kind"], name, parents[name]) for name, run in stored.items()] == [
        row
        for cell in ("base", "grpo-n2-g0", "grpo-n2-g0.5")
        for row in [
            ("cell", cell, None),
            ("point", f"{cell}-s11", cell),
            ("point", f"{cell}-s12", cell),
        ]
    ]


def test_params_name_the_cell_and_the_budget_and_those_of_a_cell_are_what_its_points_share(stored):
    point = {
        "model": "qwen2-280k",
        "method": "F-GRPO",
        "algorithm": "grpo",
        "group_size": "2",
        "focal_gamma": "0.5",
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
    assert stored["grpo-n2-g0.5-s11"].params == point | {"seed": "11"}
    assert stored["grpo-n2-g0.5"].params == point
    base = stored["base-s11"].params
    assert base["method"] == "Base"
    assert not {"algorithm", "group_size", "focal_gamma", "budget", "learning_rate"} & set(base)


def test_the_learning_rate_is_that_of_training_also_where_the_algorithm_lowers_it(tmp_path):
    lowered = "sweep.cells=[{algorithm: grpo-lowlr, group_size: 2, focal_gamma: 0.0}]"
    runs = states(write_sweep(tmp_path, overrides=[*TINY, lowered, "sweep.family=null"]))
    (of_control,) = (run for run in runs.values() if run.name.startswith("grpo-lowlr-n2-g0-s"))
    assert float(of_control.params["learning_rate"]) == pytest.approx(0.679 * 3e-4, rel=1e-3)
    assert runs["grpo-n2-g0-s11"].params["learning_rate"] == "0.0003"


def test_tags_tell_where_a_run_comes_from(whole, stored):
    point = whole.points[2]
    tags = stored[point.point_id].tags
    assert tags["fingerprint"] == read_json(point.train.spec)["fingerprint"]
    assert tags["evaluation_fingerprint"] == read_json(point.evaluate.spec)["fingerprint"]
    assert tags["git_commit"] == tags["mlflow.source.git.commit"] == "0" * 40
    assert (tags["sweep"], tags["experiment"], tags["version"]) == ("groupsize", "countdown", "v1")
    assert "GRPO, group size N = 2" in tags["mlflow.note.content"]


def test_a_sweep_run_outside_a_checkout_has_no_commit(results):
    recorded = read_json(results.paths.sweep_json)
    del recorded["git_commit"], recorded["git_dirty"]
    write_json(results.paths.sweep_json, with_checksum(recorded))
    assert not {"git_commit", "git_dirty"} & set(states(results)["base-s11"].tags)


def test_of_a_long_curve_steps_are_logged_evenly_with_the_ends_and_every_evaluation(
    whole, monkeypatch
):
    monkeypatch.setattr(tracking_points, "MOST_STEPS", 5)
    run = states(whole)[whole.points[2].point_id]
    assert list(history(run, "train/reward")) == [1, 4, 8, 12, 16, 20]
    assert list(history(run, "eval/pass_at_1")) == [5, 20], "the same four times"


def test_of_a_stretch_of_equal_values_its_ends_are_logged_and_a_point_never_goes(whole):
    metrics = read_table(whole.points[2].train.metrics, METRICS)
    values = pl.Series("entropy", [1.0] * 5 + [2.0] + [3.0] * 14)
    curves = metrics.with_columns(values)
    logged = [
        {
            point.step
            for point in tracking_points._training(curves.head(steps), n_steps=20)
            if point.key == "train/entropy"
        }
        for steps in range(1, 21)
    ]
    assert logged[-1] == {1, 5, 6, 7, 20}
    assert all(before <= after for before, after in pairwise(logged)), "MLflow takes none back"


def test_curves_and_times_are_those_of_the_files(whole, stored):
    point = whole.points[2]
    run = stored[point.point_id]
    metrics = read_table(point.train.metrics, METRICS)
    logged = [p for p in run.points if p.key == "train/reward"]
    assert [(p.step, p.timestamp, p.value) for p in logged] == list(
        metrics.select("step", "time_ms", "reward").iter_rows()
    )
    assert history(run, "eval/pass_at_1") == dict.fromkeys((5, 20), 0.2)
    first = metrics.row(0, named=True)
    assert run.start == int(first["time_ms"] - 1000 * first["seconds"])
    assert run.end == FINISHED
    assert stored["base-s11"].start == FINISHED - 12500


def test_pass_at_k_is_the_mean_over_problems_by_k_and_plain_at_both_ends(whole, stored):
    for point in whole.points:
        run = stored[point.point_id]
        means = {
            k: point.passk("countdown").filter(pl.col("k") == k)["pass_at_k"].mean()
            for k in (1, 8, 32)
        }
        assert history(run, "pass_at_k/countdown") == {k: float(f"{means[k]:.4g}") for k in means}
        for k in (1, 32):
            key = f"pass_at_{k}/countdown"
            assert history(run, key) == {point.step: float(f"{means[k]:.4g}")}
        assert history(run, "pass_at_8/countdown") == {}
    assert {p.timestamp for p in run.points if p.key.endswith("/countdown")} == {FINISHED}


@pytest.mark.slow
def test_problems_with_too_few_scored_draws_are_left_out_and_their_share_is_said(results):
    point = results.points[1]
    first = pl.col("problem_id") == "p000"
    others = point.passk("countdown").filter(pl.col("k") == 32, ~first)
    lacking = {
        "n_scored": pl.when(first).then(16).otherwise("n_scored"),
        "n_correct": pl.when(first).then(4).otherwise("n_correct"),
        "pass_at_k": pl.when(first, pl.col("k") == 32).then(None).otherwise("pass_at_k"),
    }
    rewrite_passk(point, lambda table: table.with_columns(**lacking).cast(dict(table.schema)))
    run = states(results)[point.point_id]
    assert history(run, "pass_at_k/countdown")[32] == pytest.approx(
        others["pass_at_k"].mean(), abs=1e-4
    )
    share = history(run, "unscored_fraction/countdown")[point.step]
    assert share == float(f"{48 / (24 * 64):.4g}")
    row = run.tables["countdown/pass_at_k.json"].row(2, named=True)
    assert (row["n_problems"], row["unscored_fraction"]) == (23, pytest.approx(48 / (24 * 64)))
    assert (row["cut_off"], row["correct_cut_off"], row["correct_by_place"]) == (0.0, 0.0, 0.0)
    assert not any("_all_" in point.key for point in run.points)
    judged = {"n_scored": 56, "n_correct": pl.col("n_correct").clip(0, 56)}
    bounds = {"pass_at_k_low": 0.25, "pass_at_k_high": 0.75}
    rewrite_passk(
        point, lambda table: table.with_columns(**judged, **bounds).cast(dict(table.schema))
    )
    run = states(results)[point.point_id]  # above 5% with what pass@k were, all wrong or all right
    for k in (1, 32):
        ends = [history(run, f"pass_at_{k}_{end}/countdown") for end in ("all_wrong", "all_right")]
        assert ends == [{point.step: 0.25}, {point.step: 0.75}]


def test_the_artifacts_are_the_specs_and_the_pass_at_k_tables(whole, stored):
    point = whole.points[2]
    run = stored[point.point_id]
    artifacts, tables = run.artifacts, run.tables
    assert set(artifacts) == {
        "spec.json",
        "evaluation.json",
        "countdown/passk.parquet",
        "draws.txt",
        "log-tail.txt",
    }
    where = point.evaluate.benchmark("countdown").draws.relative_to(whole.paths.root)
    assert f"countdown: {where.as_posix()} under the run root" in artifacts["draws.txt"].decode()
    assert artifacts["spec.json"] == point.train.spec.read_bytes()
    assert set(tables) == {"countdown/pass_at_k.json", "countdown/pass_at_k_by_problem.json"}
    problems = tables["countdown/pass_at_k_by_problem.json"]
    assert problems.columns == [
        *("cell", "seed", "problem_id", "n_drawn", "n_scored", "n_correct"),
        *("pass_at_1", "pass_at_8", "pass_at_32"),
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


@pytest.mark.slow
def test_a_point_says_how_far_it_is_and_has_no_run_before_it_begins(results):
    base, point, _ = results.points
    point.evaluate.done.unlink()
    run = states(results)[point.point_id]
    assert (run.end, run.tags["state"]) == (None, "trained")
    point.train.done.unlink()
    run = states(results)[point.point_id]
    assert (run.end, run.tags["state"]) == (None, "training")
    assert {p.key.partition("/")[0] for p in run.points} == {"train", "eval"}
    assert set(run.artifacts) == {"spec.json"}
    for path in (base.train.done, base.evaluate.done, point.train.metrics):
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


@pytest.mark.slow
def test_neither_mlflow_nor_its_database_is_loaded_before_a_sync():
    modules = "fgrpo_bench.tracking.sync, dashboards.mlflow_ui"
    code = f"import {modules}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "polars" in done.stdout.split()
    assert not {"mlflow", "sqlalchemy"} & set(done.stdout.split())


def test_a_cell_has_the_mean_and_interval_of_the_analysis(whole, stored):
    analysis = analysed(whole)
    for cell in analysis.by_cell.values():
        run = stored[cell.cell if cell.focal_gamma is None else f"grpo-n2-g{cell.focal_gamma:g}"]
        assert (run.tags["kind"], run.tags["seeds"]) == ("cell", "11, 12")
        for row in analysis.over_k("countdown", cell):
            mean, low, high = (float(f"{end:.4g}") for end in (row.mean, row.low, row.high))
            assert history(run, "pass_at_k/countdown")[row.k] == mean
            assert history(run, "pass_at_k_low/countdown")[row.k] == low
            assert history(run, "pass_at_k_high/countdown")[row.k] == high
        assert history(run, "pass_at_32_low/countdown") == {cell.step: low}
        exact = run.tables["pass_at_k.json"].row(-1)
        beside = [getattr(row, name) for name in OPEN_AND_CUT_OFF]
        numbers = (row.mean, row.low, row.high, row.n_problems, *beside)
        assert exact == (cell.cell, "countdown", 32, *numbers)


@pytest.mark.slow
def test_points_average_to_their_cell_also_where_draws_are_unscored(tmp_path):
    name = "experiment.evaluation.benchmarks.aime25"
    second = [f"+benchmark@{name}=aime25", f"{name}.n_problems=24"]
    results = write_sweep(tmp_path, overrides=[*TWO_SEEDS, *second])
    few = pl.col("problem_id").eq("p000") & pl.col("k").eq(32)
    lacking = pl.when(few).then(None).otherwise("pass_at_k").alias("pass_at_k")
    rewrite_passk(results.points[-1], lambda table: table.with_columns(lacking))
    runs, analysis = states(results), analysed(results)
    assert analysis.columns == ("average in-domain", "aime25", "countdown")
    for column in analysis.columns:
        cell, *seeds = (
            history(runs[f"grpo-n2-g0.5{of}"], f"pass_at_k/{column}") for of in ("", "-s11", "-s12")
        )
        assert list(cell) == [1, 8, 32]
        assert cell == pytest.approx(
            {k: sum(seed[k] for seed in seeds) / 2 for k in cell}, abs=1e-4
        )


def test_the_ends_of_the_first_loss_are_metrics_and_open_ones_tags(whole, monkeypatch):
    planted = [
        FirstLoss(column="countdown", new="grpo-n2-g0", old="base", low=4, high=None, words=""),
        FirstLoss(
            column="countdown", new="grpo-n2-g0", old="grpo-n2-g0.5", low=1, high=1, words=""
        ),
    ]
    analysis = analysed(whole)
    planted = with_frames(analysis, first_loss=to_frame(FirstLoss, planted))
    monkeypatch.setattr(source, "analysed", lambda *_: planted)
    run = states(whole)["grpo-n2-g0"]
    low, high = (f"pass_at_k_first_loss_{end}/countdown" for end in ("low", "high"))
    assert (history(run, low), history(run, high)) == ({20: 4.0}, {})
    assert (run.tags.get(low), run.tags[high]) == (None, "open")


@pytest.mark.slow
def test_a_cell_says_which_seeds_its_mean_is_of_and_stays_the_same_run(whole, stored, tmp_path):
    results = write_sweep(tmp_path, overrides=TWO_SEEDS)
    before = digests(results)
    late = next(point for point in results.points if point.point_id == "grpo-n2-g0-s12")
    late.evaluate.done.unlink()
    run = states(results)["grpo-n2-g0"]
    assert (run.tags["seeds"], run.end, run.tags["state"]) == ("11", None, "training")
    assert run.identity == stored["grpo-n2-g0"].identity
    changed = {name for name, digest in digests(results).items() if digest != before[name]}
    compared = "grpo-n2-g0.5"
    assert changed == {"grpo-n2-g0", "grpo-n2-g0-s12", compared}


@pytest.mark.slow
def test_keys_are_bounded_however_many_k_there_are(tmp_path):
    ks = list(range(1, 33))
    many = [one for one in TINY if "ks=" not in one] + [f"experiment.evaluation.ks={ks}"]
    results = write_sweep(tmp_path, overrides=many)
    runs = states(results)
    keys = {
        run.tags["kind"]: {p.key for p in run.points if p.key.endswith("/countdown")}
        for run in runs.values()
    }
    assert len(keys["point"]) == 4
    assert len(keys["cell"]) == 9 + 1
    assert len({point.key for point in runs["grpo-n2-g0-s11"].points}) <= 4 + 30


@pytest.mark.slow
def test_every_evaluated_checkpoint_is_a_step_of_the_plain_metrics(tmp_path):
    results = write_sweep(tmp_path, overrides=[*TINY, *EVERY])
    run = states(results)["grpo-n2-g0-s11"]
    assert list(history(run, "pass_at_32/countdown")) == [5, 10, 15, 20]
    assert list(history(run, "pass_at_k/countdown")) == [1, 8, 32], "of the last one alone"
    results.points[1].at(results.points[1].checkpoints[-1]).evaluate.done.unlink()
    run = states(results)["grpo-n2-g0-s11"]
    assert (list(history(run, "unscored_fraction/countdown")), run.end) == ([5, 10, 15], None)
    assert history(run, "pass_at_k/countdown") == {}


@pytest.mark.slow
def test_the_report_is_a_run_of_its_files_and_its_checkpoints_are_those_of_cells_and_words(
    tmp_path, stored, monkeypatch
):
    assert "report" not in stored
    pictures = build._pictures
    monkeypatch.setattr(build, "_pictures", lambda analysis: pictures(analysis)[:1])  # drawn slowly
    results = write_sweep(tmp_path, overrides=[*TWO_SEEDS, *EVERY])
    last = states(results)["grpo-n2-g0"]
    written = build.write_report(results, "step=10")
    write_text(results.paths.report / "former.md", "of a report with other formats")
    runs = states(results)
    report, rule = runs["report"], "step 10 of every run"
    page = report.artifacts[ANSWER].decode()
    files = {path.name: path.read_bytes() for path in written.files}
    assert report.artifacts == files | {ANSWER: page.encode()}
    assert page.index("Does a focal weight at N = ") < page.index("<th>pass@32</th>")
    table = report.tables[TABLE]
    assert table.columns[:3] == ["cell", "benchmark", "pass_at_32"] and len(table) == 3
    assert provenance.NAME in report.artifacts
    assert rule in report.artifacts["report.md"].decode()
    assert report.tags["kind"] == "report"
    assert "## Does a focal weight at N = " in report.tags["mlflow.note.content"]
    assert rule in report.tags["mlflow.note.content"]
    assert rule in desired_experiment(results.paths).tags()["mlflow.note.content"]
    for name in ("grpo-n2-g0", "grpo-n2-g0.5"):
        assert set(history(runs[name], "pass_at_1/countdown")) == {10}
    assert set(history(last, "pass_at_1/countdown")) == {20}
    seeds = [history(runs[f"grpo-n2-g0-s{seed}"], "pass_at_k/countdown")[32] for seed in (11, 12)]
    assert history(runs["grpo-n2-g0"], "pass_at_k/countdown")[32] == pytest.approx(
        sum(seeds) / 2, abs=1e-4
    )


def test_the_description_of_the_experiment_begins_with_the_answer_and_its_table(whole):
    analysis = analysed(whole)
    note = desired_experiment(whole.paths).tags()["mlflow.note.content"]
    first, _, _ = note.partition("\n\n## countdown: pass@k in percent with 95% intervals\n\n")
    assert first == markdown_blocks(answered(analysis))
    (line,) = (each for each in note.splitlines() if each.startswith("| F-GRPO | 2 | 0.5 |"))
    row = analysis.estimate("countdown", "grpo-n2-g0.5", 32)
    assert f"{100 * row.mean:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]" in line


def test_the_views_of_the_experiment_list_and_draw_metrics_that_its_runs_have(whole, stored):
    tags = desired_experiment(whole.paths).tags()
    for kind, section, run in (("cell", "pass_at_k", "grpo-n2-g0"), ("point", "train", "-s11")):
        view = json.loads(tags[f"{VIEW}{kind}"])
        name = next(name for name in stored if name.startswith("grpo") and name.endswith(run))
        keys = {point.key for point in stored[name].points}
        drawn = [chart["metricKey"] for chart in view["compareRunCharts"]]
        assert {column.split("`")[1] for column in view["selectedColumns"]} | {*drawn} <= keys
        sections = [each["uuid"] for each in view["compareRunSections"]]
        assert sections[0] == section
        assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == {*sections}
        assert len(tags[f"{VIEW}{kind}"]) < LONGEST


def test_the_description_of_a_cell_has_its_differences_and_its_numbers(whole, stored):
    analysis = analysed(whole)
    note = stored["grpo-n2-g0.5"].tags["mlflow.note.content"]
    (of_question,) = (
        row
        for row in analysis.question_rows
        if (row.new, row.old, row.k) == ("grpo-n2-g0.5", "grpo-n2-g0", 32)
    )
    assert f"**pass@32, {of_question.verdict}**: {effect(of_question)}" in note
    (loss,) = (row for row in [analysis.first_loss_of("countdown", "grpo-n2-g0.5", "base")] if row)
    assert loss.words in note
    (line,) = (each for each in note.splitlines() if each.startswith("| countdown |"))
    row = analysis.estimate("countdown", "grpo-n2-g0.5", 1)
    assert f"| {100 * row.mean:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}] |" in line
    assert "- " not in stored["base"].tags["mlflow.note.content"].splitlines()[2]


def test_names_in_notes_are_escaped(results):
    recorded = read_json(results.paths.sweep_json)
    recorded["declaration"]["sweep"]["question"] = "<img src=x onerror=alert(1)> [a](javascript:b)"
    write_json(results.paths.sweep_json, with_checksum(recorded))
    note = desired_experiment(results.paths).tags()["mlflow.note.content"]
    assert "## Question\n\n\\<img src=x onerror=alert(1)> [a\\](javascript:b)" in note
    assert "<img" not in note.replace("\\<img", "")


def test_a_note_that_is_too_long_ends_at_a_line_and_says_where_to_read_on():
    text = "\n".join(f"- line {i}" for i in range(2000))
    note = _shortened(text, LONGEST)
    assert len(note) <= LONGEST
    assert note.endswith("\n\nThe report has the rest.")
    assert note.removesuffix("\n\nThe report has the rest.").splitlines()[-1] in text.splitlines()


def test_runs_have_the_names_and_colours_of_tables_and_figures(whole, stored):
    cells = list(analysed(whole).by_cell.values())
    colors = {each.cell: style.color for each, style in cell_styles(cells).items()}
    cell = stored["grpo-n2-g0"]
    assert cell.title == "GRPO N=2"
    assert stored["grpo-n2-g0-s11"].title == "GRPO N=2, seed 11"
    for name in ("grpo-n2-g0", "grpo-n2-g0-s11"):
        assert stored[name].tags["mlflow.runColor"] == colors["grpo-n2-g0"]


@pytest.mark.slow
def test_the_version_that_was_run_last_speaks_for_the_experiment(results, tmp_path):
    write_sweep(tmp_path, overrides=[*TINY, "version=v2"])
    other = results.paths
    recorded = read_json(other.sweep_json)
    older = with_checksum(recorded | {"created": "2000-01-01T00:00:00+00:00"})
    write_json(other.sweep_json, older)
    assert desired_experiment(other).digest is None
    newer = with_checksum(recorded | {"created": "2100-01-01T00:00:00+00:00"})
    write_json(other.sweep_json, newer)
    assert "countdown/v1" in desired_experiment(other).tags()["mlflow.note.content"]
