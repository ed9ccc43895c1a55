"""Problems retained, lost and gained against the base models."""

from __future__ import annotations

import pytest

from fgrpo_bench.analysis import analyse
from tests.support.report import ONE_SEED, constant, forget, small_sweep

FATES = ("retained", "lost", "gained", "neither")


def test_every_problem_counts_once_and_the_base_models_have_no_row(analysis):
    rows = analysis.coverage.to_dicts()
    assert len(rows) == 7 * 3 and "base" not in {row["cell"] for row in rows}
    for row in rows:
        assert sum(row[fate] for fate in FATES) == pytest.approx(24)
        assert (row["n_seeds"], row["n_problems"]) == (3, 24)


def test_what_is_certain_is_counted_where_the_draws_are_enough(tmp_path):
    rates = constant(Base=0.5, GRPO=0.0, F_GRPO=0.5)
    analysis = analyse(small_sweep(tmp_path, "groupsize", ONE_SEED, success_rates=rates))
    row = analysis.covered("countdown", "grpo-n8-g0", 8)
    assert (row.surely_lost, row.surely_gained) == (24, 0)
    assert row.lost == pytest.approx(24, abs=0.05)
    assert row.lost_share == pytest.approx(1, abs=0.01)
    same = analysis.covered("countdown", "grpo-n8-g1", 8)
    assert (same.surely_lost, round(same.retained, 3)) == (0, 24)
    few = analysis.covered("countdown", "grpo-n8-g0", 32)  # from 64 draws none is surely lost
    assert few.surely_lost == 0


def test_without_base_models_there_is_no_coverage(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    bases = [point.point_id for point in results.points if point.algorithm is None]
    assert analyse(forget(results, *bases)).coverage.is_empty()
