"""Rendering: golden files, and names that try to be markup."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import Table, Value, text_of
from fgrpo_bench.documents.terminal import COLUMNS, plain
from fgrpo_bench.report import documents, tables
from fgrpo_bench.report.build import render
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.content import content, latex_tables
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.tables import CSV
from tests.support.report import constant, copy, forget, rewrite_passk, small_sweep


def rounded(csv: str) -> str:
    """Six decimals: the last digits of a mean may differ from processor to processor."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found.group()):.6g}", csv)


def test_the_reports_of_a_finished_sweep_are_the_golden_ones(
    finished, summary, comparisons, golden
):
    golden("report/report.md", render(finished, "md"))
    golden("report/table.tex", render(finished, "latex"))
    golden("report/results.csv", rounded(render(finished, "csv")))
    golden("report/terminal.txt", documents.terminal(summary, comparisons))


def test_the_report_of_one_seed_is_the_golden_one(tmp_path, golden):
    smoke = summarise(small_sweep(tmp_path, "smoke"))
    golden("report/one-seed.txt", documents.terminal(smoke, compare(smoke)))


def test_the_report_of_a_sweep_in_progress_is_the_golden_one(finished, tmp_path, golden):
    results = copy(finished, tmp_path)
    done = [p.point_id for p in results.points if p.seed == 11 and p.group_size != 32]
    summary = summarise(
        forget(results, *(p.point_id for p in results.points if p.point_id not in done))
    )
    golden("report/in-progress.txt", documents.terminal(summary, compare(summary)))


def test_daggers_and_dashes_are_explained_in_every_table_that_has_them(finished, tmp_path):
    results = copy(finished, tmp_path)
    gone = [p.point_id for p in results.points if p.group_size == 4]
    some = next(p.point_id for p in results.points if p.group_size == 2)
    summary = summarise(forget(results, *gone, some))
    for table in (
        tables.interval_table(summary, "countdown"),
        tables.all_ks(summary, "countdown"),
        main_tables(summary, compare(summary))[0],
    ):
        by_cell = {row[:2]: row[3] for row in table.rows}
        assert by_cell["GRPO", "2"][0].incomplete and text_of(by_cell["GRPO", "4"]) == "-"
        assert not by_cell["GRPO", "8"][0].incomplete
        assert table.legend[-2:] == (
            (Value(text="", incomplete=True), "of less than was planned, see below"),
            (Value(text="-"), "not there"),
        )
        assert "Incomplete, 2 of 3 seeds: GRPO N=2." in table.notes


def test_what_is_incomplete_at_some_k_alone_names_them(finished, tmp_path):
    results = copy(finished, tmp_path)
    point = results.points[-1]

    def unjudged(table):
        few = (pl.col("problem_id") == table["problem_id"][0]) & (pl.col("k") == 32)
        return table.with_columns(pass_at_k=pl.when(few).then(None).otherwise("pass_at_k"))

    rewrite_passk(point, unjudged)
    summary = summarise(results)
    (note,) = [n for n in tables.all_ks(summary, "countdown").notes if n.startswith("Incomplete")]
    assert note == "Incomplete, 23 of 24 problems: F-GRPO N=8 gamma=1 at k = 32."


def test_every_table_says_which_checkpoints_it_is_about(summary, comparisons):
    further = [Table(title="by task", header=("task",), rows=(("sums",),))]
    blocks = content(summary, comparisons, [], further)
    shown = [block for block in blocks if isinstance(block, Table)]
    in_latex = latex_tables(summary, comparisons, further)
    assert {table.title for table in in_latex} < {table.title for table in shown}
    for table in [*shown, *in_latex]:
        rules = [note for note in table.notes if note.startswith("Checkpoints: ")]
        assert len(rules) == 1 and "the last one of every run" in rules[0]


def test_the_csv_has_one_row_a_cell_and_k_with_twelve_digits(finished, summary):
    frame = pl.read_csv(render(finished, "csv").encode(), schema=CSV)
    assert frame.shape == (8 * 3, 16)
    scores = summary.scores["countdown", summary.cells[-1]]
    assert frame["pass_at_k"].to_list()[-3:] == [round(made.mean, 12) for made in scores.estimates]
    assert frame["ci_high"].to_list()[-3:] == [round(made.high, 12) for made in scores.estimates]
    base = frame.filter(pl.col("method") == "Base")
    assert base["algorithm"].null_count() == base["group_size"].null_count() == 3
    assert frame.filter(pl.col("k") == 8)["n_seeds"].to_list() == 8 * [3]


def test_what_is_not_done_is_a_dash_and_an_empty_field(finished, tmp_path):
    results = copy(finished, tmp_path)
    results = forget(results, *(f"grpo-n4-g0-s{seed}" for seed in (11, 12, 13)))
    frame = pl.read_csv(render(results, "csv").encode(), schema=CSV)
    row = frame.row(by_predicate=(pl.col("group_size") == 4) & (pl.col("k") == 1), named=True)
    assert [row[name] for name in ("pass_at_k", "ci_low", "n_samples")] == [None, None, None]
    assert (row["n_seeds"], row["n_problems"]) == (0, 0)
    main = tables.interval_table(summarise(results), "countdown")
    assert tuple(map(text_of, main.rows[2])) == ("GRPO", "4", "0", "-", "-", "0")


def test_columns_of_zeros_and_ones_are_written_exactly(tmp_path):
    rates = constant(Base=1.0, GRPO=0.0, F_GRPO=1.0)
    results = small_sweep(tmp_path, success_rates=rates)
    frame = pl.read_csv(render(results, "csv").encode(), schema=CSV)
    for method, value in (("Base", 1.0), ("GRPO", 0.0), ("F-GRPO", 1.0)):
        some = frame.filter(pl.col("method") == method)
        for column in ("pass_at_k", "ci_low", "ci_high"):
            assert set(some[column]) == {value}
    assert "+100.0 [+100.0, +100.0]" in render(results, "md")


def test_one_problem_has_no_interval_and_shows_nothing(tmp_path):
    one = "experiment.evaluation.benchmarks.countdown.n_problems=1"
    results = small_sweep(tmp_path, "groupsize", one)
    frame = pl.read_csv(render(results, "csv").encode(), schema=CSV)
    assert frame["ci_low"].null_count() == len(frame) and frame["pass_at_k"].null_count() == 0
    summary = summarise(results)
    assert not any(comparison.shown for comparison in compare(summary))
    assert "[" not in "".join(map(text_of, tables.interval_table(summary, "countdown").rows[0]))


def test_a_hostile_question_reaches_no_markup(summary, comparisons):
    spec = summary.results.declaration["declaration"]
    hostile = {**spec, "sweep": {**spec["sweep"], "question": "# <img src=x>\x1b]0;t\x07 | *a*"}}
    changed = replace(
        summary,
        results=replace(
            summary.results,
            declaration={**summary.results.declaration, "declaration": hostile},
        ),
    )
    made = markdown("x", content(changed, comparisons, []))
    assert "\n\\# \\<img src=x> ]0;t  \\| \\*a\\*\n" in made
    assert "\x1b" not in documents.terminal(changed, comparisons)


def test_terminal_text_is_never_wider_than_its_columns(summary, comparisons):
    lines = documents.terminal(summary, comparisons).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert all(line == plain(line) for line in lines)
