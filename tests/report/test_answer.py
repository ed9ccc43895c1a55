"""The answer in a sentence or two: it follows the verdicts, and claims nothing beyond them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.documents.table import points
from fgrpo_bench.report.words import answer, front_in_words
from tests.support.report import (
    MANY_PROBLEMS,
    ONE_SEED,
    constant,
    copy,
    forget,
    small_sweep,
)


def judged(analysis, **changes):
    """The analysis with its question's comparisons as if they had come out otherwise. changes: by
    new cell, k and column of the frame, as in `{("grpo-n8-g1", 32): {"verdict": "robust"}}`."""
    rows = analysis.comparisons
    for (new, k), values in changes["rows"].items():
        mine = (pl.col("new") == new) & (pl.col("k") == k)
        mine &= pl.col("old") == changes["old"]
        rows = rows.with_columns(
            pl.when(mine).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
            for name, value in values.items()
        )
    return replace(analysis, comparisons=rows)


def lost(analysis, *, by):
    """As if training without a focal weight had lost so much of pass@32."""
    rows = {("grpo-n8-g0", 32): {"difference": -by, "verdict": "suggestive"}}
    return judged(analysis, rows=rows, old="base")


def test_what_training_lost_is_given_back_by_verdict(analysis):
    rows = {
        ("grpo-n8-g1", 32): {"difference": 0.11, "verdict": "robust"},
        ("grpo-n8-g0.5", 32): {"difference": 0.0753, "verdict": "suggestive"},
        ("grpo-n8-g1", 1): {"difference": -0.024, "verdict": "inconclusive"},
        ("grpo-n8-g0.5", 1): {"difference": -0.016, "verdict": "inconclusive"},
    }
    assert answer(judged(lost(analysis, by=0.1614), rows=rows, old="grpo-n8-g0")) == [
        "Does a focal weight at N = 8 recover pass@32?",
        "Yes at gamma = 1: 11.0 of the 16.1 points that training lost (robust after correction); "
        "perhaps at gamma = 0.5: 7.5 of these (suggestive, not after correction).",
        "The effect on pass@1 is inconclusive (-2.4 and -1.6 points).",
    ]


def test_more_than_was_lost_and_falls_are_said_as_such(analysis):
    rows = {
        ("grpo-n8-g1", 32): {"difference": 0.2, "verdict": "robust"},
        ("grpo-n8-g0.5", 32): {"difference": -0.05, "verdict": "robust"},
        ("grpo-n8-g1", 1): {"difference": -0.07, "verdict": "robust"},
        ("grpo-n8-g0.5", 1): {"difference": 0.01, "verdict": "inconclusive"},
    }
    _, first, second = answer(judged(lost(analysis, by=0.1), rows=rows, old="grpo-n8-g0"))
    assert first == (
        "Yes at gamma = 1: 20.0 more than the 10.0 points that training lost (robust after "
        "correction); no at gamma = 0.5: 5.0 points less (robust after correction)."
    )
    assert second == "In pass@1: worse, robust: gamma = 1 -7.0; inconclusive: 1."


def test_without_a_loss_nothing_is_given_back(analysis):
    gained = lost(analysis, by=-0.1)
    assert answer(gained)[0] == "Does a focal weight at N = 8 raise pass@32?"
    assert "training lost" not in " ".join(answer(gained))


def test_what_is_open_is_neither_yes_nor_no(tmp_path):
    alike = analyse(small_sweep(tmp_path, success_rates=constant(Base=0.1, GRPO=0.1, F_GRPO=0.1)))
    _, first, second = answer(alike)
    assert first.startswith("Inconclusive (")
    assert second.startswith("The effect on pass@1 is inconclusive (")


def test_planted_effects_are_answered_with_the_figures_of_the_table(tmp_path):
    planted = constant(Base=0.06, GRPO=0.005, F_GRPO=0.04)
    sweep = small_sweep(tmp_path, "groupsize", MANY_PROBLEMS, success_rates=planted)
    analysis = analyse(sweep)
    question, first, second = answer(analysis)
    assert question == "Does a focal weight at N = 8 recover pass@32?"
    assert first.startswith("Yes at gamma = ") and first.endswith(" (robust after correction).")
    for new in ("grpo-n8-g1", "grpo-n8-g0.5"):
        row = analysis.comparison("countdown", 32, new, "grpo-n8-g0")
        assert f"{points(row.difference)[1:]} of " in first
    assert second.startswith("In pass@1: better, robust: gamma = ")


def test_a_single_seed_and_missing_points_are_said(finished, tmp_path):
    alone = answer(analyse(small_sweep(tmp_path / "one", "groupsize", ONE_SEED)))
    assert alone[-1] == "One training seed: another run may say otherwise."
    some = forget(copy(finished, tmp_path / "some"), "grpo-n8-g1-s13")
    assert answer(analyse(some))[-1] == "So far: 23 of 24 points have results."


def test_before_two_cells_have_results_there_is_no_answer(finished, tmp_path):
    results = copy(finished, tmp_path)
    none = forget(results, *(point.point_id for point in results.points))
    said = ["No two cells that the question compares have results yet."]
    assert answer(analyse(none))[:1] == said


@pytest.fixture(scope="module")
def methods(tmp_path_factory):
    root, asked = tmp_path_factory.mktemp("methods"), "sweep.family.pairs=[methods]"
    return analyse(small_sweep(root, "methods", asked))


def test_of_many_pairs_the_robust_ones_are_named_and_the_rest_is_counted(methods):
    cells = ["pkpo-n8-g0", "maxrl-n8-g0", "passk-n8-g0", "rloo-n8-g0"]
    better = {(cell, 32): {"difference": 0.14 - i / 100, "verdict": "robust"}
              for i, cell in enumerate(cells)}  # fmt: skip
    worse = {("ds_grpo-n8-g0", 32): {"difference": -0.04, "verdict": "suggestive"}}
    question, first, second = answer(judged(methods, rows=better | worse, old="grpo-n8-g0"))
    assert question == "Which of 22 cells differ from GRPO N=8 in pass@32?"
    assert first == (
        "Better, robust: PKPO +14.0, MaxRL +13.0, Pass@k training +12.0 and 1 more; "
        "worse, suggestive: 1; inconclusive: 17."
    )
    assert second.startswith("Every difference in pass@1 is inconclusive (")


def test_where_none_was_declared_nothing_is_more_than_suggestive_and_a_sentence_says_why(tmp_path):
    def rates(point, rng, n_problems):
        algorithm = point.cell and point.cell.algorithm
        return np.full(n_problems, {"nsr": 0.9, "psr": 0.1}.get(algorithm, 0.5))

    few = ["sweep.grid.algorithm=[grpo,nsr,psr,rloo]", "sweep.cells=[]"]
    said = answer(analyse(small_sweep(tmp_path, "methods", *few, success_rates=rates)))
    assert said[0] == "Which of 3 cells differ from GRPO N=8 in pass@32?"
    (low,) = [words for words in said if words.startswith("In pass@1: ")]
    assert "better, suggestive: NSR +" in low and "worse, suggestive: PSR -" in low
    assert said[-1] == NOTHING_CORRECTED
    assert not any("robust" in words for words in said)


def test_one_pair_and_pairs_of_several_cells_have_their_own_questions(tmp_path):
    named = "sweep.family={pairs: null, cells: [%s], ks: [32], columns: null}"
    pair = "{new: grpo-n16-g0, old: grpo-n2-g0}"
    one = small_sweep(tmp_path / "1", "groupsize", named % pair)
    assert answer(analyse(one))[0] == "Does GRPO N=16 differ from GRPO N=2 in pass@32?"
    two = named % f"{pair}, {{new: grpo-n32-g0, old: grpo-n4-g0}}"
    question, *_ = answer(analyse(small_sweep(tmp_path / "2", "groupsize", two)))
    assert question == "Which of 2 pairs of cells differ in pass@32?"


def test_cells_of_several_algorithms_are_told_apart(tmp_path):
    rates = constant(Base=0.06, GRPO=0.005, DAPO=0.005, CISPO=0.005,
                     F_GRPO=0.04, F_DAPO=0.04, F_CISPO=0.005)  # fmt: skip
    question, first, _, _ = answer(analyse(small_sweep(tmp_path, "transfer", success_rates=rates)))
    assert question == "Does a focal weight at N = 8 recover pass@32 under GRPO, DAPO and CISPO?"
    assert "GRPO gamma = 0.5: " in first and "DAPO gamma = 0.5: " in first
    assert "inconclusive at CISPO gamma = 1 (" in first


def test_several_columns_are_named_and_those_past_two_are_counted(tmp_path):
    other = (
        "{name: %s, dataset: null, n_problems: 12, grader: countdown, "
        "extra_graders: [], prompt: null}"
    )
    more = [f"+experiment.evaluation.benchmarks.{name}={other % name}" for name in ("b", "c")]
    family = "sweep.family={pairs: [focal], cells: [], ks: null, columns: [countdown, b, c]}"
    said = answer(analyse(small_sweep(tmp_path, "smoke", *more, family)))
    assert said[0] == "Does a focal weight at N = 4 raise pass@32 on b?"
    assert said[3] == "Does a focal weight at N = 4 raise pass@32 on c?"
    assert said[6].startswith("Of 2 comparisons on countdown: ")


def test_the_plane_names_what_is_dominated(analysis):
    assert front_in_words(analysis, "countdown") == (
        "Plane of pass@1 and pass@32: no compared setting is dominated."
    )
    front = analysis.front.with_columns(
        is_on_front=pl.when(pl.col("cell") == "grpo-n8-g0").then(False).otherwise("is_on_front")
    )
    assert front_in_words(replace(analysis, front=front), "countdown") == (
        "Plane of pass@1 and pass@32: 1 of 3 compared settings are dominated (GRPO N=8)."
    )
