"""What figures are made of: axes, looks, labels and smoothing."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from fgrpo_bench.documents.style import RC
from fgrpo_bench.report.figures import _smooth, by_axis, curves, pictures, training, varied_axis
from fgrpo_bench.report.looks import looks
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Cell
from tests.support.report import ONE_SEED, small_sweep


def cell(algorithm, group_size, focal_gamma):
    return Cell(
        method="x", algorithm=algorithm, group_size=group_size, focal_gamma=focal_gamma, step=1
    )


def test_the_second_figure_runs_along_n_where_n_varies_and_else_along_gamma():
    base, small, large = cell(None, None, None), cell("grpo", 2, 0.0), cell("grpo", 8, 0.0)
    focal = cell("grpo", 8, 1.0)
    assert varied_axis([base, small, large, focal]) == "group_size"
    assert varied_axis([base, large, focal]) == "focal_gamma"
    assert varied_axis([base, large]) == "focal_gamma"


def test_no_two_cells_of_the_shipped_sweeps_look_alike(summary):
    made = looks(summary.cells)
    assert len({(look.color, look.marker) for look in made.values()}) == len(summary.cells)


def test_smoothing_keeps_a_constant_and_leaves_gaps_out():
    np.testing.assert_allclose(_smooth(np.full(20, 0.7), 5), 0.7)
    gap = np.array([1.0, np.nan, 1.0, 1.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(_smooth(gap, 3)[:5], 1.0)
    assert np.isnan(_smooth(gap, 3)[6])


def test_lines_and_error_bars_are_the_estimates(summary):
    line = curves(summary, "countdown").axes[0].get_lines()[1]
    label = "GRPO N=2"
    scores = next(summary.scores["countdown", c] for c in summary.cells if c.label == label)
    np.testing.assert_allclose(line.get_xdata(), summary.ks)
    np.testing.assert_allclose(line.get_ydata(), [100 * made.mean for made in scores.estimates])
    figure = by_axis(summary, "countdown", "group_size")
    last = figure.axes[1].containers[0].lines[0].get_ydata()
    assert last[0] == pytest.approx(100 * scores.estimates[-1].mean)


def test_with_one_k_there_are_neither_curves_nor_a_plane(tmp_path):
    one_k = summarise(small_sweep(tmp_path, "groupsize", ONE_SEED, "experiment.evaluation.ks=[1]"))
    found = {picture.name: picture for picture in pictures(one_k)}
    assert set(found) == {f"{n}-countdown" for n in ("by-group-size", "coverage")} | {
        "training-grpo"
    }
    assert found["by-group-size-countdown"].caption.startswith("pass@1 on countdown against")
    assert len(found["by-group-size-countdown"].draw().axes) == 1


def test_every_algorithm_has_its_panel_and_every_cell_its_line(tmp_path):
    gamma = summarise(small_sweep(tmp_path, "gamma", ONE_SEED))
    with matplotlib.rc_context(RC):
        panels = curves(gamma, "countdown").axes
    assert [axes.get_title(loc="left") for axes in panels] == ["GRPO", "DAPO", "CISPO"]
    for axes in training(gamma, "dapo").axes:
        assert len(axes.get_lines()) == 4
