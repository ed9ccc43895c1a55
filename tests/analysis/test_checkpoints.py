"""Which checkpoint stands for a run, and comparisons at equal rollouts, on planted truths."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from fgrpo_bench.analysis import Analysis, analyse
from fgrpo_bench.analysis.checkpoints import describe_rule
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds import Planned
from fgrpo_bench.specs import config
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stats.selection import is_for_selection
from fgrpo_bench.stats.significance import holm
from sweeps.plan import expand
from tests.analysis.conftest import EQUAL_PROMPTS, best_in_the_middle
from tests.support.report import copy, nine_benchmarks, small_sweep
from tests.support.synthetic import SMALL

SAVED = "experiment.train.save_every=5"
FOCAL, PLAIN, LARGE = "grpo-n8-g0.5", "grpo-n8-g0", "grpo-n32-g0"


def steps(analysis: Analysis) -> dict[str, int]:
    assert {point.step for point in analysis.results.points} == set(analysis.cells["step"])
    return dict(analysis.cells.select("cell", "step").iter_rows())


@pytest.mark.slow
def test_the_last_checkpoint_stands_for_a_run_unless_a_rule_says_otherwise(
    every_step: SweepResults,
) -> None:
    assert set(steps(analyse(every_step)).values()) == {0, 20}
    at_10 = analyse(every_step, "step=10")
    assert set(steps(at_10).values()) == {0, 10}
    assert at_10.estimate("countdown", PLAIN, 1).mean == pytest.approx(0.6, abs=0.03)
    assert set(at_10.estimates["step"]) == {0, 5, 10, 15, 20}, "every checkpoint has rows"


def test_the_papers_rule_takes_the_best_baseline_and_no_dearer_focal_checkpoint(
    every_step: SweepResults,
) -> None:
    analysis = analyse(every_step, "paper")
    # 15 is the best of all, and costs more than the baseline's 10
    assert steps(analysis) == {"base": 0, PLAIN: 10, LARGE: 10, FOCAL: 10}
    rows = analysis.checkpoints.filter(cell=FOCAL)
    assert rows["step"].to_list() == [5, 10, 15, 20]
    assert rows["is_chosen"].to_list() == [False, True, False, False]
    assert set(rows["budget"]) == {10 * 32 * 8}


@pytest.mark.slow
def test_a_held_out_split_reports_only_problems_that_chose_nothing(
    every_step: SweepResults,
) -> None:
    analysis = analyse(every_step, "held-out")
    every = set(every_step.points[0].passk("countdown")["problem_id"])
    kept = set(analysis.problems["problem_id"])
    assert kept == {name for name in every if not is_for_selection(name)}
    assert 0 < len(kept) < len(every)
    assert analysis.estimate("countdown", FOCAL, 1).n_problems == len(kept)
    assert analysis.estimate("countdown", FOCAL, 1).lacks == ()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["paper", "held-out"])
def test_without_a_benchmark_in_domain_all_decide(
    every_step: SweepResults, tmp_path: Path, rule: str
) -> None:
    elsewhere = copy(every_step, tmp_path)
    facts = read_json(elsewhere.paths.sweep_json)
    evaluation = facts["declaration"]["experiment"]["evaluation"]
    evaluation["benchmarks"]["countdown"]["domain"] = "out-of-domain"
    write_json(elsewhere.paths.sweep_json, with_checksum(facts))
    results = load_results(elsewhere.paths)
    outside, within = analyse(results, rule), analyse(every_step, rule)
    assert steps(outside) == steps(within)
    assert outside.problems.equals(within.problems)
    assert "in-domain" in describe_rule(every_step, rule)
    assert "in-domain" not in describe_rule(results, rule)


@pytest.mark.slow
def test_unfinished_checkpoints_are_no_candidates(tmp_path: Path) -> None:
    chosen = (*EQUAL_PROMPTS, "sweep.grid.seed=[11,12]")
    results = small_sweep(tmp_path, "groupsize", *chosen, success_rates=best_in_the_middle)
    runs = [point for point in results.points if point.label == "grpo-n8-g0"]
    runs[1].checkpoints[1].evaluate.done.unlink()
    analysis = analyse(load_results(results.paths), "paper")
    assert analysis.checkpoints.filter(cell=PLAIN)["step"].to_list() == [5, 15, 20]
    assert steps(analysis)[PLAIN] == 15


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("best", "--select best is no rule: choose last, paper, held-out, step=<step>"),
        ("lst", r"--select lst is no rule \(did you mean last\?\): choose"),
        (
            "step=7",
            "step 7 of .* is not evaluated, only 5, 10, 15, 20: choose one of these, or "
            "evaluate another of those that a run keeps: 5, 10, 15, 20$",
        ),
    ],
)
def test_what_is_no_rule_or_no_checkpoint_is_refused(
    every_step: SweepResults, rule: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        analyse(every_step, rule)


@pytest.mark.slow
def test_a_step_that_is_not_evaluated_yet_is_advised_in_words_that_are_accepted(
    tmp_path: Path,
) -> None:
    some = small_sweep(tmp_path, "smoke", SAVED, "experiment.checkpoints=[20]")
    with pytest.raises(ValueError, match=r"is not evaluated, only 20: ") as error:
        analyse(some, "step=10")
    advised = re.search(r"again with (experiment\.checkpoints=\[[\d,]+\])", str(error.value))
    assert advised and advised[1] == "experiment.checkpoints=[10,20]"
    declared = config.load("smoke", [*SMALL, SAVED, advised[1]])
    planned = Planned(declaration=declared, points=expand(declared))
    assert planned.steps == [20, 10]


def test_a_choice_of_one_is_refused_with_the_way_to_more(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"experiment\.checkpoints=every, which trains nothing"):
        analyse(small_sweep(tmp_path, "smoke"), "paper")


def test_costs_are_up_to_each_checkpoint(every_step: SweepResults) -> None:
    cost = analyse(every_step, "paper").cost.filter(cell=LARGE)
    assert cost["rollouts"].to_list() == [step * 32 * 32 for step in (5, 10, 15, 20)]
    assert cost["is_chosen"].to_list() == [False, True, False, False]
    assert cost["train_cpu_seconds"].null_count() == 3


def test_cells_of_other_n_are_compared_at_the_same_rollouts(every_step: SweepResults) -> None:
    analysis = analyse(every_step)
    rows = analysis.equal_budget.to_dicts()
    assert [(row["new_step"], row["old_step"], row["k"]) for row in rows] == [
        (20, 5, 1),
        (20, 5, 32),
    ]
    new, old = (
        np.mean(
            [point.at(at).passk("countdown").filter(k=32)["pass_at_k"].mean() for point, at in runs]
        )
        for runs in (
            [(p, p.checkpoints[-1]) for p in every_step.points if p.cell and p.cell.focal_gamma],
            [
                (p, p.checkpoints[0])
                for p in every_step.points
                if p.cell and p.cell.group_size == 32
            ],
        )
    )
    assert rows[1]["difference"] == pytest.approx(new - old)
    assert rows[0]["name"] == "F-GRPO N=8 gamma=0.5 against GRPO N=32"
    assert [row["p_holm"] for row in rows] == holm([row["p"] for row in rows])


@pytest.mark.slow
def test_runs_that_cost_the_same_are_not_compared_at_equal_rollouts(analysis: Analysis) -> None:
    assert analysis.equal_budget.is_empty()


@pytest.mark.rare
@pytest.mark.slow
def test_equal_rollouts_are_compared_on_averages_too(tmp_path: Path) -> None:
    grid = ["sweep.grid.seed=[11,12]", *EQUAL_PROMPTS[1:]]
    small = ["experiment.train.steps=20", "experiment.evaluation.n_samples=256"]
    analysis = analyse(nine_benchmarks(tmp_path, "groupsize", *grid, *small))
    assert list(dict.fromkeys(analysis.equal_budget["column"])) == list(analysis.columns)
    by_column = {(row["column"], row["k"]): row for row in analysis.equal_budget.to_dicts()}
    for title, names in analysis.averages.items():
        for k in analysis.ends:
            parts = [by_column[name, k]["difference"] for name in names]
            assert by_column[title, k]["difference"] == pytest.approx(np.mean(parts))


@pytest.mark.slow
def test_active_groups_are_a_mean_over_all_steps_and_entropy_over_the_last_tenth(mixed):
    rows = mixed.cost.filter(cell="grpo-n8-g0").to_dicts()
    runs = [p for p in mixed.results.points if p.point_id.startswith("grpo-n8-g0-")]
    for row in rows:
        until = [point.metrics().sort("step").head(row["step"]) for point in runs]
        last = -(-row["step"] // 10)
        active = [fmean(frame["active_fraction"]) for frame in until]
        entropy = [fmean(frame["entropy"].tail(last)) for frame in until]
        assert row["active_fraction"] == pytest.approx(fmean(active), rel=1e-12)
        assert row["entropy"] == pytest.approx(fmean(entropy), rel=1e-12)
    assert [row["step"] for row in rows] == [10, 20]
    assert rows[0]["entropy"] != rows[1]["entropy"]


@pytest.mark.slow
def test_a_base_model_was_not_trained_on_anything(mixed):
    (row,) = mixed.cost.filter(cell="base").to_dicts()
    assert row["active_fraction"] is row["entropy"] is None
