"""What a planned sweep can show, against simulation and against a denser search."""

import json

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.power import ASSUMED, main, pooled_seed_variance, stored_seed_variances
from fgrpo_bench.stats.passk import draw_moments, pass_at_k
from fgrpo_bench.stats.power import (
    LEVEL,
    Parts,
    advice,
    draws_needed,
    half_width,
    power_with_seeds,
    seeds_needed,
    smallest_difference,
    smallest_effect,
    smallest_range,
    worst_variance,
)
from fgrpo_bench.stats.spread import spread, variance
from fgrpo_bench.stats.staged import fixed_design
from sweeps.cli import main as sweeps
from tests.support.report import small_sweep

PARTS = Parts(seeds=1e-6, problems=4e-7, n_problems=64)
"""So small that even two seeds in a family of 44 show some difference below 1."""


@pytest.mark.parametrize(("n", "k"), [(16, 1), (64, 64), (512, 256), (256, 8)])
def test_the_worst_variance_is_the_worst_of_a_dense_search(n, k):
    rates = np.linspace(1e-5, 0.9999, 6_000)
    dense = draw_moments(n_samples=n, k=k, success_rate=rates)[1].max()
    assert worst_variance(fixed_design(n), k) == pytest.approx(dense, rel=5e-3)


def test_where_n_is_k_a_problem_is_a_coin_flip():
    assert worst_variance(fixed_design(256), 256) == pytest.approx(0.25, rel=1e-3)
    assert "coin flip, draw 2k" in advice(design=fixed_design(256), k=256, n_problems=30)
    assert "coin flip" not in advice(design=fixed_design(512), k=256, n_problems=30)


def test_the_smallest_effect_is_found_with_the_promised_power():
    n, k, problems = 64, 8, 200
    rates = np.exp(np.linspace(np.log(1e-4), np.log(0.9), 400))
    worst = rates[draw_moments(n_samples=n, k=k, success_rate=rates)[1].argmax()]
    rng = np.random.default_rng(0)
    draws = pass_at_k(n_samples=n, n_correct=rng.binomial(n, worst, (4_000, problems)), k=k)
    sd = 2**0.5 * draws.mean(axis=1).std()
    effect = smallest_effect(design=fixed_design(n), k=k, n_problems=problems)
    assert effect == pytest.approx((1.959964 + 0.841621) * sd, rel=0.05)


def test_the_draws_needed_are_the_fewest():
    needed = draws_needed(k=8, n_problems=100, target_half_width=0.05)
    assert half_width(design=fixed_design(needed), k=8, n_problems=100) <= 0.05
    assert half_width(design=fixed_design(needed - 1), k=8, n_problems=100) > 0.05
    assert draws_needed(k=8, n_problems=100, target_half_width=0.5) == 8
    assert draws_needed(k=256, n_problems=30, target_half_width=1e-4) is None


def test_the_command_says_what_draws_show_and_refuses_what_makes_no_sense(capsys):
    assert (
        main(["--k", "8", "--problems", "100", "--n-samples", "8", "16", "--half-width", "0.1"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("pass@8 +-10 points at 95%: ")
    for wrong in (
        ["--problems", "0"],
        ["--seeds", "1"],
        ["--difference", "5"],
        ["--family", "4"],
        ["--seed-sd", "0.02"],
        ["--column", "countdown", "--seeds", "3"],
        ["--seeds", "3", "--from", "nope", "--root", "/nowhere"],
        ["--k", "100000000000"],
    ):
        with pytest.raises(SystemExit):
            main(["--k", "8", "--problems", "9", *wrong])


def test_the_average_of_benchmarks_is_as_sure_as_its_parts_together():
    shared = {"design": fixed_design(256), "k": 64}
    one = smallest_effect(**shared, n_problems=100)
    assert smallest_effect(**shared, n_problems=[100]) == one
    assert smallest_effect(**shared, n_problems=[100] * 4) == pytest.approx(one / 2)
    small = smallest_effect(**shared, n_problems=30)
    both = smallest_effect(**shared, n_problems=[30, 100])
    assert both == pytest.approx((one**2 + small**2) ** 0.5 / 2)
    said = advice(**shared, n_problems=[30, 100])
    assert said.startswith("pass@64 of 30 + 100 problems from 256 draws each")


def simulated_power(
    difference: float,
    *,
    n_seeds: int,
    parts: Parts,
    family: int = 1,
    simulations: int = 2_000,
    rng: np.random.Generator,
) -> float:
    """Share of simulated sweeps in which a true difference is significant by the interval whose
    level is that of the family: values [seeds, problems] of normal effects of seeds, of problems,
    and of what is left, which is half of the seeds' own variance."""
    n = parts.n_problems
    of_seeds = rng.normal(0, (parts.seeds / 2) ** 0.5, (n_seeds, 1, simulations))
    of_problems = rng.normal(0, (parts.problems * n) ** 0.5, (1, n, simulations))
    left = rng.normal(0, (parts.seeds / 2 * n) ** 0.5, (n_seeds, n, simulations))
    values = difference + of_seeds + of_problems + left
    by_seed = values.mean(axis=1)
    widths = variance(by_seed, spread(values)).half_width((1 - LEVEL) / family / 2)
    return float(np.mean(np.abs(by_seed.mean(axis=0)) > widths))


@pytest.mark.parametrize("family", [1, 4, 44])
@pytest.mark.parametrize(
    "n_seeds", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 5, 10))]
)
def test_the_stated_power_is_within_four_points_of_a_simulated_one(n_seeds, family):
    asked = {"n_seeds": n_seeds, "parts": PARTS, "family": family}
    rng = np.random.default_rng([n_seeds, family])
    shown = smallest_difference(**asked)
    assert power_with_seeds(shown, **asked) == pytest.approx(0.8, abs=1e-3)
    for difference in (0.7 * shown, shown):
        stated = power_with_seeds(difference, **asked)
        assert simulated_power(difference, **asked, rng=rng) == pytest.approx(stated, abs=0.04)


