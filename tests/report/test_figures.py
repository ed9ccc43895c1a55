"""What figures are made of (axes, styles of cells, labels and smoothing), and that they have the
width that they have on paper, with letters that can be read there."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import fgrpo_bench.report
from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.rows import CellRow, FirstLoss, to_frame
from fgrpo_bench.documents.style import (
    COLUMN,
    PAGE,
    RC,
    SIZE,
    SMALL,
    drawings,
    in_math,
    wrapped,
)
from fgrpo_bench.documents.table import in_column
from fgrpo_bench.report.cell_styles import cell_styles
from fgrpo_bench.report.figures import pictures
from fgrpo_bench.report.figures.curves import (
    _smooth,
    by_axis,
    curves,
    losses,
    training,
    varied_axis,
)
from fgrpo_bench.report.figures.plane import CIRCLE, POINTS, forest, in_question, plane
from tests.support.report import ONE_SEED, small_sweep, with_frames


@pytest.fixture(scope="module")
def of_two_rates(tmp_path_factory):
    factors = "+sweep.grid.learning_rate_factor=[0.5,1]"
    return analyse(small_sweep(tmp_path_factory.mktemp("rates"), "groupsize", ONE_SEED, factors))


def cell(algorithm, group_size, focal_gamma):
    return CellRow(
        cell="base" if algorithm is None else "x",
        method="x",
        algorithm=algorithm,
        group_size=group_size,
        focal_gamma=focal_gamma,
        step=1,
        n_planned=3,
    )


def test_the_second_figure_runs_along_n_where_n_varies_and_else_along_gamma():
    base, small, large = cell(None, None, None), cell("grpo", 2, 0.0), cell("grpo", 8, 0.0)
    focal = cell("grpo", 8, 1.0)
    assert varied_axis([base, small, large, focal]) == "group_size"
    assert varied_axis([base, large, focal]) == "focal_gamma"
    assert varied_axis([base, large]) == "focal_gamma"


def test_no_two_cells_of_the_shipped_sweeps_look_alike(analysis):
    made = cell_styles(list(analysis.by_cell.values()))
    assert len({(style.color, style.marker) for style in made.values()}) == len(analysis.by_cell)


def test_smoothing_keeps_a_constant_and_leaves_gaps_out():
    np.testing.assert_allclose(_smooth(np.full(20, 0.7), 5), 0.7)
    gap = np.array([1.0, np.nan, 1.0, 1.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(_smooth(gap, 3)[:5], 1.0)
    assert np.isnan(_smooth(gap, 3)[6])


def test_lines_and_error_bars_are_the_estimates(analysis):
    line = curves(analysis, "countdown").axes[0].get_lines()[1]
    rows = analysis.over_k("countdown", "grpo-n2-g0")
    np.testing.assert_allclose(line.get_xdata(), analysis.ks)
    np.testing.assert_allclose(line.get_ydata(), [100 * row.mean for row in rows])
    figure = by_axis(analysis, "countdown", "group_size")
    last = figure.axes[1].containers[0].lines[0].get_ydata()
    assert last[0] == pytest.approx(100 * rows[-1].mean)


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["group_size", "focal_gamma"])
def test_cells_of_several_learning_rates_are_lines_of_their_own(of_two_rates, axis):
    axes = by_axis(of_two_rates, "countdown", axis).axes[0]
    names = axes.get_legend_handles_labels()[1]
    assert len(set(names)) == len(names)
    trained = [cell for cell in of_two_rates.by_cell.values() if not cell.is_base]
    settings = {(cell.learning_rate_factor, cell.focal_gamma if axis == "group_size" else
                 cell.group_size) for cell in trained}  # fmt: skip
    assert len(axes.containers) == len(settings)
    assert sum("lr x0.5" in name for name in names) == len(settings) / 2
    lines = [container.lines[0] for container in axes.containers]
    assert all((np.diff(line.get_xdata()) > 0.5).all() for line in lines), "each cell once"
    assert sum(len(line.get_ydata()) for line in lines) == len(trained)
    assert {line.get_linestyle() for line in lines} == {"-", ":"}


@pytest.mark.slow
@pytest.mark.rare
def test_no_legend_leaves_out_a_learning_rate(of_two_rates):
    cells = of_two_rates.by_cell.values()
    made = cell_styles(list(cells))
    assert len(set(made.values())) == len(cells)
    for draw in (curves, plane):
        axes = draw(of_two_rates, "countdown").axes[0]
        words = axes.get_legend_handles_labels()[1]
        assert len(set(words)) == len(cells), draw
    joined = [line for line in axes.get_lines() if line.get_color() == "#9ab6d3"]
    assert [line.get_linestyle() for line in joined] == ["-", ":"]


def test_every_trained_cell_has_its_band_over_k(analysis):
    figure = losses(analysis, "countdown")
    panels = [axes for axes in figure.axes if axes.get_lines()]
    assert [axes.get_title(loc="left") or axes.get_title() for axes in panels] == [
        in_math(cell.label) for cell in analysis.by_cell.values() if not cell.is_base
    ]
    band = analysis.band("countdown", "grpo-n2-g0", "base")
    zero, curve, *_ = panels[0].get_lines()
    np.testing.assert_allclose(curve.get_xdata(), [row.k for row in band])
    np.testing.assert_allclose(curve.get_ydata(), [100 * row.difference for row in band])
    (area,) = panels[0].collections
    heights = np.concatenate([path.vertices[:, 1] for path in area.get_paths()])
    assert heights.min() == pytest.approx(100 * min(row.low for row in band))
    assert heights.max() == pytest.approx(100 * max(row.high for row in band))
    assert set(zero.get_ydata()) == {0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high", "ends", "words"),
    [
        (None, None, None, "no loss"),
        (3, None, (3, 32), "first loss: k ≥ 3, or none"),
        (3, 8, (3, 8), "first loss: k = 3 to 8"),
        (3, 3, (3, 3), "first loss: k = 3"),
    ],
)
def test_the_first_loss_is_a_bar_on_the_zero_line(analysis, low, high, ends, words):
    loss = FirstLoss(column="countdown", new="grpo-n2-g0", old="base", low=low, high=high, words="")
    changed = with_frames(analysis, first_loss=to_frame(FirstLoss, [loss]))
    axes = losses(changed, "countdown").axes[0]
    bars = [line for line in axes.get_lines() if line.get_linewidth() == 3]
    assert [tuple(line.get_xdata()) for line in bars] == ([ends] if ends else [])
    assert [text.get_text() for text in axes.texts] == [words]


@pytest.mark.slow
def test_with_one_k_there_are_neither_curves_nor_a_plane(tmp_path):
    one_k = analyse(small_sweep(tmp_path, "groupsize", ONE_SEED, "experiment.evaluation.ks=[1]"))
    made = {picture.name: picture for picture in pictures(one_k)}
    assert set(made) == {
        *(f"{n}-countdown" for n in ("by-group-size", "differences", "coverage")),
        "training-grpo",
    }
    assert made["by-group-size-countdown"].caption.startswith("Pass@1 on countdown against")
    assert len(made["by-group-size-countdown"].draw().axes) == 1


def test_the_differences_of_the_question_have_a_row_a_pair_and_a_dot_a_seed(analysis):
    rows = in_question(analysis, "countdown")
    with matplotlib.rc_context(RC):
        panels = forest(analysis, "countdown").axes
    assert [axes.get_title(loc="left") for axes in panels] == ["pass@1", "pass@32"]
    for axes, k in zip(panels, (1, 32), strict=True):
        drawn = [list(line.get_xdata()) for line in axes.lines]
        for row in (row for row in rows if row.k == k):
            assert [100 * row.low, 100 * row.high] in drawn
            assert [100 * seed for seed in row.by_seed] in drawn
    assert len(panels[0].get_yticks()) == len({row.name for row in rows})


@pytest.mark.slow
def test_every_algorithm_has_its_panel_and_every_cell_its_line(tmp_path):
    gamma = analyse(small_sweep(tmp_path, "gamma", ONE_SEED))
    with matplotlib.rc_context(RC):
        panels = curves(gamma, "countdown").axes
    assert [axes.get_title(loc="left") for axes in panels] == ["GRPO", "DAPO", "CISPO"]
    for axes in training(gamma, "dapo").axes:
        assert len(axes.get_lines()) == 4


@pytest.mark.slow
def test_many_algorithms_share_a_plane_of_numbered_points_and_curves_stand_in_rows(tmp_path):
    five = ["sweep.grid.algorithm=[grpo,rloo,maxrl,psr,nsr]", "sweep.cells=[]"]
    analysis = analyse(small_sweep(tmp_path, "methods", ONE_SEED, *five))
    better = {"is_on_front": False, "dominated_by": ["nsr-n8-g0"]}
    front = [
        row | (better if row["cell"] == "psr-n8-g0" else {}) for row in analysis.front.to_dicts()
    ]
    analysis = with_frames(analysis, front=pl.DataFrame(front, schema=analysis.front.schema))
    (axes,) = plane(analysis, "countdown").axes
    labels = [cell.label for cell in analysis.by_cell.values()]
    assert [text.get_text() for text in axes.texts] == [str(i) for i in range(6)]
    circles = [line for line in axes.lines if line.get_markersize() == CIRCLE]
    hollow = [line.get_markerfacecolor() == "white" for line in circles]
    assert [label for label, is_hollow in zip(labels, hollow, strict=True) if is_hollow] == [
        "PSR N=8"
    ]
    places = [line.get_transform().transform(line.get_xydata())[0] for line in circles]
    scale = POINTS / axes.figure.dpi
    gaps = [scale * np.linalg.norm(a - b) for a, b in combinations(places, 2)]
    assert len(gaps) == 15 and min(gaps) > CIRCLE
    assert any(line.get_markersize() == 2 for line in axes.lines), "none had to move"
    panels = [axes for axes in curves(analysis, "countdown").axes if axes.axison]
    assert len(panels) == 5 and len({axes.get_subplotspec().rowspan.start for axes in panels}) == 2


# on paper


INCH = 72
"""In points."""


@pytest.mark.slow
@pytest.mark.parametrize("width", [PAGE, COLUMN])
def test_files_are_as_wide_as_the_paper_wants(analysis, width):
    name = "differences-countdown" if width == PAGE else in_column("differences-countdown")
    (draw,) = [p.versions[name] for p in pictures(analysis) if name in p.versions]
    drawn = drawings(draw)
    svg, pdf = drawn["svg"].decode(), drawn["pdf"].decode("latin-1")
    assert re.search(r'<svg [^>]*?\bwidth="([\d.]+)pt"', svg)[1] == f"{INCH * width:g}"
    assert re.search(r"/MediaBox \[ 0 0 ([\d.]+) ", pdf)[1] == f"{INCH * width:g}"
    assert r"$\gamma$" in svg and "gamma=" not in svg


PRINTED = {True: 3.25, False: 6.75}
"""Inches that a figure has in an article of two columns: of one column, and of the text."""
EXAMPLES = Path(fgrpo_bench.report.__file__).parent / "examples"


def smallest(svg: str, *, is_narrow: bool) -> float:
    """Points of the smallest letters of a drawing when it is printed; of text as glyphs."""
    width = float(re.search(r'<svg [^>]*?\bwidth="([\d.]+)pt"', svg)[1]) / INCH
    letters = [100 * float(scale) for scale in re.findall(r"scale\(([\d.]+) -", svg)]
    assert letters and "<text" not in svg
    return min(letters) * PRINTED[is_narrow] / width


@pytest.mark.slow
def test_no_letter_of_a_figure_is_below_seven_points_in_print(analysis, every_step):
    paths = [each for each in pictures(analyse(every_step)) if each.name.startswith("paths-")]
    drawn = {
        name: drawings(draw, ["svg"])["svg"].decode()
        for picture in (*pictures(analysis), *paths)
        for name, draw in picture.versions.items()
    }
    for name, svg in drawn.items():
        assert smallest(svg, is_narrow=name.endswith("-column")) >= SMALL - 0.01, name
    kept = list(EXAMPLES.rglob("*.svg"))
    assert len(drawn) == 14 and len(kept) > 10
    for file in kept:
        assert smallest(file.read_text(), is_narrow=False) >= SMALL - 0.01, file


@pytest.mark.slow
def test_every_figure_keeps_its_words_apart_on_the_page_and_in_a_column(analysis):
    names = []
    for picture in pictures(analysis):
        for name, draw in picture.versions.items():
            names.append(name)
            with matplotlib.rc_context(RC):
                figure = draw()
                figure.draw_without_rendering()
            assert figure.get_figwidth() == (COLUMN if name == in_column(picture.name) else PAGE)
            words = shown(figure)
            assert {text.get_fontsize() for text in words} <= {SIZE, SMALL}
            boxes = [(text.get_text(), Text.get_window_extent(text)) for text in words]
            page = figure.bbox.padded(1)
            assert not [text for text, box in boxes if not page.containsx(box.x1)], name
            assert not [text for text, box in boxes if not page.contains(box.x0, box.y0)], name
            for (text, box), (other, beside) in combinations(boxes, 2):
                assert not box.padded(-1).overlaps(beside.padded(-1)), (name, text, other)
            if picture.name.startswith("plane-"):
                (axes,) = figure.axes
                assert {text.get_text() for text in axes.texts} == {
                    in_math(cell.label) for cell in analysis.by_cell.values()
                }
                bars = [bar for c in axes.containers for each in c.lines[2] for bar in
                        each.get_segments()]  # fmt: skip
                ends = [Bbox(axes.transData.transform(bar)) for bar in bars]
                inside = [Text.get_window_extent(text) for text in axes.texts]
                assert len(ends) == 16 and not [b for b in inside if b.count_overlaps(ends)]
    assert len(names) == 12


def shown(figure):
    """What is written in a figure: no tick outside its axis, and none of an empty panel."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden |= {t.label1 for t in ticks if not low <= t.get_loc() <= high}
        hidden |= {t.label2 for t in ticks}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text() and text not in hidden
        if text.axes is None or text.axes.axison
    ]


def test_symbols_are_math_and_nothing_else_is():
    assert in_math("F-GRPO N=8 gamma=1") == r"F-GRPO $N$=8 $\gamma$=1"
    assert in_math("cost in $") == r"cost in \$"
    assert wrapped("pass@256 on a benchmark with a long name (%)", 1.2).count("\n") >= 1
