"""Tables that only some sweeps have: chosen checkpoints, equal rollouts, and tasks."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.checkpoints import rule_in_words
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import Comparison, from_frame
from fgrpo_bench.documents.table import difference, p_value
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.tables.comparisons import equal_budget_tables, selection_table, task_tables
from fgrpo_bench.report.verify import verify
from tests.analysis.conftest import EQUAL_PROMPTS
from tests.support.report import TASKS, copy, small_sweep


def test_a_chosen_checkpoint_stands_with_those_it_was_chosen_from(every_step):
    (table,) = selection_table(analyse(every_step, "paper"))
    rows = {row[:3]: row[3:] for row in table.rows}
    step, rollouts, most, scores = rows["F-GRPO", "8", "0.5"]
    assert (step, rollouts, most) == ("10", "2,560", "2,560")
    assert [each.partition(":")[0] for each in scores.split(", ")] == ["5", "10", "15", "20"]
    assert rows["GRPO", "8", "0"][2] == "-"
    assert list(selection_table(analyse(every_step))) == []


def test_cells_of_other_n_are_compared_at_the_same_rollouts(every_step):
    analysis = analyse(every_step)
    (table,) = equal_budget_tables(analysis)
    (row,) = table.rows
    assert row[:5] == ("F-GRPO N=8 gamma=0.5 against GRPO N=32", "5,120", "5,120", "20", "5")
    first, last = from_frame(Comparison, analysis.equal_budget)
    assert table.header[5:] == ("pass@1", "p Holm", "pass@32", "p Holm")
    assert row[5:] == (
        *(difference(first.difference, first.low, first.high), p_value(first.p_holm)),
        *(difference(last.difference, last.low, last.high), p_value(last.p_holm)),
    )
    assert any(note.startswith("Checkpoints: of each run the latest") for note in table.notes)
    assert first.family in " ".join(table.notes)


@pytest.mark.slow
def test_where_no_comparison_was_declared_those_at_equal_rollouts_are_not_corrected_either(
    tmp_path,
):
    none = "sweep.family.pairs=[]"
    analysis = analyse(small_sweep(tmp_path, "groupsize", *EQUAL_PROMPTS, none))
    assert len(analysis.equal_budget) == analysis.equal_budget["p_holm"].null_count() == 2
    (table,) = equal_budget_tables(analysis)
    assert table.notes[-1].endswith(NOTHING_CORRECTED)


@pytest.mark.slow
def test_a_report_says_its_rule_and_is_verified_under_it(every_step, tmp_path, capsys):
    sweep = copy(every_step, tmp_path)
    write_report(sweep, "paper")
    folder = sweep.paths.report
    assert read_json(folder / "provenance.json")["select"] == "paper"
    text = (folder / "report.md").read_text()
    assert rule_in_words(sweep, "paper").partition(";")[0] in text.replace("\\", "")
    assert "which flatters every row" in text
    assert "at equal rollouts" in (folder / "appendix.md").read_text()
    verified = verify(folder / "results.csv", root=sweep.paths.root, regrade=False)
    assert verified.differences == ()
    paths = sweep.paths
    run = [f"{paths.sweep}/{paths.experiment}", "--root", str(paths.root)]
    assert main([*run, "--select", "nearest"]) == 1
    assert "--select nearest is no rule" in capsys.readouterr().err


@pytest.mark.slow
def test_the_report_has_a_row_a_task_in_markdown_latex_and_csv(of_tasks, tmp_path):
    tasks = copy(of_tasks, tmp_path)
    report = write_report(tasks)
    texts = {file.name: file.read_text() for file in report.files[:8]}
    assert texts["by-task.csv"] == render(analyse(tasks), "by-task")
    tables = list(task_tables(analyse(tasks)))
    assert [table.title for table in tables] == [
        f"countdown: pass@{k} in percent by task" for k in (1, 32)
    ]
    for table in tables:
        assert [row[0] for row in table.rows] == sorted(TASKS)
        assert [row[-1] for row in table.rows] == ["0.00%", "0.00%", "100.00%"]
        assert set(table.rows[2][2:-1]) == {"- (100.0% unscored)"}
        for kind in ("appendix.md", "appendix.tex"):
            assert texts[kind].count(table.title) == 1
    assert "<b>" not in texts["appendix.md"].replace("\\<", "")
    assert "\\textless{}b" in texts["appendix.tex"]
    assert "no \\| verifier" in texts["appendix.md"]
    differences = verify(report.files[3], root=tasks.paths.root, regrade=False).differences
    assert not [line for line in differences if "by-task" in line]


def test_a_sweep_without_such_a_benchmark_says_nothing_of_tasks(analysis):
    assert list(task_tables(analysis)) == []
    assert len(render(analysis, "by-task").splitlines()) == 1
