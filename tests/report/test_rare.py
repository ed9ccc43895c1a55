"""Delta NLL beside the table of cells."""

from pathlib import Path

import pytest

from fgrpo_bench.report import rare
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.main_tables import main_tables
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.results import SweepResults
from tests.support.report import scored


def test_a_sweep_without_scores_has_the_same_table(finished: SweepResults) -> None:
    summary = summarise(finished)
    (table, *_) = main_tables(summary, compare(summary))
    assert rare.OURS not in table.header
    assert rare.beside(table, summary) is table


def test_scores_stand_beside_the_papers_of_the_same_cell(
    finished: SweepResults, tmp_path: Path
) -> None:
    trained = [point for point in finished.points if point.algorithm is not None]
    cells = {point.cell for point in trained if point.group_size == 8 and not point.focal_gamma}
    (cell,) = cells
    values = {p.point_id: 0.5 + i for i, p in enumerate(p for p in trained if p.cell == cell)}
    summary = summarise(scored(finished, tmp_path, values))
    (table, *_) = main_tables(summary, compare(summary))
    assert table.header[-2:] == (rare.OURS, rare.THEIRS)
    rows = {row[:3]: row[-2:] for row in table.rows}
    mean = sum(values.values()) / len(values)
    shown = f"{mean:.2f} [{min(values.values()):.2f}, {max(values.values()):.2f}]"
    assert rows["GRPO", "8", "0"] == (shown, "0.68")
    assert rows["Base", "-", "-"] == ("0", "-")
    others = [
        row for key, row in rows.items() if key not in {("GRPO", "8", "0"), ("Base", "-", "-")}
    ]
    assert {ours for ours, _ in others} == {"-"}
    assert "300 rare correct answers" in table.notes[-1]


def test_an_empty_set_has_no_score(finished: SweepResults, tmp_path: Path) -> None:
    point = next(point for point in finished.points if point.algorithm is not None)
    assert rare.scores(scored(finished, tmp_path, {point.point_id: None})) == {}


@pytest.mark.parametrize(
    ("method", "gamma", "size", "figure"),
    [("GRPO", 0.0, 2, "0.19"), ("GRPO", 0.0, 32, "0.52"), ("F-GRPO", 0.5, 8, "0.46")],
)
def test_the_papers_figures_are_those_of_its_table_2(
    method: str, gamma: float, size: int, figure: str
) -> None:
    cell = rare.Cell(method=method, algorithm="grpo", group_size=size, focal_gamma=gamma, step=1)
    assert rare.papers(cell) == figure
