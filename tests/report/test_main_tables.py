"""The paper's table shapes: which tables, which marks, and what stands below them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.documents.table import Value, plain_text
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.footnotes import footnotes
from fgrpo_bench.report.narrative import effects
from fgrpo_bench.report.tables.likelihood import OURS, THEIRS
from fgrpo_bench.report.tables.main import main_tables
from tests.support.report import (
    constant,
    copy,
    forget,
    nine_benchmarks,
    scored,
    small_sweep,
    with_frames,
)


def tables_of(results):
    return main_tables(analyse(results))


@pytest.mark.slow
def test_averages_stand_before_their_benchmarks_by_domain(nine):
    table, further = main_tables(nine)
    assert table.header == (
        *("method", "N", "gamma", "average in-domain", "aime24", "aime25", "amc23", "math500"),
        *("minerva", "olympiadbench", "average out-of-domain", "gpqa", "ifeval", "synlogic"),
    )
    assert table.title == "Sensitivity to gamma: pass@1 / pass@256 in percent"
    assert further.title == "Sensitivity to gamma, averages: pass@1 / pass@256 in percent"
    assert [row[:3] for row in table.rows][:3] == [
        ("Base", "-", "-"),
        ("GRPO", "8", "0"),
        ("F-GRPO", "8", "1"),
    ]


@pytest.mark.slow
def test_the_answer_is_about_the_averages_where_there_are_some(nine):
    assert all(title.startswith("average ") for title, _ in effects(nine))


@pytest.mark.slow
@pytest.mark.rare
def test_controls_are_compared_with_what_they_control(tmp_path):
    rates = constant(Base=0.5, GRPO=0.5, F_GRPO=0.9)

    def with_controls(point, rng, n_problems):
        algorithm = "" if point.cell is None else point.cell.algorithm
        if algorithm == "grpo-kl":
            return np.full(n_problems, 0.1)
        if algorithm.startswith("grpo-"):
            return np.full(n_problems, 0.5)
        return rates(point, rng, n_problems)

    analysis = analyse(nine_benchmarks(tmp_path, "controls", success_rates=with_controls))
    assert {row.name for row in analysis.question_rows if "controls against none" in row.group} == {
        *("GRPO-low-LR", "GRPO-H", "GRPO-KL")
    }
    table, averages = main_tables(analysis)
    assert table.title == "Controls: pass@1 / pass@256 in percent"
    assert averages.title == "Controls, averages: pass@1 / pass@256 in percent"
    assert averages.header[3:] == ("average in-domain", "average out-of-domain")
    rows = {row[0]: row[-1] for row in averages.rows}
    # Of 256 answers one is right at 0.1 as at 0.5: at this end there is no difference to be shown.
    assert [value.significant for value in rows["GRPO-KL"]] == [True, False]
    assert [value.significant for value in rows["GRPO"]] == [False, False]
    assert rows["F-GRPO"][0].best and rows["F-GRPO"][0].significant


@pytest.mark.slow
def test_a_cell_without_its_base_method_is_not_called_significant(finished, tmp_path):
    results = copy(finished, tmp_path)
    results = forget(results, *(f"grpo-n8-g0-s{seed}" for seed in (11, 12, 13)))
    (table,) = tables_of(results)
    assert table.rows[3][3] == "-"
    assert not any(v.significant for row in table.rows for v in row[3] if isinstance(v, Value))
    assert ("-", "not there") in [(value.text, words) for value, words in table.legend]


@pytest.mark.slow
def test_too_few_seeds_and_draws_are_marked_and_said(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n2-g0-s11")
    marker = results.points[-1].evaluate.done
    write_json(marker, read_json(marker) | {"target": {"n_samples": 40, "ks": [1], "graders": {}}})
    (table,) = tables_of(load_results(results.paths))
    incomplete = {row[0] + row[1] + row[2] for row in table.rows if row[3][0].incomplete}
    assert incomplete == {"GRPO20", "F-GRPO81"}
    assert "Incomplete, 2 of 3 seeds: GRPO N=2." in table.notes
    assert "Incomplete, 40 of 64 draws: F-GRPO N=8 gamma=1." in table.notes
    assert "40 or 64 draws per problem." in table.notes[0]


def test_engines_that_differ_are_named_below_the_table(analysis):
    halves = pl.when(pl.col("seed") == 11).then(pl.lit("cpu A")).otherwise(pl.lit("cpu B"))
    changed = with_frames(analysis, completeness=analysis.completeness.with_columns(engine=halves))
    (*_, note) = footnotes(changed, list(changed.by_cell.values()), "countdown")
    assert "engines that differ" in note and "cpu B (base-s12, base-s13" in note


@pytest.mark.parametrize(("rate", "shown"), [(0.0, "0.0 / 0.0"), (1.0, "100.0 / 100.0")])
def test_all_wrong_and_all_right_have_values_and_nothing_is_significant(tmp_path, rate, shown):
    rates = constant(Base=rate, GRPO=rate, F_GRPO=rate)
    (table,) = tables_of(small_sweep(tmp_path, "smoke", success_rates=rates))
    assert table.title == "Methods: pass@1 / pass@32 in percent"
    assert {plain_text(row[3]) for row in table.rows} == {shown}
    assert not any(value.significant for row in table.rows for value in row[3])
    assert not any(value.best for row in table.rows for value in row[3])  # nothing is apart


def test_underlined_is_what_is_significant_against_its_base_method(analysis):
    (table,) = main_tables(analysis)
    underlined = {
        (row[0], row[1], row[2], k)
        for row in table.rows
        for k, value in zip(analysis.ends, row[3], strict=True)
        if value.significant
    }
    significant = {
        ("F-GRPO", "8", row.name.removeprefix("gamma="), row.k)
        for row in analysis.question_rows
        if row.verdict == "significant"
    }
    assert underlined == significant
    (meaning,) = [words for value, words in table.legend if value.significant]
    assert analysis.family in meaning


@pytest.mark.slow
def test_rises_of_likelihoods_stand_beside_the_papers_of_the_same_cell(finished, tmp_path):
    own = [p.point_id for p in finished.points if p.label == "grpo-n8-g0"]
    values = {point_id: 0.5 + i for i, point_id in enumerate(own)}
    (table,) = tables_of(scored(finished, tmp_path, values))
    assert table.header[-2:] == (OURS, THEIRS)
    rows = {row[:3]: tuple(map(plain_text, row[-2:])) for row in table.rows}
    assert rows["GRPO", "8", "0"] == ("1.50 [0.50, 2.50]", "0.68")
    assert rows["Base", "-", "-"] == ("0", "-")
    assert {ours for ours, _ in rows.values()} == {"1.50 [0.50, 2.50]", "0", "-"}
    assert "300 rare correct answers" in table.notes[-1]
