"""Reading a sweep's files: what is there, what is missing, and what every seed has."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.documents.latex import latex_table
from fgrpo_bench.documents.markdown import markdown_table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.tables import interval_table
from tests.support.report import copy, forget, rewrite_passk


def find(summary, label):
    return next(cell for cell in summary.cells if cell.label == label)


def test_cells_come_in_plan_order_with_the_base_models_first(summary):
    assert [cell.label for cell in summary.cells] == [
        *("Base", "GRPO N=2", "GRPO N=4", "GRPO N=8", "GRPO N=16", "GRPO N=32"),
        *("F-GRPO N=8 gamma=0.5", "F-GRPO N=8 gamma=1"),
    ]
    assert [cell.step for cell in summary.cells] == [0] + 7 * [20]


def test_means_are_those_of_the_stored_tables(finished, summary):
    stored = [p.passk("countdown") for p in finished.points if p.point_id.startswith("grpo-n8-g0-")]
    by_seed = [frame.filter(pl.col("k") == 32)["pass_at_k"].mean() for frame in stored]
    scores = summary.scores["countdown", find(summary, "GRPO N=8")]
    assert scores.seeds == (11, 12, 13)
    assert scores.estimates[2].by_seed == pytest.approx(tuple(by_seed))
    assert scores.estimates[2].mean == pytest.approx(np.mean(by_seed))
    assert (scores.n_samples, scores.estimates[2].n_problems) == (64, 24)


def test_problems_are_matched_by_name_and_not_by_their_place(finished, tmp_path):
    results = copy(finished, tmp_path)
    before = summarise(results)
    rewrite_passk(results.points[-1], lambda frame: frame.sample(fraction=1, shuffle=True, seed=1))
    after = summarise(results)
    cell = find(after, "F-GRPO N=8 gamma=1")
    np.testing.assert_array_equal(
        after.scores["countdown", cell].values, before.scores["countdown", cell].values
    )


def test_a_problem_without_an_estimate_is_left_out_of_that_k_in_every_seed(finished, tmp_path):
    results = copy(finished, tmp_path)
    too_few = (pl.col("problem_id") == "p003") & (pl.col("k") == 32)
    rewrite_passk(
        results.points[-1],
        lambda frame: frame.with_columns(
            pl.when(too_few).then(None).otherwise(pl.col("pass_at_k")).alias("pass_at_k"),
            pl.when(pl.col("problem_id") == "p003")
            .then(20)
            .otherwise("n_scored")
            .alias("n_scored"),
        ).cast(dict(frame.schema)),
    )
    summary = summarise(results)
    scores = summary.scores["countdown", find(summary, "F-GRPO N=8 gamma=1")]
    assert [made.n_problems for made in scores.estimates] == [24, 24, 23]
    assert scores.unscored == pytest.approx((64 - 20) / (3 * 24 * 64))
    np.testing.assert_allclose(
        scores.estimates[2].mean, np.nanmean(np.delete(scores.values, 3, axis=1)[:, :, 2])
    )


def test_points_without_results_are_missing_and_not_counted(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n8-g1-s13", "grpo-n2-g0-s11", "base-s12")
    summary = summarise(results)
    assert {p.point_id for p in summary.missing} == {
        *("grpo-n8-g1-s13", "grpo-n2-g0-s11", "base-s12")
    }
    assert summary.scores["countdown", find(summary, "GRPO N=2")].seeds == (12, 13)
    assert summary.compute[find(summary, "GRPO N=2")].n_runs == 2
    assert summary.compute[find(summary, "GRPO N=4")].n_runs == 3


def test_compute_is_read_from_metrics_and_markers(summary):
    compute = summary.compute[find(summary, "GRPO N=4")]
    assert (compute.rollouts, compute.optimizer_steps) == (256 * 20, 2 * 20)
    assert (compute.train_cpu_seconds, compute.evaluate_cpu_seconds) == (11.25, 11.25)
    assert summary.compute[find(summary, "Base")].rollouts is None
    assert summary.graders == ("countdown-1",)


def test_where_a_problem_has_choices_a_footnote_says_what_guessing_gives(summary):
    declaration = deepcopy(summary.results.declaration)
    evaluation = declaration["declaration"]["experiment"]["evaluation"]
    evaluation["benchmarks"]["countdown"]["grader"] = "choice"
    changed = replace(summary, results=replace(summary.results, declaration=declaration))
    notes = interval_table(changed, "countdown").notes
    assert "countdown by guessing alone: pass@1 25.0, pass@8 90.0, pass@32 100.0." in notes
    assert not [note for note in interval_table(summary, "countdown").notes if "guess" in note]


def test_a_footnote_says_what_unscored_draws_leave_open_and_is_absent_without_any(
    finished, tmp_path
):
    assert len(interval_table(summarise(finished), "countdown").notes) == 1
    results = copy(finished, tmp_path)
    rewrite_passk(
        results.points[-1],
        lambda frame: frame.with_columns(
            (pl.col("pass_at_k") / 2).alias("pass_at_k_low"),
            pl.lit(1.0).alias("pass_at_k_high"),
        ),
    )
    summary = summarise(results)
    note = interval_table(summary, "countdown").notes[1]
    assert note.count("F-GRPO N=8 gamma=1, pass@") == 2
    scores = summary.scores["countdown", find(summary, "F-GRPO N=8 gamma=1")]
    assert scores.bounds[0] is not None and f"{100 * scores.bounds[0][1]:.1f}" in note
    for render in (markdown_table, latex_table, plain_table):
        made = render(interval_table(summary, "countdown"), **CAPTION.get(render, {}))
        text = made if isinstance(made, str) else " ".join(made)
        assert "were all of them wrong or all right" in " ".join(text.split())


CAPTION = {latex_table: {"caption": "x"}}
