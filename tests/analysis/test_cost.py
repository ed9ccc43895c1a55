"""What the runs of a cell trained on, against their metrics."""

from __future__ import annotations

from statistics import fmean

import pytest


def test_active_groups_are_a_mean_over_all_steps_and_entropy_over_the_last_tenth(mixed):
    rows = mixed.cost.filter(cell="grpo-n8-g0").to_dicts()
    runs = [p for p in mixed.results.points if p.point_id.startswith("grpo-n8-g0-")]
    for row in rows:
        until = [point.metrics().sort("step").head(row["step"]) for point in runs]
        last = -(-row["step"] // 10)
        active = [fmean(frame["active_fraction"]) for frame in until]
        entropy = [fmean(frame["entropy"].tail(last)) for frame in until]
        assert row["active_fraction"] == pytest.approx(fmean(active), rel=1e-12)
        assert row["entropy"] == pytest.approx(fmean(entropy), rel=1e-12)
    assert [row["step"] for row in rows] == [10, 20]
    assert rows[0]["entropy"] != rows[1]["entropy"]


def test_a_base_model_was_not_trained_on_anything(mixed):
    (row,) = mixed.cost.filter(cell="base").to_dicts()
    assert row["active_fraction"] is row["entropy"] is None