def test_without_a_difference_a_family_says_significant_no_more_often_than_its_level():
    for n_seeds in (3, 5, 10):
        assert power_with_seeds(0.0, n_seeds=n_seeds, parts=PARTS) < 0.07
        assert power_with_seeds(0.0, n_seeds=n_seeds, parts=PARTS, family=44) < 0.07 / 10


def test_the_seeds_needed_are_the_inverse_of_what_seeds_show():
    for n_seeds in (3, 5, 10):
        for family in (1, 4):
            asked = {"parts": PARTS, "family": family}
            shown = smallest_difference(n_seeds=n_seeds, **asked)
            assert seeds_needed(shown, **asked) == n_seeds
            assert seeds_needed(0.99 * shown, **asked) > n_seeds
            assert power_with_seeds(shown, n_seeds=n_seeds - 1, **asked) < 0.8
    assert seeds_needed(1e-3, parts=PARTS) is None, "the problems alone are less sure than that"
    assert smallest_difference(n_seeds=2, parts=Parts(seeds=0.01, problems=0, n_problems=9)) is None


def test_one_seed_says_nothing_about_others_and_is_refused():
    with pytest.raises(ValueError, match=r"n_seeds=1: .* cannot be estimated .*; plan at least 2"):
        power_with_seeds(0.1, n_seeds=1, parts=PARTS)


def test_where_nothing_varies_any_difference_is_shown():
    still = Parts(seeds=0.0, problems=0.0, n_problems=9)
    assert power_with_seeds(0.0, n_seeds=3, parts=still) == 0
    assert power_with_seeds(0.01, n_seeds=3, parts=still) == 1


def comparison(by_seed, *, k=1, old="a", group="the question", error=0.02):
    return {
        "column": "countdown",
        "k": k,
        "group": group,
        "old": old,
        "standard_error": error,
        "seeds": list(range(len(by_seed))),
        "by_seed": by_seed,
        "n_problems": 100,
    }


def test_the_parts_of_stored_comparisons_are_pooled_over_the_pairs_of_trained_cells():
    rows = [comparison([0.0, 0.01, 0.02]), comparison([0.0, 0.02, 0.04])]
    rows += [comparison([0.0, 0.5, 1.0], old="base"), comparison([0.0, 0.5, 1.0], group=None)]
    rows += [comparison([0.0, 0.03, 0.06], k=16)] * 2 + [comparison([0.7])]
    own = pooled_seed_variance(pl.DataFrame(rows), "countdown", "here")
    assert own.source == "as in here, 2 pairs of 3 seeds" and own.degrees == 4
    assert own.at(1).seeds == pytest.approx((0.01**2 + 0.02**2) / 2)
    left = [0.02**2 - sd**2 / 3 for sd in (0.01, 0.02)]
    assert own.at(1).problems == pytest.approx(np.mean(left))
    assert own.at(1, [400]).problems == pytest.approx(np.mean(left) / 4)
    assert own.at(4).seeds == pytest.approx((own.at(1).seeds + 0.03**2) / 2), "halfway in log k"
    assert own.at(256) == own.at(16)
    assert pooled_seed_variance(pl.DataFrame(rows), "math500", "here") is None


def test_an_assumed_average_varies_with_the_sizes_of_its_benchmarks():
    once = ASSUMED.at(256, [256])
    assert once.problems == pytest.approx(ASSUMED.problems[256])
    assert ASSUMED.at(256, [256, 256]).problems == pytest.approx(once.problems / 2)
    assert ASSUMED.at(256, [256, 64]).problems == pytest.approx(5 / 4 * once.problems, rel=0.01)


