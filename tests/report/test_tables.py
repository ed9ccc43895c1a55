"""Tables of differences, of losses over k and of problems within reach, and what stands below."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from fgrpo_bench.analysis import analyse
from fgrpo_bench.documents.latex import latex_table
from fgrpo_bench.documents.markdown import markdown_table
from fgrpo_bench.documents.table import text_of
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.report import footnotes
from fgrpo_bench.report.comparison_tables import (
    comparison_table,
    comparison_tables,
    first_loss_table,
)
from fgrpo_bench.report.tables import coverage_table, interval_table
from tests.support.report import constant, copy, rewrite_passk, small_sweep, with_declaration


def rows_of(table, n=3):
    return {row[:n]: dict(zip(table.header[n:], row[n:], strict=True)) for row in table.rows}


def test_a_table_on_paper_has_so_many_rows_at_most(analysis, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.comparison_tables.ROWS", 5)
    tables = list(comparison_tables(analysis, "countdown"))
    assert max(len(table.rows) for table in tables) == 5
    whole = comparison_table(analysis, "countdown")
    assert [row[0] for table in tables for row in table.rows] == [row[1] for row in whole.rows]


def test_where_no_pair_has_a_band_there_is_no_table_of_first_losses(analysis):
    none = replace(analysis, first_loss=analysis.first_loss.clear())
    assert first_loss_table(none, "countdown") is None


def test_what_is_certain_is_counted_where_the_draws_are_enough(analysis, tmp_path):
    rates, ks = constant(Base=0.5, GRPO=0.0, F_GRPO=0.5), "experiment.evaluation.ks=[1,8]"
    many = analyse(small_sweep(tmp_path, "smoke", ks, success_rates=rates))
    table = coverage_table(many, "countdown")
    lost = rows_of(table)["GRPO", "4", "0"]
    assert (lost["surely lost"], lost["retained"]) == ("24.0", "0.0")
    assert not any("none can be surely" in note for note in table.notes)
    table = coverage_table(analysis, "countdown")  # 64 draws at k = 32
    assert {row["surely lost"] for row in rows_of(table).values()} == {"0.0"}
    assert any("From 64 draws none can be surely lost or gained" in note for note in table.notes)


def test_where_problems_list_choices_a_footnote_says_what_guessing_gives(analysis, monkeypatch):
    def by_choice(declared):
        declared["experiment"]["evaluation"]["benchmarks"]["countdown"]["grader"] = "choice"

    changed = with_declaration(analysis, by_choice)

    def guesses(of):
        return [note for note in interval_table(of, "countdown").notes if "guess" in note]

    assert guesses(changed) == guesses(analysis) == []  # its prompts list no options
    monkeypatch.setattr(footnotes, "n_choices", lambda *_: (4, 4, 10))
    assert guesses(changed) == [
        "countdown by guessing alone: pass@1 20.0, pass@8 79.0, pass@32 98.8."
    ]


def test_a_footnote_says_what_unscored_draws_leave_open_and_is_absent_without_any(
    finished, analysis, tmp_path
):
    assert len(interval_table(analysis, "countdown").notes) == 1
    results = copy(finished, tmp_path)
    rewrite_passk(
        results.points[-1],
        lambda frame: frame.with_columns(
            (pl.col("pass_at_k") / 2).alias("pass_at_k_low"),
            pl.lit(1.0).alias("pass_at_k_high"),
        ),
    )
    changed = analyse(results)
    table = interval_table(changed, "countdown")
    note = table.notes[1]
    assert note.count("F-GRPO N=8 gamma=1, pass@") == 2
    right = changed.estimate("countdown", "grpo-n8-g1", 1).all_right
    assert f"{100 * right:.1f}" in note
    plain = " ".join(plain_table(table))
    for made in (markdown_table(table), latex_table(table, caption="x"), plain):
        assert "were all of them wrong or all right" in " ".join(made.split())


def test_a_cell_without_an_interval_has_its_mean_alone(analysis):
    gone = analysis.estimates.with_columns(low=None, high=None).cast(
        dict(analysis.estimates.schema)
    )
    table = interval_table(replace(analysis, estimates=gone), "countdown")
    assert "[" not in "".join(text_of(cell) for row in table.rows for cell in row)
