"""The paper's table shapes: which tables, which marks, and what stands below them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.documents.table import Value, text_of
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.footnotes import footnotes
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.pairs import base_method
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.tables import interval_table
from fgrpo_bench.results import load_results
from fgrpo_bench.stages.files import read_json, write_json
from tests.support.report import (
    ONE_SEED,
    constant,
    copy,
    forget,
    nine_benchmarks,
    rewrite_passk,
    small_sweep,
)


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    """A transfer sweep of one seed on nine benchmarks, read; not to be changed."""
    return summarise(nine_benchmarks(tmp_path_factory.mktemp("nine"), "transfer"))


def tables_of(results):
    summary = summarise(results)
    return main_tables(summary, compare(summary))


def marks(table, row, column):
    return table.rows[row][table.header.index(column)]


def test_averages_stand_before_their_benchmarks_by_domain(nine):
    (table,) = main_tables(nine, compare(nine))
    assert table.header == (
        *("method", "N", "gamma", "average in-domain", "aime24", "aime25", "amc23", "math500"),
        *("minerva", "olympiadbench", "average out-of-domain", "gpqa", "ifeval", "synlogic"),
    )
    assert table.title == "Methods: pass@1 / pass@256 in percent"
    assert [row[:3] for row in table.rows][:3] == [
        ("Base", "-", "-"),
        ("GRPO", "8", "0"),
        ("F-GRPO", "8", "0.5"),
    ]


def test_an_average_is_the_plain_mean_of_its_benchmarks(nine):
    for title, benchmarks in nine.averages.items():
        for cell in nine.cells:
            for i, made in enumerate(nine.averaged[title, cell]):
                each = [nine.scores[name, cell].estimates[i].mean for name in benchmarks]
                assert made.mean == pytest.approx(np.mean(each))
                assert made.low < made.mean < made.high
                assert made.n_problems == sum(
                    nine.scores[name, cell].estimates[i].n_problems for name in benchmarks
                )


def test_an_average_is_known_better_than_one_of_its_small_benchmarks(nine):
    cell = nine.cells[1]
    average = nine.averaged["average in-domain", cell][0]
    small = nine.scores["aime24", cell].estimates[0]
    assert average.high - average.low < small.high - small.low


def test_the_answer_is_about_the_averages_where_there_are_some(nine):
    from fgrpo_bench.report import verdict

    titles = [title for title, _ in verdict.answer(nine, compare(nine))]
    assert all(title.startswith("average ") for title in titles)


def test_a_sweep_over_group_sizes_is_called_so_and_has_one_table(finished):
    (table,) = tables_of(finished)
    assert table.title == "Group size: pass@1 / pass@32 in percent"
    assert len(table.rows) == 8


@pytest.mark.slow
def test_controls_are_compared_with_what_they_control(tmp_path):
    rates = constant(Base=0.5, GRPO=0.5, F_GRPO=0.9)

    def with_controls(point, rng, n_problems):
        if point.algorithm == "grpo-kl":
            return np.full(n_problems, 0.1)
        if point.algorithm and point.algorithm.startswith("grpo-"):
            return np.full(n_problems, 0.5)
        return rates(point, rng, n_problems)

    summary = summarise(nine_benchmarks(tmp_path, "controls", success_rates=with_controls))
    found = compare(summary)
    assert {one.pair.name for one in found if "controls against none" in one.pair.group} == {
        *("GRPO-LOWLR", "GRPO-ENTROPY", "GRPO-KL")
    }
    table, averages = main_tables(summary, found)
    assert table.title == "Controls: pass@1 / pass@256 in percent"
    assert averages.title == "Controls, averages: pass@1 / pass@256 in percent"
    assert averages.header[3:] == ("average in-domain", "average out-of-domain")
    rows = {row[0]: row[-1] for row in table.rows}
    assert [value.significant for value in rows["GRPO-KL"]] == [True, True]
    assert [value.significant for value in rows["GRPO"]] == [False, False]
    assert rows["F-GRPO"][0].best and rows["F-GRPO"][0].significant


def test_a_cell_without_its_base_method_is_not_called_significant(finished, tmp_path):
    results = copy(finished, tmp_path)
    results = forget(results, *(f"grpo-n8-g0-s{seed}" for seed in (11, 12, 13)))
    (table,) = tables_of(results)
    assert table.rows[3][3] == "-"
    assert not any(v.significant for row in table.rows for v in row[3] if isinstance(v, Value))
    assert ("-", "not there") in [(value.text, words) for value, words in table.legend]


def test_too_few_seeds_and_draws_are_marked_and_said(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n2-g0-s11")
    marker = results.points[-1].evaluate.done
    write_json(marker, read_json(marker) | {"target": {"n_samples": 40, "graders": {}}})
    (table,) = tables_of(load_results(results.paths))
    incomplete = {row[0] + row[1] + row[2] for row in table.rows if row[3][0].incomplete}
    assert incomplete == {"GRPO20", "F-GRPO81"}
    assert "Incomplete, 2 of 3 seeds: GRPO N=2." in table.notes
    assert "Incomplete, 40 of 64 draws: F-GRPO N=8 gamma=1." in table.notes
    assert "40 or 64 draws a problem." in table.notes[0]


def test_draws_without_a_verdict_leave_bounds_below_the_table(finished, tmp_path):
    results = copy(finished, tmp_path)
    rewrite_passk(
        results.points[-1], lambda frame: frame.with_columns(pl.lit(1.0).alias("pass_at_k_high"))
    )
    (table,) = tables_of(results)
    assert any("could not be judged are left out" in note for note in table.notes)


def test_engines_that_differ_are_named_below_the_table(summary):
    changed = replace(summary, engines={"cpu A": ("a",), "cpu B": ("b",)})
    notes = footnotes(changed, changed.cells, ["countdown"])
    assert "engines that differ" in notes[-1] and "cpu B (b)" in notes[-1]


@pytest.mark.parametrize(("rate", "shown"), [(0.0, "0.0 / 0.0"), (1.0, "100.0 / 100.0")])
def test_all_wrong_and_all_right_have_values_and_nothing_is_significant(tmp_path, rate, shown):
    rates = constant(Base=rate, GRPO=rate, F_GRPO=rate)
    (table,) = tables_of(small_sweep(tmp_path, success_rates=rates))
    assert {text_of(row[3]) for row in table.rows} == {shown}
    assert not any(value.significant for row in table.rows for value in row[3])
    assert all(value.best for row in table.rows[1:] for value in row[3])  # equal ones are all best


def test_one_problem_and_one_seed_give_values_without_marks_of_significance(tmp_path):
    one = "experiment.evaluation.benchmarks.countdown.n_problems=1"
    results = small_sweep(tmp_path, "groupsize", one, ONE_SEED)
    (table,) = tables_of(results)
    assert not any(value.significant for row in table.rows for value in row[3])
    assert "underlined" not in str(table.legend)
    assert "[" not in str(interval_table(summarise(results), "countdown").rows)


def test_the_base_method_of_a_control_differs_in_nothing_but_the_control(summary):
    declared = summary.results.declaration["declaration"]["algorithms"]
    plain = next(cell for cell in summary.cells if cell.label == "GRPO N=8")
    kl = replace(plain, algorithm="grpo-kl", method="GRPO-KL")
    dapo = replace(plain, algorithm="dapo", method="DAPO")
    assert base_method(kl, summary.cells, declared) == plain
    assert base_method(replace(kl, group_size=64), summary.cells, declared) is None
    assert base_method(dapo, summary.cells, declared) is None
    assert base_method(plain, summary.cells, declared) is None