def planned(capsys, *words):
    assert sweeps(["plan", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_plan_says_what_its_family_detects_from_stored_seeds_or_from_assumed_ones(
    tmp_path, capsys
):
    root, three = f"run_root={tmp_path}", "sweep.grid.seed=[11,12,13]"
    single = planned(capsys, "smoke", root).splitlines()[-1]
    assert single.startswith(
        "family of 2 (k = 1, 16; countdown): one training seed says nothing about other training "
        "runs (intervals are over problems only); 3 seeds would show differences of "
    )
    assumed = planned(capsys, "smoke", three, root).splitlines()[-1]
    shown = [smallest_difference(n_seeds=3, parts=ASSUMED.at(k, [16]), family=2) for k in (1, 16)]
    low, high = (f"{100 * value:.1f}" for value in shown)
    assert assumed.startswith(
        f"family of 2 (k = 1, 16; countdown): 80% power for differences of {low} points at k = 1 "
        f"and {high} at k = 16 (3 seeds; spread of seeds assumed as in the shipped countdown sweeps"
        "); 5 seeds would show "
    )
    results = small_sweep(tmp_path, "smoke", three)
    other = "version=v2"
    assert planned(capsys, "smoke", three, root, other).splitlines()[-1] == assumed
    analysed(results)
    stored = planned(capsys, "smoke", three, root, other).splitlines()[-1]
    assert "spread of seeds as in smoke countdown-tiny v1, 1 pair of 3 seeds)" in stored
    answer = json.loads(planned(capsys, "smoke", three, root, other, "--json"))
    (power,) = answer["power"]
    own = stored_seed_variances(results.paths)["countdown"]
    ranges = [
        smallest_range(n_seeds=3, parts=own.at(k, [16]), family=2, degrees=2) for k in (1, 16)
    ]
    assert power["planned"] == [
        {"difference": one.difference, "ends": list(one.ends)} for one in ranges
    ]
    assert f"differences of {ranges[0]} points at k = 1 and {ranges[1]} at k = 16" in stored
    with (results.paths.analysis / "comparisons.parquet").open("ab") as file:
        file.write(b"x")
    assert planned(capsys, "smoke", three, root, other).splitlines()[-1] == assumed, "damaged"


@pytest.mark.slow
def test_a_plan_says_beside_the_draws_whether_they_or_the_seeds_limit(tmp_path, capsys):
    root = f"run_root={tmp_path}"
    asked = planned(capsys, "groupsize", root)
    shown = smallest_difference(n_seeds=6, parts=ASSUMED.at(256, [256]), family=2)
    assert f"more than the training seeds: {100 * shown:.1f} points" in asked
    three = planned(capsys, "groupsize", root, "sweep.grid.seed=[11,12,13]")
    shown = smallest_difference(n_seeds=3, parts=ASSUMED.at(256, [256]), family=2)
    assert f"; the training seeds limit: {100 * shown:.1f} points with these" in three
    assert "training seeds limit beside them" in planned(capsys, "smoke", root)


def test_the_command_says_how_many_seeds_a_difference_needs_and_what_seeds_show(tmp_path, capsys):
    asked = ["--k", "1", "256", "--family", "4"]
    assert main([*asked, "--difference", "0.05"]) == 0
    low, high = capsys.readouterr().out.splitlines()
    needed = seeds_needed(0.05, parts=ASSUMED.at(256), family=4)
    assert high.startswith(f"k = 256, family of 4: {needed} seeds show a difference of 5 points ")
    assert low.endswith(
        "(spread of seeds assumed as in the shipped countdown sweeps; 256 problems)"
    )
    given = ["--seed-sd", "0.02", "--problems", "500"]
    assert main([*asked, "--seeds", "5", *given]) == 0
    parts = Parts(seeds=0.02**2, problems=ASSUMED.at(1, [500]).problems, n_problems=500)
    shown = 100 * smallest_difference(n_seeds=5, parts=parts, family=4)
    assert f"k = 1, family of 4: 5 seeds show differences of {shown:.1f} points" in (
        capsys.readouterr().out
    )
    assert main([*asked, "--seeds", "5", "--difference", "0.05", *given]) == 0
    power = power_with_seeds(0.05, n_seeds=5, parts=parts, family=4)
    assert f"5 seeds show a difference of 5 points with {power:.0%} power" in (
        capsys.readouterr().out
    )
    assert main([*asked, "--difference", "0.001"]) == 0
    assert "not even 1,000 seeds show a difference of 0.1 points" in capsys.readouterr().out


def test_the_command_goes_by_a_stored_sweep_and_refuses_one_that_was_not_analysed(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke", "sweep.grid.seed=[11,12]")
    asked = ["--k", "8", "--seeds", "3", "--from", "smoke", "--root", str(tmp_path)]
    with pytest.raises(SystemExit):
        main(asked)
    assert "--from smoke: no stored analysis has comparisons of two seeds: run " in (
        capsys.readouterr().err
    )
    analysed(results)
    assert main(asked) == 0
    assert "as in smoke countdown-tiny v1, 1 pair of 2 seeds; 24 problems" in (
        capsys.readouterr().out
    )
