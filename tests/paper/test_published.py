"""The published figures: all there, each in its place, and printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest

from fgrpo_bench.documents.table import plain_text
from fgrpo_bench.paper.published import BENCHMARKS, SCHEMA, lookup, published
from fgrpo_bench.paper.published.__main__ import TITLES, main, paper_tables
from fgrpo_bench.specs import Cell

NAMES = {"N": "group_size", "method": "method", "gamma": "gamma", "benchmark": "benchmark"}


def placed(number):
    """(model, method, gamma, N, benchmark, k) -> value of every filled cell of a paper table."""
    for table in paper_tables(number):
        model = table.title.split(", ", 1)[1].split(":")[0]
        for row in table.rows:
            named = dict(zip(table.header, map(plain_text, row), strict=True))
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
    cell = Cell(algorithm="grpo", group_size=8, focal_gamma=0.0)
    where = {"model": "qwen2.5-7b", "benchmark": "math500", "k": 256}
    assert lookup(cell, **where) == pytest.approx(0.928)
    assert lookup(replace(cell, focal_gamma=0.5), **where) == pytest.approx(0.951)
    assert lookup(replace(cell, algorithm="grpo-kl"), **where) is not None
    assert lookup(replace(cell, focal_gamma=0.25), **where) is None
    assert lookup(replace(cell, learning_rate_factor=0.5), **where) is None
    assert lookup(None, **where) is None
    assert lookup(cell, **where | {"model": "other"}) is None


def test_the_command_prints_tables_in_every_format_of_a_report(capsys):
    assert main(["--table", "10"]) == 0
    assert "| GRPO | 8 | 0 | 37.3 / 64.1 |" in capsys.readouterr().out
    assert main(["--format", "latex"]) == 0
    assert capsys.readouterr().out.count(r"\begin{table") == len(paper_tables())
    assert main(["--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.count("<table>") == len(paper_tables()) and "<td>37.3 / 64.1</td>" in page
    assert main(["--table", "10", "--format", "csv"]) == 0
    rows = pl.read_csv(capsys.readouterr().out.encode(), schema=SCHEMA)
    assert rows.equals(published().filter(pl.col("table").is_in([2, 10])))
    assert main(["--format", "csv"]) == 0
    assert pl.read_csv(capsys.readouterr().out.encode(), schema=SCHEMA).equals(published())
    assert main(["--table", "3"]) == 1
    assert "table 3: there are 1, 4, 6" in capsys.readouterr().err
