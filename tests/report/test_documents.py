"""Rendering: golden files, and names that try to be markup."""

from __future__ import annotations

import math
import re

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.documents.latex import escape_latex
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import Table, Value, plain_text, without_zeros
from fgrpo_bench.documents.terminal import COLUMNS, plain
from fgrpo_bench.report.build import (
    APPENDIX,
    FILES,
    RESULTS,
    appendix,
    content,
    latex,
    latex_appendix,
    render,
    terminal_text,
)
from fgrpo_bench.report.captions import title
from fgrpo_bench.report.figures import pictures
from fgrpo_bench.report.tables.main import all_ks, interval_table, main_tables
from tests.support.report import (
    ONE_SEED,
    constant,
    copy,
    forget,
    rewrite_passk,
    small_sweep,
    with_declaration,
)


def rounded(csv: str) -> str:
    """Six decimals: the last digits of a mean may differ from processor to processor."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found.group()):.6g}", csv)


def test_the_reports_of_a_finished_sweep_are_the_golden_ones(analysis, golden):
    for kind in ("md", "latex"):
        for name in (kind, f"{kind}{APPENDIX}"):
            golden(f"report/{FILES[name]}", render(analysis, name))
    golden("report/results.csv", rounded(render(analysis, "csv")))
    golden("report/terminal.txt", terminal_text(analysis))


def test_the_report_of_one_seed_is_the_golden_one(tmp_path, golden):
    golden("report/one-seed.txt", terminal_text(analyse(small_sweep(tmp_path, "smoke"))))


@pytest.mark.slow
def test_the_report_of_a_sweep_in_progress_is_the_golden_one(finished, tmp_path, golden):
    results = copy(finished, tmp_path)
    done = [p.point_id for p in results.points if p.seed == 11 and "-n32-" not in p.point_id]
    gone = [p.point_id for p in results.points if p.point_id not in done]
    golden("report/in-progress.txt", terminal_text(analyse(forget(results, *gone))))


@pytest.mark.slow
def test_daggers_and_dashes_are_explained_in_every_table_that_has_them(finished, tmp_path):
    results = copy(finished, tmp_path)
    gone = [p.point_id for p in results.points if "-n4-" in p.point_id]
    some = next(p.point_id for p in results.points if "-n2-" in p.point_id)
    analysis = analyse(forget(results, *gone, some))
    for table in (
        interval_table(analysis, "countdown"),
        all_ks(analysis, "countdown"),
        main_tables(analysis)[0],
    ):
        by_cell = {row[:2]: row[3] for row in table.rows}
        assert by_cell["GRPO", "2"][0].incomplete and plain_text(by_cell["GRPO", "4"]) == "-"
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
    notes = all_ks(analyse(results), "countdown").notes
    (note,) = [note for note in notes if note.startswith("Incomplete")]
    assert note == "Incomplete, 23 of 24 problems: F-GRPO N=8 gamma=1 at k = 32."


def test_every_table_says_which_checkpoints_it_is_about(analysis):
    main, further = (
        [block for block in blocks if isinstance(block, Table)]
        for blocks in (content(analysis), appendix(analysis))
    )
    for table in (*main, *further):
        rules = [note for note in table.notes if note.startswith("Checkpoints: ")]
        assert len(rules) == 1 and "the last one of every run" in rules[0]
    for text, n in ((latex(analysis), 1), (latex_appendix(analysis), len(further) + 4)):
        _, *parts = text.split(r"\begin{table")
        labels, notes = [], []
        for part in parts:
            refs = re.findall(r"\\ref\{(.*?)\}", part)
            assert set(refs) <= set(labels) and ("Checkpoints: " in part or refs)
            labels += re.findall(r"\\label\{(.*?)\}", part)
            notes += re.findall(r"\\raggedright (?!Further notes)(.*?)\\par\}", part)
        assert len(parts) == n and len(notes) == len(set(notes)) > 0
    assert len(main) == 3 and not [table for table in further if table in main]


@pytest.mark.slow
def test_a_caption_is_a_sentence_or_two_that_a_paper_can_print(analysis, nine, every_step):
    for each in (analysis, nine, analyse(every_step)):
        tables = [block for block in (*content(each), *appendix(each)) if isinstance(block, Table)]
        captions = [table.caption for table in tables] + [p.caption for p in pictures(each)]
        for caption in filter(None, captions):
            assert not re.search(r"\w=\w|_", caption) and caption.endswith("."), caption
            assert caption.count(". ") <= 1, caption


TITLES = {
    ("groupsize",): "Focal weight at N = 8 on countdown, three seeds",
    ("gamma", ONE_SEED): "Focal weight at N = 8 under GRPO, DAPO and CISPO on countdown, one seed",
    ("groupsize", ONE_SEED, "sweep.family.pairs=[]"):
        "Group size and focal weight on countdown, one seed",
    ("methods-declared", ONE_SEED): "Methods against GRPO on countdown, one seed",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said"), TITLES.items())
def test_the_title_says_what_is_compared_on_what_and_of_how_many_seeds(tmp_path, words, said):
    assert title(analyse(small_sweep(tmp_path, *words))) == said


def test_what_is_not_done_is_a_dash_and_an_empty_field(finished, tmp_path):
    results = copy(finished, tmp_path)
    results = forget(results, *(f"grpo-n4-g0-s{seed}" for seed in (11, 12, 13)))
    analysis = analyse(results)
    frame = pl.read_csv(render(analysis, "csv").encode(), schema=RESULTS)
    row = frame.row(by_predicate=(pl.col("group_size") == 4) & (pl.col("k") == 1), named=True)
    assert [row[name] for name in ("pass_at_k", "ci_low", "n_samples")] == [None, None, None]
    assert (row["n_seeds"], row["n_problems"]) == (0, 0)
    main = interval_table(analysis, "countdown")
    assert tuple(map(plain_text, main.rows[2])) == ("GRPO", "4", "0", "-", "-", "0")


@pytest.mark.slow
def test_columns_of_zeros_and_ones_are_written_exactly(tmp_path):
    rates = constant(Base=1.0, GRPO=0.0, F_GRPO=1.0)
    at_8 = "sweep.grid.group_size=[8]"
    analysis = analyse(small_sweep(tmp_path, "groupsize", at_8, success_rates=rates))
    frame = pl.read_csv(render(analysis, "csv").encode(), schema=RESULTS)
    room = round(-math.log(0.025) / 24, 12)  # for a problem that was not seen
    for method, value in (("Base", 1.0), ("GRPO", 0.0), ("F-GRPO", 1.0)):
        some = frame.filter(pl.col("method") == method)
        ends = (1 - room, 1.0) if value else (0.0, room)
        assert set(some["pass_at_k"]) == {value}
        assert set(some.select("ci_low", "ci_high").rows()) == {ends}
    assert "+100.0 [+84.6, +100.0]" in render(analysis, "md")


@pytest.mark.slow
def test_one_problem_has_no_interval_and_shows_nothing(tmp_path):
    one = "experiment.evaluation.benchmarks.countdown.n_problems=1"
    analysis = analyse(small_sweep(tmp_path, "groupsize", "sweep.grid.group_size=[8]", one))
    frame = pl.read_csv(render(analysis, "csv").encode(), schema=RESULTS)
    assert frame["ci_low"].null_count() == len(frame) and frame["pass_at_k"].null_count() == 0
    assert {row.verdict for row in analysis.question_rows} == {"inconclusive"}
    assert "[" not in "".join(map(plain_text, interval_table(analysis, "countdown").rows[0]))
    assert "over all k" not in render(analysis, "md").lower(), "no band over one problem"
    (table,) = main_tables(analyse(small_sweep(tmp_path, "smoke", one)))
    assert not any(value.significant for row in table.rows for value in row[3])
    assert "underlined" not in str(table.legend)


def test_a_hostile_question_reaches_no_markup(analysis):
    hostile = {"question": "# <img src=x>\x1b]0;t\x07 | *a*"}
    changed = with_declaration(analysis, lambda declared: declared["sweep"].update(hostile))
    assert "\n\\# \\<img src=x> ]0;t  \\| \\*a\\*\n" in markdown("x", content(changed))
    assert "\x1b" not in terminal_text(changed)


def test_terminal_text_is_never_wider_than_its_columns(analysis):
    lines = terminal_text(analysis).splitlines()
    words = lines[: next(i for i, line in enumerate(lines) if line.startswith("---"))]
    assert max(map(len, words)) <= COLUMNS
    assert all(line == plain(line) for line in lines)


def test_columns_of_zeros_are_left_out_and_named():
    table = Table(
        title="t",
        header=("method", "lost", "surely lost", "-", "seeds"),
        rows=(("GRPO", "1.0", "0.0", "0", "3"), ("F-GRPO", "0.0", "0.0", "0", "3")),
        notes=("A note.",),
        breaks=(1, 4),
    )
    made = without_zeros(table)
    assert made.header == ("method", "lost", "seeds")
    assert made.rows == (("GRPO", "1.0", "3"), ("F-GRPO", "0.0", "3"))
    assert made.breaks == (1, 2)
    assert made.notes == ("Left out, since 0 in every row: surely lost, -.", "A note.")
    assert without_zeros(made) is made


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        ("F-GRPO N=8 gamma=0.5", r"F-GRPO $N$=8 $\gamma$=0.5"),
        ("gamma", r"$\gamma$"),
        ("N", "$N$"),
        ("focal_gamma and NSR", r"focal\_gamma and NSR"),
        ("at N = 8, gamma-rays", r"at $N$ = 8, gamma-rays"),
    ],
)
def test_group_size_and_exponent_are_symbols_in_latex(text, set_as):
    assert escape_latex(text) == set_as


def test_every_table_of_a_paper_has_a_label_of_its_own(analysis):
    shown = list(pictures(analysis))
    text = latex(analysis, shown) + latex_appendix(analysis, shown)
    labels = re.findall(r"\\label\{(.*?)\}", text)
    assert len(labels) == len(set(labels)) > 12
    assert all(re.fullmatch(r"(tab|fig):[a-z0-9-]+", label) for label in labels)
