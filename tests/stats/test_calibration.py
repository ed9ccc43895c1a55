"""The calibration study, held to docs/developers/calibration.md; each test is a part of it.

It simulates for minutes, so `make test-slow` alone runs it.
"""

import pytest

from tests import calibration, few_seeds_calibration, path_calibration, staged_calibration
from tests.support.planted import TIMES

pytestmark = [pytest.mark.slow, pytest.mark.rare]
KS = [1, 16, 64]


def shares(findings):
    return {one.what: one.found for one in findings}


@pytest.mark.parametrize("k", KS)
def test_the_tests_of_the_draws_have_the_size_that_they_promise_and_the_papers_is_too_small(k):
    found = shares(calibration.size_of_tests(k, TIMES))
    assert abs(found[f"size, test of the draws, k={k}"] - 0.05) <= 0.02
    assert abs(found[f"size, the same, rescaled, k={k}"] - 0.05) <= 0.02
    assert found[f"size, paper's subsampling test, k={k}"] <= 0.02


@pytest.mark.parametrize("k", KS)
def test_the_tests_of_the_draws_have_the_power_that_they_promise_and_the_papers_has_less(k):
    found = shares(calibration.power_of_tests(k, TIMES))
    power = "power at the smallest effect"
    assert found[f"{power}, test of the draws, k={k}"] >= 0.78
    assert found[f"{power}, the same, rescaled, k={k}"] >= 0.78
    assert found[f"{power}, paper's subsampling test, k={k}"] <= 0.5


@pytest.mark.parametrize("k", KS[::2])
def test_an_interval_over_problems_holds_what_it_promises(k):
    assert abs(calibration.coverage_over_problems(k, TIMES).found - 0.95) <= 0.02


@pytest.mark.parametrize("n_seeds", [2, 3, 5, 10])
def test_intervals_and_bands_over_seeds_hold_what_they_promise(n_seeds):
    found = shares(calibration.coverage_over_seeds(n_seeds, TIMES))
    assert len(found) == 10
    for what, share in found.items():
        assert share >= 0.93, what
        # A set of first losses is where a whole band lies: it may hold more. So may two seeds.
        if n_seeds > 2 and "first loss" not in what:
            assert share <= 0.97 + 2 * (0.97 * 0.03 / TIMES) ** 0.5, what


@pytest.mark.parametrize("k", [1, 16, 256])
def test_p_of_the_draws_holds_where_random_numbers_or_a_base_model_are_shared(k):
    found = shares(calibration.size_with_shared_streams(k, 500))
    assert len(found) == 2 and max(found.values()) <= 0.05 + 0.025


WORLDS = [
    ("normal, seeds / left = 16", 0.07, 0.12),
    ("near the ceiling", 0.10, 0.12),
    ("skewed seeds", 0.10, 0.05),
]
"""With the most that the rule may call significant, and the least that the former one did."""


@pytest.mark.parametrize(("world", "most", "least_by_former"), WORLDS)
def test_a_family_of_nulls_is_hardly_ever_significant_and_by_the_degrees_of_95_percent_often(
    world, most, least_by_former
):
    for one in few_seeds_calibration.false_significant(world, 3, 256, 800):
        assert one.found <= most + 2 * (most * (1 - most) / one.times) ** 0.5, one
    assert one.n_comparisons == 44 and one.former > least_by_former, one


@pytest.mark.parametrize(("n_seeds", "size"), [(5, 4), (10, 4), (10, 44)])
def test_the_rule_of_every_level_costs_no_power_where_the_former_held(n_seeds, size):
    for ratio in (0.3, 7.0):
        found, former = few_seeds_calibration.power_in_a_family(n_seeds, size, ratio, 1_000)
        assert former > 0.4 and found >= former - 0.05


WORLDS_OF_PATHS = [*path_calibration.EQUAL, "lift of 10 points, speeds 1 and 1"]


def test_six_seeds_repeat_their_verdicts_and_three_say_that_they_may_not():
    six = few_seeds_calibration.repetitions("pooled over all seeds", 6, 60)
    three = few_seeds_calibration.repetitions("pooled over all seeds", 3, 120)
    assert six.both >= 0.95 and six.said >= 0.9
    assert three.both <= 0.65 and abs(three.said - three.each) <= 0.12


@pytest.mark.parametrize("world", WORLDS_OF_PATHS)
def test_equal_paths_are_hardly_called_different_and_a_lift_of_10_points_is_found(world):
    found = path_calibration.study(250, (world,))
    assert len(found) == 4
    for one in found:
        if one.what.startswith("called different"):
            assert one.found <= 0.07, one
        elif one.what.startswith("found"):
            assert one.found >= 0.8, one
        else:
            assert one.found >= 0.92 - one.error, one


ENDS = [
    ("few", 0.998, 256, 512, 256, 3),
    ("spread", 0.999, 256, 512, 30, 2),
    ("spread", 0.005, 1, 32, 256, 1),
    ("alike", 0.995, 16, 32, 256, 5),
    ("few", 0.995, 512, 1_024, 1_000, 3),
    ("spread", 0.001, 512, 1_024, 30, 1),
]


@pytest.mark.parametrize(("shape", "truth", "k", "n", "n_problems", "n_seeds"), ENDS)
def test_near_0_and_100_percent_intervals_hold_the_truth(shape, truth, k, n, n_problems, n_seeds):
    made = few_seeds_calibration.near_an_end(
        shape, truth, k, n=n, n_problems=n_problems, n_seeds=n_seeds, times=500
    )
    assert min(made.cells, made.differences) >= 0.92 - 0.02, made
    assert made.cells_before < made.cells and made.most_added <= 2 * max(1, 256 / n_problems)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_intervals_over_clusters_hold_the_truth_and_without_them_they_do_not(n_seeds):
    found = shares(few_seeds_calibration.with_clusters(50, 5, n_seeds, times=500))
    named = f"50 clusters of 5, {n_seeds} seeds"
    assert found[f"{named}, cell, clusters"] >= 0.90 > 0.88 > found[f"{named}, cell, no clusters"]
    assert found[f"{named}, difference, clusters"] >= 0.90


@pytest.mark.parametrize("k", KS)
def test_under_staged_designs_the_test_of_the_draws_has_the_size_that_it_promises(k):
    found = shares(staged_calibration.size_of_draws_test(k, TIMES))
    assert len(found) == len(staged_calibration.PAIRS)
    for what, share in found.items():
        assert abs(share - 0.05) <= 0.02, what


@pytest.mark.parametrize("k", [1, 64])
def test_under_staged_designs_an_interval_over_problems_holds_what_it_promises(k):
    for each in staged_calibration.coverage_over_problems(k, TIMES):
        assert abs(each.found - 0.95) <= 0.02, each.what


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_under_staged_designs_intervals_over_seeds_hold_what_they_promise(n_seeds):
    for each in staged_calibration.coverage_over_seeds(n_seeds, TIMES):
        assert abs(each.found - 0.95) <= 0.02, each.what


def test_stopped_draws_bias_the_usual_formula_and_not_ours():
    for each in staged_calibration.biases(TIMES):
        assert abs(each.ours) <= 4 * each.error, each
        # At k = 64 a problem that stops is all but solved, so hardly a bias is left.
        assert each.k == 64 or each.usual > 10 * each.error, each
