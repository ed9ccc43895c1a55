"""Tables that only some sweeps have: chosen checkpoints, equal rollouts, and tasks."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.checkpoints import describe_rule
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import Comparison, from_frame
from fgrpo_bench.documents.table import difference, p_value
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.tables.comparisons import equal_budget_tables, selection_table, value_tables
from fgrpo_bench.report.verify import verify
from tests.analysis.conftest import EQUAL_PROMPTS
from tests.support.report import TASKS, copy, small_sweep, with_columns

pytestmark = pytest.mark.usefixtures("plain_figures")


@pytest.mark.slow
def test_a_chosen_checkpoint_stands_with_those_it_was_chosen_from(every_step):
    (table,) = selection_table(analyse(every_step, "paper"))
    rows = {row[:3]: row[3:] for row in table.rows}
    step, rollouts, most, scores = rows["F-GRPO", "8", "0.5"]
    assert (step, rollouts, most) == ("10", "2,560", "2,560")
    assert [each.partition(":")[0] for each in scores.split(", ")] == ["5", "10", "15", "20"]
    assert rows["GRPO", "8", "0"][2] == "-"
    assert list(selection_table(analyse(every_step))) == []


@pytest.mark.slow
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
    assert describe_rule(sweep, "paper").partition(";")[0] in text.replace("\\", "")
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
    assert texts["by-value.csv"] == render(analyse(tasks), "by-value")
    *tables, differences = value_tables(analyse(tasks))
    assert [table.title for table in tables] == [
        f"countdown: pass@{k} in percent by task" for k in (1, 32)
    ]
    for table in tables:
        assert [row[0] for row in table.rows] == sorted(TASKS)
        assert [row[-1] for row in table.rows] == ["0.00%", "0.00%", "100.00%"]
        assert set(table.rows[2][2:-1]) == {"- (100.0% unscored)"}
    assert [row[2] for row in differences.rows] == sorted(TASKS)[:2]  # the third has no value
    assert texts["appendix.md"].count(differences.title) == 1
    assert texts["appendix.tex"].count("Differences on countdown by task, in") == 1
    for table in tables:
        for kind in ("appendix.md", "appendix.tex"):
            assert texts[kind].count(table.title) == 1
    assert "<b>" not in texts["appendix.md"].replace("\\<", "")
    assert "\\textless{}b" in texts["appendix.tex"]
    assert "no \\| verifier" in texts["appendix.md"]
    differences = verify(report.files[3], root=tasks.paths.root, regrade=False).differences
    assert not [line for line in differences if "by-value" in line]


def test_a_sweep_without_such_a_column_says_nothing_of_values(analysis):
    assert list(value_tables(analysis)) == []
    assert len(render(analysis, "by-value").splitlines()) == 1


@pytest.fixture(scope="module")
def by_level(finished, tmp_path_factory):
    """A small sweep whose problems have levels, which 3 of 24 lack."""
    sweep = copy(finished, tmp_path_factory.mktemp("levels"))
    return with_columns(sweep, level=["1", "2", "1", "2", "3", "1", "2", None] * 3)


@pytest.mark.slow
def test_differences_stand_by_value_with_their_interval_and_holm(by_level):
    analysis = analyse(by_level, by="level")
    *tables, differences = value_tables(analysis)
    assert [table.title for table in tables] == [
        f"countdown: pass@{k} in percent by level{part}"
        for k in analysis.ends
        for part in (", 1 of 2", ", 2 of 2")
    ]
    assert [row[:2] for row in tables[0].rows] == [("1", "9"), ("2", "9"), ("3", "3")]
    rows = {(row.group, row.name, row.value, row.k): row for row in analysis.rows(
        "by_value_comparisons")}  # fmt: skip
    assert differences.header[2:] == ("level", "problems", "pass@1", "p Holm", "pass@32", "p Holm")
    asked = {(row.group, row.name) for row in analysis.in_question}
    assert {row[:2] for row in differences.rows} == asked
    for group, name, value, n, *words in differences.rows:
        ends = [rows[group, name, value, k] for k in analysis.ends]
        assert n == str(ends[0].n_of_value)
        assert words == [
            text
            for row in ends
            for text in (difference(row.difference, row.low, row.high), p_value(row.p_holm))
        ]
    assert "3 of 24 problems have nothing in level and are left out." in differences.notes
    assert len(render(analysis, "by-value").splitlines()) == 1 + len(analysis.by_value)


@pytest.mark.slow
def test_a_report_by_a_column_is_verified_by_it_and_one_without_leaves_none_of_it(
    by_level, tmp_path, capsys
):
    sweep = copy(by_level, tmp_path)
    folder, run = sweep.paths.report, [f"{sweep.paths.sweep}/{sweep.paths.experiment}", "--root",
                                       str(sweep.paths.root)]  # fmt: skip
    assert main([*run, "--by", "level"]) == 0
    assert "by-value.csv" in capsys.readouterr().out
    assert "countdown: differences by level, in" in (folder / "appendix.md").read_text()
    assert read_json(folder / "provenance.json")["by"] == "level"
    found = verify(folder, root=sweep.paths.root, regrade=False).differences
    assert [line for line in found if "passk.parquet" not in line] == []
    page = folder / "by-value.csv"
    page.write_text(page.read_text().replace(",level,3,", ",level,4,"))
    found = verify(folder, root=sweep.paths.root, regrade=False).differences
    assert any(line.startswith("by-value.csv, line ") for line in found)
    assert main([*run, "--by", "levels"]) == 1
    assert "--by levels: no column of the problems is called so" in capsys.readouterr().err
    assert main(run) == 0
    assert not page.exists() and "by" not in read_json(folder / "provenance.json")
