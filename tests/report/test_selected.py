"""Which checkpoint stands for a run, and comparisons at equal rollouts, on planted truths."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fgrpo_bench.documents.numbers import p_value
from fgrpo_bench.kinds import Planned
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.equal_budget import differences, equal_budget_tables, matches
from fgrpo_bench.report.selected import candidates, choose, rollouts, rule_in_words, select
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.verify import verify
from fgrpo_bench.results import PointResult, SweepResults, load_results
from fgrpo_bench.specs import config
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stats.multiplicity import holm
from fgrpo_bench.stats.selection import is_for_selection
from sweeps.points import expand
from tests.support.report import nine_benchmarks, small_sweep
from tests.support.synthetic import SMALL

EVERY = ("experiment.train.save_every=5", "experiment.checkpoints=every")
SIZES = (
    "sweep.grid.group_size=[8,32]",
    "sweep.cells=[{algorithm: grpo, group_size: 8, focal_gamma: 0.5}]",
)
PROMPTS = ("experiment=countdown-prompts",)
BY_STEP = {0: 0.1, 5: 0.2, 10: 0.6, 15: 0.4, 20: 0.3}
FOCAL_BY_STEP = {5: 0.3, 10: 0.4, 15: 0.9, 20: 0.2}


def planted(point: PointResult, rng: np.random.Generator, n_problems: int) -> np.ndarray:
    by_step = FOCAL_BY_STEP if point.focal_gamma else BY_STEP
    return np.full(n_problems, by_step[point.step])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    root = tmp_path_factory.mktemp("every")
    return small_sweep(root, "groupsize", *PROMPTS, *SIZES, *EVERY, success_rates=planted)


def steps(results: SweepResults) -> dict[str, int]:
    return {point.point_id: point.step for point in results.points if point.seed == 11}


def test_the_last_checkpoint_stands_for_a_run_unless_a_rule_says_otherwise(
    sweep: SweepResults,
) -> None:
    assert set(steps(select(sweep, "last")).values()) == {0, 20}
    assert set(steps(select(sweep, "step=10")).values()) == {0, 10}


def test_the_papers_rule_takes_the_best_baseline_and_no_dearer_focal_checkpoint(
    sweep: SweepResults,
) -> None:
    assert steps(select(sweep, "paper")) == {
        "base-s11": 0,
        "grpo-n8-g0-s11": 10,
        "grpo-n32-g0-s11": 10,
        "grpo-n8-g0.5-s11": 10,  # 15 is the best of all, and costs more than the baseline's 10
    }
    chosen = {one.cell: one for one in choose(sweep, half=False)}
    focal, base = chosen["grpo", 8, 0.5], chosen["grpo", 8, 0.0]
    assert focal.budget == base.candidate.cost == 10 * 32 * 8
    assert [one.step for one in focal.candidates] == [5, 10, 15, 20]


def test_a_held_out_split_reports_only_problems_that_chose_nothing(sweep: SweepResults) -> None:
    chosen = select(sweep, "held-out")
    before, after = sweep.points[-1], chosen.points[-1]
    every = set(before.passk("countdown")["problem_id"])
    kept = set(after.passk("countdown")["problem_id"])
    assert kept == {name for name in every if not is_for_selection(name)}
    assert 0 < len(kept) < len(every)
    assert choose(chosen, half=True) == choose(sweep, half=True), "what is reported chooses nothing"


def test_unfinished_checkpoints_are_no_candidates(tmp_path: Path) -> None:
    chosen = (*PROMPTS, *SIZES, *EVERY, "sweep.grid.seed=[11,12]")
    results = small_sweep(tmp_path, "groupsize", *chosen, success_rates=planted)
    runs = [point for point in results.points if point.cell == ("grpo", 8, 0.0)]
    runs[1].checkpoints[1].evaluate.done.unlink()
    assert [one.step for one in candidates(runs, ["countdown"])] == [5, 15, 20]
    assert steps(select(load_results(results.paths), "paper"))["grpo-n8-g0-s11"] == 15


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("best", "--select best is no rule: choose last, paper, held-out, step=<step>"),
        (
            "step=7",
            "step 7 of .* is not evaluated, only 5, 10, 15, 20: choose one of these, or "
            "evaluate another of those that a run keeps: 5, 10, 15, 20$",
        ),
    ],
)
def test_what_is_no_rule_or_no_checkpoint_is_refused(
    sweep: SweepResults, rule: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        select(sweep, rule)


def test_a_step_that_is_not_evaluated_yet_is_advised_in_words_that_are_accepted(
    tmp_path: Path,
) -> None:
    some = small_sweep(tmp_path, "smoke", EVERY[0], "experiment.checkpoints=[20]")
    with pytest.raises(ValueError, match=r"is not evaluated, only 20: ") as error:
        select(some, "step=10")
    advised = re.search(r"again with (experiment\.checkpoints=\[[\d,]+\])", str(error.value))
    assert advised and advised[1] == "experiment.checkpoints=[10,20]"
    declared = config.load("smoke", [*SMALL, EVERY[0], advised[1]])
    planned = Planned(declaration=declared, points=expand(declared))
    assert planned.steps == [20, 10]


def test_a_choice_of_one_is_refused_with_the_way_to_more(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"experiment\.checkpoints=every, which trains nothing"):
        select(small_sweep(tmp_path), "paper")


def test_compute_ends_at_the_checkpoint_that_stands_for_a_run(sweep: SweepResults) -> None:
    chosen = summarise(select(sweep, "paper"))
    cell = next(cell for cell in chosen.cells if cell.group_size == 32)
    compute = chosen.compute[cell]
    assert (compute.rollouts, compute.optimizer_steps) == (10 * 32 * 32, 20)
    assert rollouts(sweep.points[-1]) == 20 * 32 * (sweep.points[-1].group_size or 0)


def test_cells_of_other_n_are_compared_at_the_same_rollouts(sweep: SweepResults) -> None:
    summary = summarise(sweep)
    (match,) = matches(summary)
    assert (match.new_at.step, match.old_at.step) == (20, 5)
    assert match.new_at.cost == match.old_at.cost == 20 * 32 * 8
    found = differences(summary, match)["countdown"]
    new, old = (
        np.mean(
            [point.at(at).passk("countdown").filter(k=8)["pass_at_k"].mean() for point, at in runs]
        )
        for runs in (
            [(p, p.checkpoints[-1]) for p in sweep.points if p.focal_gamma],
            [(p, p.checkpoints[0]) for p in sweep.points if p.group_size == 32],
        )
    )
    assert found[1].mean == pytest.approx(new - old)
    (table,) = equal_budget_tables(summary)
    (row,) = table.rows
    assert row[:5] == ("F-GRPO N=8 gamma=0.5 against GRPO N=32", "5,120", "5,120", "20", "5")
    assert row[5].startswith(f"{100 * found[0].mean:+.1f} [") and table.header[5:7] == (
        "pass@1",
        "p Holm",
    )
    p = [found[0].p_value, found[-1].p_value]
    assert [row[6], row[8]] == [p_value(each) for each in holm(p)]
    assert any(note.startswith("Checkpoints: of each run the latest") for note in table.notes)


@pytest.mark.slow
def test_equal_rollouts_are_compared_on_averages_too(tmp_path: Path) -> None:
    grid = ["sweep.grid.seed=[11,12]", "sweep.grid.group_size=[8,32]", *EVERY]
    cells = "sweep.cells=[{algorithm: grpo, group_size: 8, focal_gamma: 0.5}]"
    small = ["experiment.train.steps=20", "experiment.evaluation.n_samples=256"]
    results = nine_benchmarks(tmp_path, "groupsize", *grid, cells, *small)
    summary = summarise(results)
    tables = equal_budget_tables(summary)
    assert [table.title.partition(":")[0] for table in tables] == list(summary.columns)
    (match,) = matches(summary)
    found = differences(summary, match)
    for title, names in summary.averages.items():
        for i in range(len(summary.ks)):
            parts = [found[name][i].mean for name in names]
            assert found[title][i].mean == pytest.approx(np.mean(parts))


def test_runs_that_cost_the_same_have_no_table_of_equal_rollouts(tmp_path: Path) -> None:
    summary = summarise(small_sweep(tmp_path, "groupsize", *SIZES))
    assert list(matches(summary)) == []


@pytest.mark.slow
def test_a_report_says_its_rule_and_is_verified_under_it(
    sweep: SweepResults, capsys: pytest.CaptureFixture[str]
) -> None:
    results = select(sweep, "paper")
    report = write_report(results)
    folder = sweep.paths.report
    assert read_json(folder / "provenance.json")["select"] == "paper"
    text = (folder / "report.md").read_text()
    assert rule_in_words(results).partition(";")[0] in text.replace("\\", "")
    assert "which flatters every row" in text
    assert "at equal rollouts" in report.text
    found = verify(folder / "results.csv", root=sweep.paths.root, regrade=False)
    differences = found.differences
    assert [line for line in differences if "no grades" not in line] == []
    paths = sweep.paths
    run = [paths.sweep, "--experiment", paths.experiment, "--root", str(paths.root)]
    assert main([*run, "--select", "nearest"]) == 1
    assert "--select nearest is no rule" in capsys.readouterr().err
