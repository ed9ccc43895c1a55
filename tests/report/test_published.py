"""The published figures: all there, each in its place, and beside ours."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace

import polars as pl
import pytest

from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.report.against_paper import against_paper
from fgrpo_bench.report.published import (
    BENCHMARKS,
    TITLES,
    lookup,
    main,
    paper_tables,
    published,
)
from fgrpo_bench.report.shape import text_of

NAMES = {"N": "group_size", "method": "method", "gamma": "gamma", "benchmark": "benchmark"}


def placed(number):
    """(model, method, gamma, N, benchmark, k) -> value of every filled cell of a paper table."""
    for table in paper_tables(number):
        model = table.title.split(", ", 1)[1].split(":")[0]
        for row in table.rows:
            named = dict(zip(table.header, map(text_of, row), strict=True))
            key = (model, named["method"], float(named["gamma"]), int(named.get("N", 8)))
            for column, cell in named.items():
                if column in NAMES or cell == "-":
                    continue
                if column.startswith("k="):
                    benchmark = named.get("benchmark", "Maze17")
                    yield (*key, benchmark, int(column[2:])), cell
                elif column == "Delta NLL":
                    yield (*key, "delta_nll_rare", 0), cell
                else:
                    first, last = cell.split(" / ")
                    yield (*key, column, 1), first
                    yield (*key, column, 256), last


@pytest.mark.parametrize("number", TITLES)
def test_every_figure_stands_exactly_once_under_its_row_and_column(number):
    wanted = published().filter(pl.col("table").is_in([number, 2] if number == 10 else [number]))
    keys = ("model", "method", "gamma", "group_size", "benchmark", "k")
    expected = Counter((tuple(row[key] for key in keys), row["value"]) for row in wanted.to_dicts())
    assert Counter(placed(number)) == expected
    assert set(expected.values()) == {1}


def test_all_figures_are_there():
    assert len(published()) == 2278
    assert sum(len(list(placed(number))) for number in TITLES) == 2278


def test_averages_agree_with_their_benchmarks_to_the_papers_rounding():
    domains = {
        "Avg. Math": list(BENCHMARKS.values())[:6],
        "Avg. OOD": ["IFEval", "SynLogic", "GPQA"],
    }
    cells = {key: float(value) for number in (1, 10, 11) for key, value in placed(number)}
    checked = 0
    for (*cell, benchmark, k), value in cells.items():
        if benchmark in domains:
            parts = [cells[*cell, part, k] for part in domains[benchmark]]
            assert value == pytest.approx(sum(parts) / len(parts), abs=0.1 + 1e-9)
            checked += 1
    assert checked == (18 + 6 + 4 - 2) * 2 * 2  # GRPO and F-GRPO at N = 8 are in 1 and 10


def test_rows_of_one_method_agree_between_tables():
    found = {}
    for number in TITLES:
        for key, value in placed(number):
            assert found.setdefault(key, value) == value


def test_a_cell_of_ours_finds_its_published_figure_as_a_fraction():
    cell = {"model": "qwen2.5-7b", "group_size": 8, "benchmark": "math500", "k": 256}
    assert lookup(**cell, algorithm="grpo", focal_gamma=0.0) == pytest.approx(0.928)
    assert lookup(**cell, algorithm="grpo", focal_gamma=0.5) == pytest.approx(0.951)
    assert lookup(**cell, algorithm="grpo-kl", focal_gamma=0.0) is not None
    assert lookup(**cell, algorithm="grpo", focal_gamma=0.25) is None
    assert lookup(**cell, algorithm=None, focal_gamma=None) is None
    assert lookup(**cell | {"model": "other"}, algorithm="grpo", focal_gamma=0.0) is None


def renamed(summary, model, benchmark):
    """The summary as if it were of another model and benchmark."""
    declared = deepcopy(summary.results.declaration)
    experiment = declared["declaration"]["experiment"]
    experiment["train"]["model"]["name"] = model
    experiment["evaluation"]["benchmarks"] = {benchmark: None}
    scores = {(benchmark, cell): found for (_, cell), found in summary.scores.items()}
    return replace(summary, results=replace(summary.results, declaration=declared), scores=scores)


def test_ours_stand_beside_the_papers_with_the_difference(summary):
    (table,) = against_paper(renamed(summary, "qwen2.5-7b", "math500"))
    assert table.header == ("method", "N", "gamma", "ours @1", "paper @1", "difference @1")
    rows = {row[:3]: row[3:] for row in table.rows}
    ours, paper, difference = rows["GRPO", "8", "0"]
    assert paper == "75.8"
    assert float(difference) == pytest.approx(float(ours) - 75.8, abs=0.1)
    assert rows["F-GRPO", "8", "1"][1:] == ("-", "-")  # table 1 has gamma = 0.5 there
    assert rows["Base", "-", "-"][1:] == ("-", "-")


def test_what_the_paper_does_not_have_is_refused(summary, finished, capsys):
    with pytest.raises(ValueError, match=r"no figures of model 'qwen2-280k'; it has qwen2.5-7b"):
        against_paper(summary)
    with pytest.raises(ValueError, match=r"this sweep has k in .* on countdown"):
        against_paper(renamed(summary, "qwen2.5-7b", "countdown"))
    paths = finished.paths
    asked = [paths.sweep, "--root", str(paths.root), "--compare-paper", "--format", "md"]
    assert report(asked) == 1
    assert "leave out --compare-paper" in capsys.readouterr().err


def test_the_command_prints_tables_in_both_formats(capsys):
    assert main(["--table", "10"]) == 0
    assert "| GRPO | 8 | 0 | 37.3 / 64.1 |" in capsys.readouterr().out
    assert main(["--format", "latex"]) == 0
    assert capsys.readouterr().out.count(r"\begin{table}") == len(paper_tables())
    assert main(["--table", "3"]) == 1
    assert "table 3: there are 1, 4, 6" in capsys.readouterr().err
