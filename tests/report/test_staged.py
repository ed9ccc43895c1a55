"""Reports of draws that stop: what stands below the tables, the marks, and what is refused."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.report.build import render
from fgrpo_bench.report.narrative import notes
from fgrpo_bench.report.tables.main import main_tables
from fgrpo_bench.report.verify import scores_agree
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table, write_table
from tests.support.dashboard import GRADER
from tests.support.report import copy
from tests.support.staged import DESIGN, OTHER, UNDER_OTHER


@pytest.fixture(scope="module")
def analysis(staged):
    return analyse(staged)


def means(analysis):
    rows = analysis.estimates.filter(column="countdown", k=1)
    return rows["n_draws"].min(), rows["n_draws"].max()


def test_below_a_table_stands_when_problems_stop_and_how_many_draws_that_took(analysis):
    table = next(iter(main_tables(analysis)))
    low, high = (round(n) for n in means(analysis))
    assert low < high
    said = f"{DESIGN.text} or: {OTHER.text}; mean {low} to {high} draws."
    said += " No draw was cut off."
    assert any(f" A{said[1:]} Grader: {GRADER}." in note for note in table.notes)
    assert any("1 ask for more draws): GRPO N=8" in note for note in table.notes)


def test_a_design_that_was_changed_is_marked_on_its_rows_and_named_below(analysis):
    table = next(iter(main_tables(analysis)))
    marked = {row[:3]: {value.redesigned for value in row[3]} for row in table.rows}
    assert marked == {
        ("Base", "-", "-"): {False},
        ("GRPO", "8", "0"): {False},
        ("F-GRPO", "8", "1"): {True},
    }
    assert any("was changed" in words for _, words in table.legend)
    (note,) = [note for note in table.notes if note.startswith("When problems stop was changed")]
    assert note.endswith(": F-GRPO N=8 gamma=1.")
    for kind, mark, edge in (("md", "‡", "|"), ("latex", r"$^\ddagger$", "&")):
        lines = render(analysis, kind).splitlines()
        row = next(line for line in lines if "F-GRPO" in line and line.count(edge) > 2)
        assert row.count(mark) == 2, kind


def test_the_notes_name_the_estimator_and_why_draws_are_not_tested_at_the_last_stage(analysis):
    lines = notes(analysis).lines
    assert "1 - W_k / W" in lines[0] and f"A{DESIGN.text[1:]}" in lines[0]
    (why,) = [line for line in lines if line.startswith("No p draws: ")]
    assert why == f"No p draws: {DESIGN.no_variance(8)}."


def test_the_table_of_results_has_the_design_and_the_draws(analysis):
    rows = pl.read_csv(render(analysis, "csv").encode()).filter(k=4)
    for row in rows.to_dicts():
        cell = "base" if row["method"] == "Base" else f"grpo-n8-g{row['focal_gamma']:g}"
        own = analysis.estimate("countdown", cell, 4)
        assert row["n_draws"] == pytest.approx(own.n_draws)
        assert row["design"] == "; or ".join(own.designs)
        assert row["is_redesigned"] == own.is_redesigned


@pytest.mark.parametrize("kind", ["csv", "md"])
def test_the_papers_figures_are_not_put_beside_draws_that_stop(analysis, kind):
    with pytest.raises(ValueError, match=r"--compare-paper with at most 8 draws .*design=null"):
        render(analysis, kind, compare_paper=True)


def test_scores_are_verified_by_playing_the_design_over_the_grades(staged, tmp_path):
    results, none = copy(staged, tmp_path), tmp_path / "none.parquet"

    def agree(point, draws):
        paths = point.evaluate.benchmark("countdown")
        return scores_agree(point, paths.grades(GRADER), draws, paths.passk())

    for point in results.points:
        draws = point.evaluate.benchmark("countdown").draws
        assert agree(point, draws)
    cut_off = read_table(draws, DRAWS).with_columns(finish_reason=pl.lit("length"))
    write_table(draws, cut_off, DRAWS)
    assert not agree(point, draws)
    assert agree(point, none)  # e.g. of a bundle
    point = next(each for each in results.points if each.point_id == UNDER_OTHER)
    path = point.evaluate.benchmark("countdown").grades(GRADER)
    grades = read_table(path, GRADES)
    write_table(path, grades.with_columns(outcome=pl.lit("correct")), GRADES)
    assert not agree(point, none)
