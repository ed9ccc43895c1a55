"""Cells as parent runs, every checkpoint's scores, the report as a run; from files alone."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import FirstLoss, to_frame
from fgrpo_bench.documents.markdown import markdown_blocks
from fgrpo_bench.files.whole import read_json, write_json, write_text
from fgrpo_bench.report import provenance
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.cell_styles import cell_styles
from fgrpo_bench.report.words import answered, effect
from fgrpo_bench.tracking import source
from fgrpo_bench.tracking.desired import LONGEST, RunState, _shortened, desired_experiment
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
            mean, low, high = (float(f"{end:.4g}") for end in (row.mean, row.low, row.high))
            assert history(run, "countdown/pass_at_k")[row.k] == mean
            assert history(run, "uncertainty/countdown/pass_at_k_low")[row.k] == low
            assert history(run, "uncertainty/countdown/pass_at_k_high")[row.k] == high
        assert history(run, "uncertainty/countdown/pass_at_32_low") == {cell.step: low}
        exact = run.tables["pass_at_k.json"].row(-1)
        assert exact == ("countdown", 32, row.mean, row.low, row.high, row.n_problems)


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
        assert cell == pytest.approx(
            {k: sum(seed[k] for seed in seeds) / 2 for k in cell}, abs=1e-4
        )


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
    compared = "grpo-n2-g0.5"
    assert changed == {"grpo-n2-g0", "grpo-n2-g0-s12", compared}


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
    assert history(runs["grpo-n2-g0"], "countdown/pass_at_k")[32] == pytest.approx(
        sum(seeds) / 2, abs=1e-4
    )


def test_the_description_of_the_experiment_begins_with_the_answer_and_its_table(results):
    analysis = analysed(results)
    note = desired_experiment(results.paths).tags()["mlflow.note.content"]
    first, _, _ = note.partition("\n\n## countdown: pass@k in percent with 95% intervals\n\n")
    assert first == markdown_blocks(answered(analysis))
    (line,) = (each for each in note.splitlines() if each.startswith("| F-GRPO | 2 | 0.5 |"))
    row = analysis.estimate("countdown", "grpo-n2-g0.5", 32)
    assert f"{100 * row.mean:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]" in line


def test_the_description_of_a_cell_has_its_differences_and_its_numbers(results):
    analysis = analysed(results)
    note = states(results.paths)["grpo-n2-g0.5"].tags["mlflow.note.content"]
    (of_question,) = (
        row
        for row in analysis.asked
        if (row.new, row.old, row.k) == ("grpo-n2-g0.5", "grpo-n2-g0", 32)
    )
    assert f"**pass@32, {of_question.verdict}**: {effect(of_question)}" in note
    (loss,) = (row for row in [analysis.first_loss_of("countdown", "grpo-n2-g0.5", "base")] if row)
    assert loss.words in note
    (line,) = (each for each in note.splitlines() if each.startswith("| countdown |"))
    row = analysis.estimate("countdown", "grpo-n2-g0.5", 1)
    assert f"| {100 * row.mean:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}] |" in line
    assert "- " not in states(results.paths)["base"].tags["mlflow.note.content"].splitlines()[2]


def test_names_in_notes_are_escaped(results):
    recorded = read_json(results.paths.sweep_json)
    recorded["declaration"]["sweep"]["question"] = "<img src=x onerror=alert(1)> [a](javascript:b)"
    write_json(results.paths.sweep_json, recorded)
    note = desired_experiment(results.paths).tags()["mlflow.note.content"]
    assert "## Question\n\n\\<img src=x onerror=alert(1)> [a\\](javascript:b)" in note
    assert "<img" not in note.replace("\\<img", "")


def test_a_note_that_is_too_long_ends_at_a_line_and_says_where_to_read_on():
    text = "\n".join(f"- line {i}" for i in range(2000))
    note = _shortened(text, LONGEST)
    assert len(note) <= LONGEST
    assert note.endswith("\n\nThe report has the rest.")
    assert note.removesuffix("\n\nThe report has the rest.").splitlines()[-1] in text.splitlines()


def test_runs_have_the_names_and_colours_of_tables_and_figures(results):
    stored, cells = states(results.paths), list(analysed(results).by_cell.values())
    colors = {each.cell: style.color for each, style in cell_styles(cells).items()}
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
