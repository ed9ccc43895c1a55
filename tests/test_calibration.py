"""The calibration study, held to what its table in DESIGN.md says."""

import pytest

from tests import calibration


@pytest.fixture(scope="module")
def found():
    return {one.what: one for one in calibration.study(calibration.TIMES)}


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 16, 64])
@pytest.mark.parametrize("test", ["test of the draws", "the same, rescaled"])
def test_the_tests_of_the_draws_have_the_size_and_power_that_they_promise(found, test, k):
    assert abs(found[f"size, {test}, k={k}"].found - 0.05) <= 0.02
    assert found[f"power at the smallest effect, {test}, k={k}"].found >= 0.78


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 16, 64])
def test_the_papers_test_rejects_less_than_it_says(found, k):
    assert found[f"size, paper's subsampling test, k={k}"].found <= 0.02
    assert found[f"power at the smallest effect, paper's subsampling test, k={k}"].found <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 64])
def test_an_interval_over_problems_holds_what_it_promises(found, k):
    name = f"coverage, paired bootstrap of problems, one run each, k={k}"
    assert abs(found[name].found - 0.95) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 64])
@pytest.mark.parametrize("n_seeds", [3, 10])
@pytest.mark.parametrize("over", ["problems and seeds", "problems, seeds and draws"])
def test_intervals_over_seeds_hold_what_they_promise(found, over, n_seeds, k):
    name = f"coverage, bootstrap of {over}, {n_seeds} seeds, k={k}"
    assert abs(found[name].found - 0.95) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 64])
@pytest.mark.parametrize("over", ["problems and seeds", "problems, seeds and draws"])
def test_intervals_over_two_seeds_hold_no_less_than_they_promise(found, over, k):
    assert found[f"coverage, bootstrap of {over}, 2 seeds, k={k}"].found >= 0.93
