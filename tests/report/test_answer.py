"""The answer in a sentence or two: it follows the verdicts, and claims nothing beyond them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.documents.table import points
from fgrpo_bench.report.words import answer, front_sentence
from tests.support.report import (
    MANY_PROBLEMS,
    ONE_SEED,
    constant,
    copy,
    forget,
    small_sweep,
    with_frames,
)


def judged(analysis, rows, *, old="grpo-n8-g0", repeats=None):
    """The analysis with its question's comparisons as if they had come out otherwise: difference
    and verdict by new cell and k. repeats: the chance that a repetition gives the verdict, by new
    cell; None: not known of any."""
    frame = analysis.comparisons
    chance = pl.col("new").replace_strict(repeats or {}, default=None, return_dtype=pl.Float64)
    frame = frame.with_columns(
        repeats=chance, repeats_low=chance / 2, repeats_high=(1 + chance) / 2
    )
    for (new, k), (difference, verdict) in rows.items():
        mine = (pl.col("new") == new) & (pl.col("k") == k) & (pl.col("old") == old)
        frame = frame.with_columns(
            difference=pl.when(mine).then(difference).otherwise("difference"),
            verdict=pl.when(mine).then(pl.lit(verdict)).otherwise("verdict"),
        )
    return with_frames(analysis, comparisons=frame)


def without_repetitions(analysis):
    """The answer without how often a repetition would print the same."""
    return [said for said in answer(analysis) if not said.startswith("A repetition with ")]


def lost(analysis, *, by):
    """As if training without a focal weight had lost so much of pass@32."""
    return judged(analysis, {("grpo-n8-g0", 32): (-by, "suggestive")}, old="base")


G1, G05 = "grpo-n8-g1", "grpo-n8-g0.5"
RECOVER = "Does a focal weight at N = 8 recover pass@32?"
VERDICTS = [
    (
        0.1614,
        {(G1, 32): (0.11, "significant"), (G05, 32): (0.0753, "suggestive"),
         (G1, 1): (-0.024, "inconclusive"), (G05, 1): (-0.016, "inconclusive")},
        "Yes at gamma = 1: 11.0 of the 16.1 points that training lost (significant after "
        "correction); perhaps at gamma = 0.5: 7.5 of these (suggestive, not after correction).",
        "The effect on pass@1 is inconclusive (-2.4 and -1.6 points).",
    ),
    (
        0.1,
        {(G1, 32): (0.2, "significant"), (G05, 32): (-0.05, "significant"),
         (G1, 1): (-0.07, "significant"), (G05, 1): (0.01, "inconclusive")},
        "Yes at gamma = 1: 20.0 more than the 10.0 points that training lost (significant after "
        "correction); no at gamma = 0.5: 5.0 points less (significant after correction).",
        "It costs 7.0 points of pass@1 at gamma = 1 (significant); the effect at gamma = 0.5 is "
        "inconclusive (+1.0 points).",
    ),
]  # fmt: skip
"""What training lost, what came of the question's comparisons, and both sentences of the answer."""


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "rows", "first", "second"), VERDICTS)
def test_what_training_lost_is_given_back_by_verdict(analysis, loss, rows, first, second):
    assert answer(judged(lost(analysis, by=loss), rows)) == [RECOVER, first, second]


def test_what_a_repetition_may_not_say_again_begins_with_the_estimate(analysis):
    rows = VERDICTS[0][1]
    planted = judged(lost(analysis, by=0.1614), rows, repeats={G1: 0.62, G05: 0.9})
    _, said, chances, *_ = answer(planted)
    row = analysis.comparison("countdown", 32, G1, "grpo-n8-g0")
    low, high = (f"{100 * end:.1f}" for end in sorted((abs(row.low), abs(row.high))))
    assert said == (
        f"11.0 [{low}, {high}] of the 16.1 points that training lost at gamma = 1 (significant "
        "after correction); perhaps at gamma = 0.5: 7.5 of these (suggestive, not after "
        "correction)."
    )
    assert chances == (
        "A repetition with 3 other seeds would print the same verdict on gamma = 0.5 in 90% (45% "
        "to 95%) and on gamma = 1 in 62% (31% to 81%) of cases, by the seeds seen."
    )
    certain = judged(lost(analysis, by=0.1614), rows, repeats={G1: 1.0, G05: 1.0})
    assert answer(certain)[1].startswith("Yes at gamma = 1")
    assert "on gamma = 0.5 in more than 99% and on gamma = 1 in more" in answer(certain)[2]


def test_without_a_loss_nothing_is_given_back(analysis):
    gained = answer(lost(analysis, by=-0.1))
    assert gained[0] == "Does a focal weight at N = 8 raise pass@32?"
    assert "training lost" not in " ".join(gained)


AT_8 = "sweep.grid.group_size=[8]"


def test_what_is_open_is_neither_yes_nor_no(tmp_path):
    alike = constant(Base=0.1, GRPO=0.1, F_GRPO=0.1)
    results = small_sweep(tmp_path, "groupsize", AT_8, success_rates=alike)
    _, first, second = without_repetitions(analyse(results))
    assert first.startswith("Inconclusive (")
    assert second.startswith("The effect on pass@1 is inconclusive (")


