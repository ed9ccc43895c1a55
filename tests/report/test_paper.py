"""The published figures beside those of a sweep."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.documents.table import plain_text
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.report.build import RESULTS, render
from fgrpo_bench.report.tables.paper import against_paper
from tests.support.report import with_declaration, with_frames
from tests.support.synthetic import write_sweep


def rows_of(table):
    """The words of every row after its first three, by those."""
    texts = [tuple(map(plain_text, row)) for row in table.rows]
    return {row[:3]: row[3:] for row in texts}


@pytest.mark.slow
def test_ours_stand_beside_the_papers_with_the_difference(nine):
    table = next(table for table in against_paper(nine) if table.title.startswith("math500:"))
    assert table.header[:6] == ("method", "N", "gamma", "ours @1", "paper @1", "difference @1")
    rows = rows_of(table)
    ours, paper, difference = rows["GRPO", "8", "0"][:3]
    assert paper == "75.8"
    assert float(difference) == pytest.approx(float(ours) - 75.8, abs=0.11)
    assert rows["F-GRPO", "8", "2"][1:3] == ("-", "-")
    assert rows["Base", "-", "-"][1:3] == ("-", "-")


@pytest.mark.slow
def test_our_averages_stand_beside_the_papers(nine):
    tables = {table.title.partition(":")[0]: table for table in against_paper(nine)}
    assert list(tables) == list(nine.columns)
    assert "average in-domain" in tables and "average out-of-domain" in tables
    for column, theirs in (
        ("average in-domain", ["37.3", "64.1", "37.2", "70.4"]),
        ("average out-of-domain", None),
    ):
        rows = rows_of(tables[column])
        for gamma, method in ((0, "GRPO"), (1, "F-GRPO")):
            cell = next(c for c in nine.by_cell.values() if c.focal_gamma == gamma)
            means = [nine.estimate(column, cell, k).mean for k in (1, 256)]
            row = rows[method, "8", str(gamma)]
            assert [float(row[0]), float(row[3])] == [round(100 * mean, 1) for mean in means]
            differences = [
                100 * mean - float(row[place]) for mean, place in zip(means, (1, 4), strict=True)
            ]
            assert [float(row[2]), float(row[5])] == pytest.approx(differences, abs=0.06)
            if theirs:
                assert [row[1], row[4]] == theirs[2 * gamma : 2 * gamma + 2]
        assert rows["Base", "-", "-"][1:3] == ("-", "-")
        assert "left out" not in " ".join(tables[column].notes)
        assert any("Checkpoints: the last one" in note for note in tables[column].notes)


@pytest.mark.slow
def test_the_csv_has_the_published_fractions_and_averages_beside_ours_when_asked(nine):
    rows = pl.read_csv(render(nine, "csv", compare_paper=True).encode())
    cell = rows.filter(method="F-GRPO", focal_gamma=2.0, k=256, benchmark="average in-domain")
    assert cell["paper_pass_at_k"].to_list() == [pytest.approx(0.707)]
    ours = cell["pass_at_k"] - cell["difference"]
    assert ours.to_list() == [pytest.approx(0.707)]
    assert rows.filter(method="Base")["paper_pass_at_k"].unique().to_list() == [None]
    assert set(rows.columns) - set(RESULTS) == {"paper_pass_at_k", "difference"}
    assert "paper_pass_at_k" not in render(nine, "csv").splitlines()[0]


def without(analysis, *names):
    """The analysis as if these benchmarks had not been asked for."""

    def take_out(declared):
        for name in names:
            del declared["experiment"]["evaluation"]["benchmarks"][name]

    return with_declaration(analysis, take_out)


@pytest.mark.parametrize(
    ("missing", "title", "words"),
    [
        (["amc23"], "average in-domain", "our average in-domain is over aime24, aime25, math500,"),
        (["gpqa"], "average out-of-domain", "our average out-of-domain is over ifeval, synlogic."),
        (["gpqa", "ifeval"], None, "of these this sweep has synlogic alone."),
    ],
)
def test_an_average_over_other_benchmarks_is_left_out_and_the_reason_told(
    nine, missing, title, words
):
    tables = against_paper(without(nine, *missing))
    assert title not in {table.title.partition(":")[0] for table in tables}
    assert len([table for table in tables if "Avg." in table.title]) == 1
    (note,) = [note for note in tables[0].notes if "left out" in note]
    name = "Avg. Math" if "amc23" in missing else "Avg. OOD"
    assert note.startswith(f"The published {name} is left out: it is over ") and words in note


def test_a_domain_that_was_not_run_is_not_spoken_of(nine):
    tables = against_paper(without(nine, "gpqa", "ifeval", "synlogic"))
    assert not [note for table in tables for note in table.notes if "left out" in note]


MAZES = [
    "experiment=maze",
    "sweep.grid.group_size=[8]",
    "experiment.evaluation.n_samples=512",
    "experiment.evaluation.ks=[1,64,128,256]",
    "experiment.evaluation.benchmarks.maze.n_problems=20",
]


def test_mazes_stand_beside_table_4(tmp_path):
    analysis = analyse(write_sweep(tmp_path, "maze", MAZES))
    (table,) = against_paper(analysis)
    assert table.title == "maze: ours beside arXiv 2602.06717, maze-3M, in percent"
    assert table.header[3:] == tuple(
        f"{what} @{k}" for k in (1, 128, 256) for what in ("ours", "paper", "difference")
    )
    rows = rows_of(table)
    theirs = {
        gamma: rows["F-GRPO" if gamma != "0" else "GRPO", "8", gamma] for gamma in ["0", "0.5", "1"]
    }
    assert {gamma: row[1::3] for gamma, row in theirs.items()} == {
        "0": ("72.2", "73.3", "73.4"),
        "0.5": ("83.4", "84.0", "84.0"),
        "1": ("76.3", "76.6", "76.6"),
    }
    for row in theirs.values():
        ours, paper, difference = (list(map(float, row[start::3])) for start in range(3))
        assert [a - b for a, b in zip(ours, paper, strict=True)] == pytest.approx(
            difference, abs=0.11
        )
    assert rows["Base", "-", "-"][1::3] == ("-", "-", "-")
    (note,) = [note for note in table.notes if note.startswith("The paper's figures")]
    assert "does not say of how many draws and runs" in note and "1,024" not in note
    smaller = with_declaration(analysis, lambda d: d["experiment"]["train"]["task"].update(size=13))
    with pytest.raises(ValueError, match=r"maze \(mazes of size 17\); this sweep has .* on maze$"):
        against_paper(smaller)


def test_what_is_of_less_than_was_planned_has_a_dagger_beside_the_papers(nine):
    own = (pl.col("column") == "math500") & (pl.col("cell") == "grpo-n8-g0")
    lacks = pl.when(own).then(pl.lit(["1 of 2 seeds"])).otherwise("lacks")
    changed = with_frames(nine, estimates=nine.estimates.with_columns(lacks=lacks))
    table = next(each for each in against_paper(changed) if each.title.startswith("math500:"))
    marked = {row[:3]: row[3][0].incomplete for row in table.rows}
    assert [key for key, dagger in marked.items() if dagger] == [("GRPO", "8", "0")]
    assert any(note.startswith("Incomplete, 1 of 2 seeds") for note in table.notes)


@pytest.mark.slow
def test_what_the_paper_does_not_have_is_refused(analysis, finished, capsys):
    with pytest.raises(ValueError, match=r"no figures of model 'qwen2-280k'; it has qwen2.5-7b"):
        against_paper(analysis)
    named = {"name": "qwen2.5-7b"}
    changed = with_declaration(analysis, lambda d: d["experiment"]["train"]["model"].update(named))
    with pytest.raises(ValueError, match=r"this sweep has k in .* on countdown"):
        against_paper(changed)
    paths = finished.paths
    asked = [paths.sweep, "--root", str(paths.root), "--compare-paper", "--format", "md"]
    assert report(asked) == 1
    assert "leave out --compare-paper" in capsys.readouterr().err
