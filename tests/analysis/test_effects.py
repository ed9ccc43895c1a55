"""Effects of N and of prompts per step: planted ones come out, and only of full grids."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.comparisons import Resamples
from fgrpo_bench.analysis.effects import contrasts, effects, full_grids
from fgrpo_bench.analysis.rows import EffectRow, from_frame, make_cell
from fgrpo_bench.report.tables.comparisons import effect_tables
from fgrpo_bench.specs import Cell
from fgrpo_bench.stats.intervals import estimate
from tests.support.on_paths import PATHS
from tests.support.planted import log_odds, rate_of
from tests.support.report import MANY_PROBLEMS, small_sweep

SIZES, PROMPTS = (2, 8, 32), (8, 32, 128)
PAIRS = list(product(SIZES, PROMPTS))
BASE, OF_SIZE, OF_PROMPTS, OF_BOTH = 0.45, 0.02, 0.03, 0.005


def planted(size: int, prompts: int) -> float:
    """A success rate that is a plane with a twist in log2 N and log2 prompts, each centred."""
    x, z = np.log2(size) - 3, np.log2(prompts) - 5
    return float(BASE + OF_SIZE * x + OF_PROMPTS * z + OF_BOTH * x * z)


def test_contrasts_are_orthogonal_and_give_the_slopes_that_were_planted():
    weights = contrasts(PAIRS)
    values = np.array([planted(*pair) for pair in PAIRS])
    slopes = {name: float(values @ w) for name, w in weights.items()}
    planted_slopes = {"group_size": 0.02, "prompts_per_step": 0.03, "product": 0.005}
    assert slopes == pytest.approx(planted_slopes)
    matrix = np.array([np.ones(9), *weights.values()])
    products = matrix @ matrix.T
    assert np.allclose(products, np.diag(np.diag(products)))


def rates(point, rng, n_problems):
    """Success rates of the grid; those of the base models are its middle."""
    cell = point.cell
    rate = BASE if cell is None else planted(cell.group_size, cell.prompts_per_step)
    return np.full(n_problems, rate)


GRID = ("sweep.grid.group_size=[2,8,32]", "sweep.cells=[]")
OWN_PROMPTS = "+sweep.grid.prompts_per_step=[8,32,128]"


@pytest.fixture(scope="module")
def of_grid(tmp_path_factory):
    root = tmp_path_factory.mktemp("grid")
    overrides = (*GRID, OWN_PROMPTS, MANY_PROBLEMS, "sweep.family=null")
    return analyse(small_sweep(root, "groupsize", *overrides, success_rates=rates))


@pytest.mark.slow
def test_planted_effects_on_pass_at_1_lie_within_their_intervals(of_grid):
    rows = {row.effect: row for row in from_frame(EffectRow, of_grid.effects) if row.k == 1}
    for name, truth in (
        ("group_size", OF_SIZE),
        ("prompts_per_step", OF_PROMPTS),
        ("product", OF_BOTH),
    ):
        assert rows[name].low < truth < rows[name].high, name
        assert rows[name].p < 0.05 and len(rows[name].cells) == 9
        assert np.mean(rows[name].by_seed) == pytest.approx(rows[name].change)
    ks = {row.k for row in from_frame(EffectRow, of_grid.effects)}
    assert ks == set(of_grid.ks)


@pytest.mark.slow
def test_an_effect_resamples_clusters_where_problems_have_them(of_grid):
    from fgrpo_bench.analysis.checkpoints import read_scores

    scores = read_scores(of_grid.results)
    resamples = Resamples(scores, of_grid.averages)
    clusters = np.arange(len(next(iter(scores["countdown"].values())).problems)) // 4
    resamples.clusters = lambda benchmark: clusters
    row = next(effects(resamples, of_grid.by_cell, ("countdown",), of_grid.ks))
    weights = contrasts(PAIRS)["group_size"]
    names = [f"grpo-n{n}-g0-p{p}" for n, p in PAIRS]
    values = sum(
        w * scores["countdown"][name, of_grid.by_cell[name].step].values
        for w, name in zip(weights, names, strict=True)
    )
    by_hand = estimate(values, limits=(-np.inf, np.inf), clusters=clusters)[0]
    assert (row.low, row.high) == pytest.approx((by_hand.low, by_hand.high))


def along_paths(point, rng, n_problems):
    """N = 32 keeps more on its path; prompts of a step say how fast a path is gone."""
    base = log_odds(np.random.default_rng([4, point.seed]).beta(0.7, 3.0, n_problems))
    if point.cell is None:
        return rate_of(base)
    progress = {8: 0.6, 32: 1.0}[point.cell.prompts_per_step] * point.step / 20
    stretch = 1 + {8: 1.6, 32: 0.2}[point.cell.group_size] * progress**2
    return rate_of(1.5 * progress + stretch * (base + 1) - 1)


@pytest.mark.slow
def test_what_only_makes_runs_faster_has_no_effect_at_equal_pass_at_1(tmp_path):
    grid = ("sweep.grid.group_size=[8,32]", "+sweep.grid.prompts_per_step=[8,32]", "sweep.cells=[]")
    overrides = (*PATHS, *grid, "sweep.family=null")
    sweep = analyse(small_sweep(tmp_path, "groupsize", *overrides, success_rates=along_paths))
    rows = [row for row in from_frame(EffectRow, sweep.effects) if row.k == 32]
    last, equal = (
        {row.effect: row for row in rows if (row.pass_at_1 is None) == is_last}
        for is_last in (True, False)
    )
    assert last["prompts_per_step"].change < -0.01, "faster runs have lost more when they end"
    kept = equal["group_size"]
    assert kept.low > 0 and np.mean(kept.by_seed) == pytest.approx(kept.change)
    assert equal["prompts_per_step"].low < 0 < equal["prompts_per_step"].high
    assert abs(equal["prompts_per_step"].change) < 0.01
    assert not [row for row in from_frame(EffectRow, sweep.effects) if row.k == 1 and row.pass_at_1]
    tables = {table.title: table for table in effect_tables(sweep)}
    (title,) = [title for title in tables if "at equal pass@1" in title]
    assert tables[title].header[3:5] == ("pass@1 of all", "pass@32")


@pytest.mark.slow
def test_effects_are_of_full_grids_alone(of_grid, analysis):
    assert analysis.effects.is_empty(), "no prompts of their own"
    cells = [
        make_cell(
            Cell(algorithm="grpo", group_size=n, focal_gamma=g, prompts_per_step=p),
            step=1,
            n_planned=3,
        )
        for g in (0.0, 1.0)
        for n, p in PAIRS
    ]
    assert [len(grid) for grid in full_grids(cells)] == [9, 9]
    assert [len(grid) for grid in full_grids(cells[1:])] == [9], "the first lacks a cell"
    assert not list(full_grids(cells[:3])), "one N alone"