@pytest.mark.slow
def test_planted_effects_are_answered_with_the_figures_of_the_table(tmp_path):
    planted = constant(Base=0.06, GRPO=0.005, F_GRPO=0.04)
    sweep = small_sweep(tmp_path, "groupsize", AT_8, MANY_PROBLEMS, success_rates=planted)
    analysis = analyse(sweep)
    question, first, second = without_repetitions(analysis)
    assert question == RECOVER
    assert first.startswith("Yes at gamma = ") and first.endswith(
        " (significant after correction)."
    )
    for new in (G1, G05):
        row = analysis.comparison("countdown", 32, new, "grpo-n8-g0")
        assert f"{points(row.difference)[1:]} of " in first
    assert second.startswith("It gains ") and " points of pass@1 at gamma = " in second
    assert second.endswith(" (significant).")


@pytest.mark.slow
def test_a_single_seed_and_missing_points_are_said(finished, tmp_path):
    alone = answer(analyse(small_sweep(tmp_path / "one", "groupsize", AT_8, ONE_SEED)))
    assert alone[-1] == "One training seed: another run may say otherwise."
    some = forget(copy(finished, tmp_path / "some"), "grpo-n8-g1-s13")
    assert answer(analyse(some))[-1] == "So far: 20 of 21 runs have results."
    none = forget(some, *(point.point_id for point in some.points if point.seed != 13))
    none = forget(none, *(point.point_id for point in none.points if point.evaluate.done.exists()))
    said = ["No two cells that the question compares have results yet."]
    assert answer(analyse(none))[:1] == said


@pytest.mark.slow
def test_of_many_pairs_the_significant_ones_and_others_that_are_few_are_named(tmp_path):
    methods = "[grpo,pkpo,maxrl,passk,rloo,ds_grpo,nsr,psr,dapo,cispo]"
    few = [f"sweep.grid.algorithm={methods}", "sweep.cells=[]"]
    asked = [*few, ONE_SEED, "sweep.family.pairs=[methods]"]
    results = analyse(small_sweep(tmp_path, "methods", *asked))
    cells = ["pkpo-n8-g0", "maxrl-n8-g0", "passk-n8-g0", "rloo-n8-g0"]
    rows = {(cell, 32): (0.14 - i / 100, "significant") for i, cell in enumerate(cells)}
    rows |= {("ds_grpo-n8-g0", 32): (-0.04, "suggestive")}
    none = ("nsr-n8-g0", "psr-n8-g0", "dapo-n8-g0", "cispo-n8-g0")
    rows |= {(cell, 32): (0.0, "inconclusive") for cell in none}
    question, first, second, _ = answer(judged(results, rows))
    assert question == "Which of 9 cells differ from GRPO N=8 in pass@32?"
    assert first == (
        "PKPO gains 14.0 points of pass@32, MaxRL 13.0, Pass@k training 12.0 and 1 more "
        "(significant); DS-GRPO costs 4.0 points of pass@32 (suggestive); 4 are inconclusive."
    )
    assert second.startswith("Every difference in pass@1 is inconclusive (")


@pytest.mark.slow
def test_where_none_was_declared_nothing_is_more_than_suggestive_and_a_sentence_says_why(tmp_path):
    def rates(point, rng, n_problems):
        algorithm = point.cell and point.cell.algorithm
        return np.full(n_problems, {"nsr": 0.9, "psr": 0.1}.get(algorithm, 0.5))

    few = ["sweep.grid.algorithm=[grpo,nsr,psr,rloo]", "sweep.cells=[]"]
    said = answer(analyse(small_sweep(tmp_path, "methods", *few, success_rates=rates)))
    assert said[0] == "Which of 3 cells differ from GRPO N=8 in pass@32?"
    (low,) = [words for words in said if " points of pass@1 (suggestive); " in words]
    assert low.startswith("NSR gains ") and "; PSR costs " in low and low.endswith(" points).")
    assert said[-1] == NOTHING_CORRECTED
    assert not any("significant" in words for words in said)


@pytest.mark.slow
def test_one_pair_and_pairs_of_several_cells_have_their_own_questions(tmp_path):
    named = "sweep.family={pairs: null, cells: [%s], ks: [32], columns: null}"
    pair = "{new: grpo-n16-g0, old: grpo-n2-g0}"
    one = small_sweep(tmp_path / "1", "groupsize", ONE_SEED, named % pair)
    assert answer(analyse(one))[0] == "Does GRPO N=16 differ from GRPO N=2 in pass@32?"
    two = named % f"{pair}, {{new: grpo-n32-g0, old: grpo-n4-g0}}"
    question, *_ = answer(analyse(small_sweep(tmp_path / "2", "groupsize", ONE_SEED, two)))
    assert question == "Which of 2 pairs of cells differ in pass@32?"


@pytest.mark.slow
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
    assert front_sentence(analysis, "countdown") == (
        "Plane of pass@1 and pass@32: no compared setting is dominated."
    )
    front = analysis.front.with_columns(
        is_on_front=pl.when(pl.col("cell") == "grpo-n8-g0").then(False).otherwise("is_on_front")
    )
    assert front_sentence(with_frames(analysis, front=front), "countdown") == (
        "Plane of pass@1 and pass@32: 1 of 3 compared settings are dominated (GRPO N=8)."
    )
