"""Delta NLL by cell, and the paper's figure of the same cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.published import published_delta_nll
from fgrpo_bench.results import SweepResults
from fgrpo_bench.specs import Cell
from tests.support.report import scored


def test_a_sweep_without_scores_has_no_rows(analysis) -> None:
    assert analysis.likelihood.is_empty()


def test_scores_stand_by_seed_beside_the_papers(finished: SweepResults, tmp_path: Path) -> None:
    runs = [point for point in finished.points if point.label == "grpo-n8-g0"]
    values = {point.point_id: 0.5 + i for i, point in enumerate(runs)}
    (row,) = analyse(scored(finished, tmp_path, values)).likelihood.to_dicts()
    assert (row["cell"], row["seeds"], row["by_seed"]) == (
        "grpo-n8-g0",
        [11, 12, 13],
        [0.5, 1.5, 2.5],
    )
    assert (row["mean"], row["n_rare"], row["published"]) == (1.5, [300] * 3, "0.68")


def test_an_empty_set_has_no_score(finished: SweepResults, tmp_path: Path) -> None:
    point = next(point for point in finished.points if point.cell is not None)
    assert analyse(scored(finished, tmp_path, {point.point_id: None})).likelihood.is_empty()


@pytest.mark.parametrize(
    ("gamma", "size", "figure"), [(0.0, 2, "0.19"), (0.0, 32, "0.52"), (0.5, 8, "0.46")]
)
def test_the_papers_figures_are_those_of_its_table_2(gamma: float, size: int, figure: str) -> None:
    cell = Cell(algorithm="grpo", group_size=size, focal_gamma=gamma)
    assert published_delta_nll(cell) == figure
    assert published_delta_nll(replace(cell, learning_rate_factor=0.5)) is None
