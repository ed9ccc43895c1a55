"""Tables of differences, of losses over k and of problems within reach, and what stands below."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.documents.table import UNFINISHED, plain_text, unfinished_note
from fgrpo_bench.report import footnotes
from fgrpo_bench.report.build import results_csv
from fgrpo_bench.report.tables.comparisons import (
    comparison_table,
    comparison_tables,
    first_loss_table,
)
from fgrpo_bench.report.tables.main import all_ks, coverage_table, interval_table, main_tables
from fgrpo_bench.stages.tables import PASSK
from tests.support.report import (
    constant,
    copy,
    rewrite_passk,
    small_sweep,
    with_declaration,
    with_frames,
)


def rows_of(table, n=3):
    return {
        row[:n]: dict(zip(table.header[n:], map(plain_text, row[n:]), strict=True))
        for row in table.rows
    }


def rewritten(results, folder, cell, **columns):
    """The analysis of a copy with these columns of pass@k of a cell."""
    results = copy(results, folder)
    for point in results.points:
        if point.label == cell:
            rewrite_passk(point, lambda frame: frame.with_columns(**columns).cast(PASSK))
    return analyse(results)


def test_a_table_on_paper_has_so_many_rows_at_most(analysis, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.tables.comparisons.ROWS", 5)
    tables = list(comparison_tables(analysis, "countdown"))
    assert max(len(table.rows) for table in tables) == 5
    whole = comparison_table(analysis, "countdown")
    assert [row[0] for table in tables for row in table.rows] == [row[1] for row in whole.rows]


def test_where_no_pair_has_a_band_there_is_no_table_of_first_losses(analysis):
    none = with_frames(analysis, first_loss=analysis.first_loss.clear())
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_scored", "beside"),
    [(64, ""), (63, " (1.6% unscored)"), (60, " (6.2% unscored: 0.0 to 100.0)")],
)
def test_no_value_stands_without_what_draws_that_could_not_be_judged_leave_open_of_it(
    finished, tmp_path, n_scored, beside
):
    judged = {"n_scored": n_scored, "n_correct": pl.col("n_correct").clip(0, n_scored)}
    of = rewritten(finished, tmp_path, "grpo-n8-g1", **judged, pass_at_k_low=0, pass_at_k_high=1)
    row = of.estimate("countdown", "grpo-n8-g1", 1)
    for table in (interval_table(of, "countdown"), all_ks(of, "countdown"), *main_tables(of)):
        for shown in (cell for cell in table.rows if cell[:3] == ("F-GRPO", "8", "1")):
            assert plain_text(shown[3]).partition(" / ")[0].endswith(beside), table.title
            assert ("unscored" in "".join(map(plain_text, shown))) == bool(beside)
    (line,) = pl.read_csv(results_csv(of).encode()).filter(
        (pl.col("focal_gamma") == 1) & (pl.col("k") == 1)
    ).to_dicts()  # fmt: skip
    assert line["unscored"] == pytest.approx(1 - n_scored / 64) == pytest.approx(row.unscored)
    assert (line["all_wrong"], line["all_right"]) == (0.0, 1.0)


@pytest.mark.slow
def test_beside_pass_at_k_stand_the_shares_of_unfinished_text_where_there_is_any(
    finished, analysis, tmp_path
):
    table = interval_table(analysis, "countdown")
    assert "cut off" not in table.header and "No draw was cut off." in table.notes[0]
    counts = {"n_correct": 10, "n_cut_off": 8, "n_correct_cut_off": 1, "n_by_place": 3}
    of = rewritten(
        finished, tmp_path / "a", "grpo-n8-g1", **{k: pl.lit(v) for k, v in counts.items()}
    )
    of = rewritten(of.results, tmp_path / "b", "base", n_cut_off=None)
    for table in (interval_table(of, "countdown"), main_tables(of)[0]):
        rows = rows_of(table)
        shown = {row: [rows[row][name] for name in UNFINISHED] for row in rows}
        assert shown["F-GRPO", "8", "1"] == ["12.5%", "10.0%", "30.0%"], table.title
        assert shown["Base", "-", "-"][0] == "not known"
        assert shown["GRPO", "8", "0"] == ["0.0%", "0.0%", "0.0%"]
        assert unfinished_note(UNFINISHED) in table.notes
        assert "No draw was cut off" not in table.notes[0]
    csv = pl.read_csv(results_csv(of).encode()).filter(focal_gamma=1, k=1)
    assert csv.select("cut_off", "correct_cut_off", "correct_by_place").row(0) == (0.125, 0.1, 0.3)


def test_a_cell_without_an_interval_has_its_mean_alone(analysis):
    gone = analysis.estimates.with_columns(low=None, high=None).cast(
        dict(analysis.estimates.schema)
    )
    table = interval_table(with_frames(analysis, estimates=gone), "countdown")
    assert "[" not in "".join(plain_text(cell) for row in table.rows for cell in row)
