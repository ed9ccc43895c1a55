"""Cells at equal pass@1: paths, ranges that meet, the family, and what is never compared."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.report.figures import pictures
from fgrpo_bench.report.narrative import counted
from fgrpo_bench.report.tables.comparisons import equal_pass_at_1_tables
from fgrpo_bench.report.words import answer
from fgrpo_bench.stats.significance import holm
from tests.support.on_paths import AT, FOCAL, PLAIN, SLOW, STILL, sweep_on_paths
from tests.support.report import nine_benchmarks, small_sweep, with_frames


@pytest.fixture(scope="module")
def on_paths(tmp_path_factory):
    return analyse(sweep_on_paths(tmp_path_factory.mktemp("paths"), AT))


def rows(analysis, new, k=32):
    return analysis.equal_pass_at_1.filter(new=new, old=PLAIN, k=k).to_dicts()


@pytest.mark.slow
def test_a_slower_cell_on_the_same_path_differs_at_its_last_checkpoint_and_not_at_equal_pass_at_1(
    on_paths,
):
    last = on_paths.comparison("countdown", 32, SLOW, PLAIN)
    assert last.low > 0.03, "it has learned less, and so kept more"
    (row,) = rows(on_paths, SLOW)
    assert row["low"] < 0 < row["high"] and abs(row["difference"]) < 0.02
    assert row["verdict"] == "inconclusive" and abs(row["mean_difference"]) < 0.01
    assert row["pass_at_1"] == pytest.approx(
        on_paths.estimate("countdown", SLOW, 1).mean, abs=0.005
    ), "the slower one ends there"


@pytest.mark.slow
def test_what_is_kept_is_significant_within_the_declared_family_alone(on_paths):
    assert on_paths.family.endswith("at equal pass@1; k = 32; countdown")
    assert on_paths.comparisons["family"].null_count() == len(on_paths.comparisons)
    in_family = on_paths.equal_pass_at_1.filter(pl.col("family").is_not_null())
    assert set(zip(in_family["new"], in_family["k"], strict=True)) == {(SLOW, 32), (FOCAL, 32)}
    assert in_family["p_holm"].to_list() == holm(in_family["p"].to_list())
    (kept,) = rows(on_paths, FOCAL)
    assert kept["verdict"] == "significant" and 0.1 < kept["difference"] < 0.2
    assert kept["difference"] == pytest.approx(np.mean(kept["by_seed"]))
    assert 1 not in on_paths.equal_pass_at_1["k"].to_list()


@pytest.mark.slow
def test_the_curve_begins_at_the_base_models_without_a_gap_and_widens(on_paths):
    (row,) = [row for row in on_paths.on_paths if row.new == FOCAL]
    curve = on_paths.path_gap(row)
    assert len(curve) == 11 and abs(curve[0].difference) < 0.02
    assert [at.pass_at_1 for at in curve] == sorted(at.pass_at_1 for at in curve)
    assert curve[-1].difference > 0.1 and curve[-1].pass_at_1 < row.pass_at_1


def test_a_cell_that_does_not_rise_is_inconclusive_in_words(on_paths):
    still = on_paths.path_ranges.filter((pl.col("new") == STILL) | (pl.col("old") == STILL))
    assert len(still) == 3
    assert still["reason"].str.starts_with("pass@1 of GRPO N=32 does not rise beyond doubt").all()
    assert on_paths.equal_pass_at_1.filter(
        (pl.col("new") == STILL) | (pl.col("old") == STILL)
    ).is_empty()
    (table,) = equal_pass_at_1_tables(on_paths)
    assert [row[-1] for row in table.rows].count("inconclusive") == 5
    assert any("No range in common: pass@1 of GRPO N=32" in note for note in table.notes)


def test_a_value_at_equal_pass_at_1_has_the_largest_share_unscored_of_the_path_beside_it(on_paths):
    few = on_paths.estimates.with_columns(
        unscored=pl.when(cell=FOCAL, step=4).then(0.021).otherwise(0.0)
    )
    (table,) = equal_pass_at_1_tables(with_frames(on_paths, estimates=few))
    values = [row[table.header.index("pass@k")] for row in table.rows if row[2] == "32"]
    assert any(value.endswith(" (2.1% unscored)") for value in values)
    assert not all("unscored" in value for value in values)


@pytest.mark.slow
def test_the_answer_says_what_is_kept(on_paths):
    question, kept, again, *_ = answer(on_paths)
    assert again.startswith("A repetition with 3 other seeds would print the same verdict on gamma")
    assert question == "Which of 2 cells keeps more of pass@32 than GRPO N=8 at equal pass@1?"
    assert kept.startswith("At equal pass@1, in pass@32: gamma = 1 keeps 1")
    assert "points more at" in kept and "(significant after correction); gamma = 0.5 at" in kept
    assert "2 are the question: 1 significant, 0 suggestive, 1 inconclusive" in counted(on_paths)
    (picture,) = [each for each in pictures(on_paths) if each.name == "paths-countdown"]
    assert len(picture.draw().axes) == 2


@pytest.mark.slow
def test_a_question_of_last_checkpoints_says_it_beside_its_answer_uncorrected(on_paths, tmp_path):
    usual = analyse(sweep_on_paths(tmp_path))
    assert usual.equal_pass_at_1["p_holm"].null_count() == len(usual.equal_pass_at_1)
    same = ["new", "old", "k", "difference", "low", "high", "p", "mean_difference"]
    assert usual.equal_pass_at_1.select(same).equals(on_paths.equal_pass_at_1.select(same))
    said = " ".join(answer(usual))
    assert "At equal pass@1, in pass@32: gamma = 1 keeps" in said and "(not corrected)" in said
    assert said.startswith("Does a focal weight")


def test_with_one_checkpoint_of_each_run_there_is_no_path(tmp_path):
    analysis = analyse(small_sweep(tmp_path, "smoke"))
    for frame in (analysis.equal_pass_at_1, analysis.path_ranges, analysis.path_gaps):
        assert frame.is_empty()
    assert "equal pass@1" not in " ".join(answer(analysis))


@pytest.mark.slow
def test_seeds_that_lack_a_checkpoint_are_left_out(on_paths):
    results = on_paths.results
    point = next(p for p in results.points if p.point_id == f"{FOCAL}-s12")
    done = point.checkpoints[1].evaluate.done
    text = done.read_bytes()
    done.unlink()
    try:
        (row,) = rows(analyse(load_results(results.paths)), FOCAL)
    finally:
        done.write_bytes(text)
    assert row["seeds"] == [11, 13]


@pytest.mark.rare
@pytest.mark.slow
def test_an_average_has_the_path_of_mean_pass_at_1(tmp_path):
    several = ["experiment.checkpoints=every", "experiment.train.save_every=10",
               "experiment.train.steps=20", "experiment.evaluation.n_samples=256"]  # fmt: skip
    analysis = analyse(nine_benchmarks(tmp_path, "groupsize", "sweep.grid.seed=[11,12]", *several))
    assert set(analysis.path_ranges["column"]) <= set(analysis.columns)
    averages = analysis.path_ranges.filter(pl.col("column").is_in(list(analysis.averages)))
    assert len(averages) > 0
