"""The calibration study, held to what its table in DESIGN.md says; each test is a part of it."""

import pytest

from tests import calibration
from tests.calibration import TIMES

pytestmark = pytest.mark.slow
REST = pytest.mark.study
"""Rows that CI leaves to `make test-slow`: at every k the same code runs."""
KS = [pytest.param(1, marks=REST), pytest.param(16, marks=REST), 64]


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


@pytest.mark.parametrize("k", KS[::2])
@pytest.mark.parametrize("n_seeds", [pytest.param(10, marks=REST), 3])
def test_intervals_over_seeds_hold_what_they_promise(n_seeds, k):
    found = shares(calibration.coverage_of_intervals(k, n_seeds, TIMES))
    assert len(found) == 2
    for share in found.values():
        assert abs(share - 0.95) <= 0.02


@pytest.mark.parametrize("k", KS[::2])
def test_intervals_over_two_seeds_hold_no_less_than_they_promise(k):
    found = shares(calibration.coverage_of_intervals(k, 2, TIMES))
    assert len(found) == 2
    assert min(found.values()) >= 0.93
