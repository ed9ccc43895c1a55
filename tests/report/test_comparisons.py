"""Which cells are compared, and that a difference is paired and counted right."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.pairs import group_sizes
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.report.summary import Cell
from fgrpo_bench.stats.multiplicity import benjamini_hochberg, holm
from fgrpo_bench.stats.significance import draws_test
from tests.support.report import ONE_SEED, constant, copy, forget, small_sweep


def pairs(comparisons):
    return list(dict.fromkeys((one.pair.group, one.pair.name) for one in comparisons))


def grpo(group_size, focal_gamma=0.0):
    method = "F-GRPO" if focal_gamma else "GRPO"
    return Cell(
        method=method, algorithm="grpo", group_size=group_size, focal_gamma=focal_gamma, step=300
    )


def test_the_group_size_sweep_asks_four_questions(comparisons):
    focal, sizes = "GRPO N=8, focal weight against none", "GRPO without focal weight, group size"
    largest, base = "F-GRPO against GRPO N=32", "Training against the base model"
    assert pairs(comparisons) == [
        *((focal, name) for name in ("gamma=0.5", "gamma=1")),
        *((sizes, f"N={name}") for name in ("2 to 4", "2 to 8", "2 to 32", "4 to 8")),
        *((sizes, f"N={name}") for name in ("8 to 16", "8 to 32", "16 to 32")),
        *((largest, name) for name in ("N=8 gamma=0.5", "N=8 gamma=1")),
        *((base, f"GRPO N={size}") for size in (2, 4, 8, 16, 32)),
        *((base, name) for name in ("F-GRPO N=8 gamma=0.5", "F-GRPO N=8 gamma=1")),
    ]
    assert sorted({one.k for one in comparisons}) == [1, 32]


def test_the_gamma_sweep_compares_within_each_algorithm(tmp_path):
    found = pairs(compare(summarise(small_sweep(tmp_path, "gamma", ONE_SEED))))
    assert [group for group, _ in found if "base model" not in group] == [
        f"{name} N=8, focal weight against none"
        for name in ("GRPO", "DAPO", "CISPO")
        for _ in "123"
    ]
    assert sum("base model" in group for group, _ in found) == 12


def test_a_trough_that_nobody_named_before_is_marked_as_picked_afterwards():
    means = {grpo(2): 0.9, grpo(4): 0.8, grpo(8): 0.85, grpo(16): 0.95}
    names = [pair.name for pair in group_sizes(means, 256)]
    marked = "N=4 to 16 (4: lowest pass@256, picked afterwards)"
    assert names == ["N=2 to 4", "N=2 to 16", "N=4 to 8", marked, "N=8 to 16"]
    with_focal = [pair.name for pair in group_sizes({**means, grpo(4, 1.0): 0.9}, 256)]
    assert "N=4 to 16" in with_focal and marked not in with_focal


def test_a_single_group_size_gives_no_comparison_of_sizes():
    assert list(group_sizes({grpo(8): 0.5, grpo(8, 1.0): 0.6}, 256)) == []


def test_differences_are_new_minus_old_paired_by_seed(finished, comparisons):
    one = comparisons[1]
    assert (one.pair.name, one.k, one.seeds) == ("gamma=0.5", 32, (11, 12, 13))
    tables = {point.point_id: point.passk("countdown") for point in finished.points}
    expected = [
        np.mean(new["pass_at_k"].to_numpy() - old["pass_at_k"].to_numpy())
        for new, old in (
            (tables[f"grpo-n8-g0.5-s{seed}"][-24:], tables[f"grpo-n8-g0-s{seed}"][-24:])
            for seed in (11, 12, 13)
        )
    ]
    assert one.difference.by_seed == pytest.approx(tuple(expected))
    assert one.difference.mean == pytest.approx(np.mean(expected))
    assert one.agreeing == 3


def test_only_seeds_that_both_cells_have_are_compared(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n8-g0-s11", "grpo-n8-g1-s13")
    found = {(one.pair.name, one.k): one for one in compare(summarise(results))}
    assert found["gamma=1", 1].seeds == (12,)
    assert found["gamma=0.5", 1].seeds == (12, 13)
    assert len(found["gamma=1", 1].difference.by_seed) == 1


def test_cells_without_results_are_not_compared(finished, tmp_path):
    results = forget(copy(finished, tmp_path), *(f"grpo-n8-g0-s{seed}" for seed in (11, 12, 13)))
    found = pairs(compare(summarise(results)))
    assert not any("focal weight against none" in group for group, _ in found)
    assert ("F-GRPO against GRPO N=32", "N=8 gamma=1") in found


def test_shown_means_that_the_interval_excludes_zero(comparisons):
    for one in comparisons:
        assert one.shown == (one.difference.low > 0 or one.difference.high < 0)
        assert one.shown or not one.shown_corrected
    assert {one.shown for one in comparisons} == {True, False}


def test_p_values_go_with_the_intervals_and_are_corrected_over_all_comparisons(comparisons):
    p = [one.difference.p_value for one in comparisons]
    assert [one.p_holm for one in comparisons] == holm(p)
    assert [one.p_bh for one in comparisons] == benjamini_hochberg(p)
    for one in comparisons:
        assert 0 <= one.difference.p_value <= one.p_bh <= one.p_holm <= 1
        assert one.shown == (one.difference.p_value < 0.05)


def test_the_draws_alone_are_tested_where_there_are_twice_k(finished, comparisons):
    one = comparisons[0]
    assert (one.pair.name, one.k) == ("gamma=0.5", 1)
    tables = {p.point_id: p.passk("countdown").filter(k=1) for p in finished.points}
    new, old = (
        [c for seed in (11, 12, 13) for c in tables[f"grpo-n8-g{g}-s{seed}"]["n_correct"]]
        for g in ("0.5", "0")
    )
    n = tables["grpo-n8-g0-s11"]["n_scored"][0]
    assert one.p_draws == draws_test(old=old, new=new, n_samples=n, k=1).p_value
    assert comparisons[1].k == 32 and (comparisons[1].p_draws is None) == (n < 64)


def test_equal_cells_differ_by_nothing_and_that_is_not_shown(tmp_path):
    rates = constant(Base=1.0, GRPO=1.0, F_GRPO=1.0)
    for one in compare(summarise(small_sweep(tmp_path, success_rates=rates))):
        assert (one.difference.mean, one.difference.low, one.difference.high) == (0, 0, 0)
        assert not one.shown and one.agreeing == 0
